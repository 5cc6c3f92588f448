/* Copying into a ring: through the caches, or past them.
 *
 * The lines that a sender writes to are those that its peer has just read, so
 * the peer's core has them, and has to give each of them up first. Where cores
 * share a cache that costs next to nothing. Where they do not (other dies,
 * other sockets, most of the time the processors of a virtual machine) it can
 * take ten times as long as the copy itself, and no prefetching helps; then it
 * is faster to write past the caches, though the peer reads from memory.
 * Which it is depends on where both ranks run at the moment, so the sender
 * times some of its chunks, each way, and changes its mind when it has to. */
#ifndef GLI_TRANSPORT_SHM_COPY_H
#define GLI_TRANSPORT_SHM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shorter chunks always go through the caches. */
#define GLI_SHM_STREAM_MIN ((size_t)2048)
/* Below this, a chunk is short: the fence after it counts, so short ones are
 * judged for themselves. */
#define GLI_SHM_STREAM_LONG ((size_t)4096)

/* What one sender knows. All 0 at first. */
typedef struct gli_shm_copier {
  bool streams;                        /* past the caches */
  uint32_t chunks;                     /* of those that are worth timing */
  uint32_t try_at;                     /* when to try the other way */
  uint32_t try_period;                 /* in chunks; 0: not set yet */
  uint64_t cost_cached, cost_streamed; /* ns for each MiB; 0: unknown */
} gli_shm_copier;

/* Copy at least GLI_SHM_STREAM_MIN bytes. When it returns, all of them come
 * before whatever the caller stores next, as after memcpy. */
void gli_shm_copy(gli_shm_copier *copier, void *dst, const void *src,
                  size_t bytes);

/* A chunk that was copied one way took so long. For gli_shm_copy and tests. */
void gli_shm_copier_note(gli_shm_copier *copier, bool streamed, uint64_t ns,
                         size_t bytes);

#endif
