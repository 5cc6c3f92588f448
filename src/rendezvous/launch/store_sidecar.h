/* The store of a job without a secret whose ranks are all on one host, if the
 * launcher's own store admits any client, as PyTorch's does. Rank 0 serves
 * another store on loopback, which rejects other users (tcp_local.h). The
 * launcher's store provides its port only: a client that changes the port can
 * keep ranks from meeting, but can neither join them nor read their data. */
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
