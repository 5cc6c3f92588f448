/* The store that rank 0 serves in addition to that of torchrun's agent, which
 * admits any client and keeps the keys of earlier starts. The agent's store has
 * only the record of rank 0's store (store_pmi.h).
 *
 * On one host, in a job without a secret, rank 0 serves it on loopback, where
 * it rejects other users (tcp_local.h). The other ranks take no address from
 * the record: a client that changes it can keep ranks from meeting, but can
 * neither join them nor read their data. With a secret the ranks of one host
 * meet in the agent's store.
 *
 * On several hosts the record may be that of an earlier start, since nothing
 * that all agents share tells starts apart. Its server has ended, so ranks read
 * the record until rank 0 has replaced it. */
#ifndef GLI_RENDEZVOUS_LAUNCH_STORE_SIDECAR_H
#define GLI_RENDEZVOUS_LAUNCH_STORE_SIDECAR_H

#include "rendezvous/launch/launch.h"

/* Sets *wanted if the job needs this store. Errors: those of gli_trust_read. */
gloo_status gli_store_sidecar_wanted(const gli_launch *launch, bool *wanted,
                                     gloo_error *error);

/* Opens the store. `told` is the launcher's store, with a prefix for this
 * start. Errors: those of gloo_store_tcp_create; GLOO_ERR_TIMEOUT and
 * GLOO_ERR_PEER name rank 0, which is missing or cannot serve. */
gloo_status gli_store_sidecar_open(const gli_launch *launch, gloo_store *told,
                                   int64_t timeout_ns, gloo_store **store,
                                   gloo_error *error);

#endif
