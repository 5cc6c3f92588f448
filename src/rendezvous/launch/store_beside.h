/* The store of a job that has no secret, and whose ranks are all on one host,
 * where the launcher's own store lets everybody in, as PyTorch's does: rank 0
 * serves another one at loopback, which keeps other users out (tcp_local.h).
 * All that is taken from the launcher's is its port: who changes that can keep
 * ranks from meeting, and neither join them nor learn anything. */
#ifndef GLI_RENDEZVOUS_LAUNCH_STORE_BESIDE_H
#define GLI_RENDEZVOUS_LAUNCH_STORE_BESIDE_H

#include "rendezvous/launch/launch.h"

/* Is it called for? Errors: those of gli_trust_read. */
gloo_status gli_store_beside_wanted(const gli_launch *launch, bool *wanted,
                                    gloo_error *error);

/* `told` is the launcher's, the part of it that is for this start. Errors:
 * those of gloo_store_tcp_create; GLOO_ERR_TIMEOUT and GLOO_ERR_PEER name rank
 * 0, which has not come, or cannot serve. */
gloo_status gli_store_beside_open(const gli_launch *launch, gloo_store *told,
                                  int64_t timeout_ns, gloo_store **store,
                                  gloo_error *error);

#endif
