/* Copying into a ring: through the caches, or past them
 * (kernels/store_policy.h). The lines that a sender writes to are those that
 * its peer has just read. */
#ifndef GLI_TRANSPORT_SHM_SHM_COPY_H
#define GLI_TRANSPORT_SHM_SHM_COPY_H

#include "kernels/store_policy.h"

/* Shorter chunks always go through the caches. */
#define GLI_SHM_NONTEMPORAL_MIN ((size_t)2048)
/* Below this, a chunk is short: the fence after it counts, so short ones are
 * judged for themselves. */
#define GLI_SHM_NONTEMPORAL_LONG ((size_t)4096)

/* Copy at least GLI_SHM_NONTEMPORAL_MIN bytes. On return, all bytes are ordered
 * before later stores of the caller, as after memcpy. */
void gli_shm_copy(gli_store_policy *copier, void *dst, const void *src,
                  size_t bytes);

/* Records the time that a chunk took in one way. For gli_shm_copy and tests. */
void gli_shm_copier_learn(gli_store_policy *copier, bool nontemporal,
                          uint64_t ns, size_t bytes);

#endif
