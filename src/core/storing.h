/* Storing through the caches, or past them: which takes less time?
 *
 * Where another core has just read the lines that are written, it has them, and
 * has to give each of them up first. Where cores share a cache that costs
 * little. Where they do not (other dies, other sockets, most of the time the
 * processors of a virtual machine) it can take ten times as long as the copy
 * itself, and no prefetching helps; then it is faster to write past the caches,
 * though who reads that gets it from memory. Which it is depends on where both
 * ranks run at the moment, and on how much of it their caches still hold, so
 * who stores times some of what it stores, each way, and changes its mind when
 * it has to. */
#ifndef GLI_CORE_STORING_H
#define GLI_CORE_STORING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of stores of one kind. All 0 at first. */
typedef struct gli_storing {
  bool streams;                        /* past the caches */
  uint32_t stores;                     /* so far */
  uint32_t try_at;                     /* when to try the other way */
  uint32_t try_period;                 /* in stores; 0: not set yet */
  uint64_t cost_cached, cost_streamed; /* ns for each MiB; 0: unknown */
} gli_storing;

/* How many times as long as streaming the caches must take, in halves, for a
 * change to streaming, and to stay with it. More than as long, for what is
 * streamed takes longer to read. */
typedef struct gli_storing_bars {
  uint8_t to_stream, to_cache;
} gli_storing_bars;

/* How to store this time. */
typedef struct gli_storing_way {
  bool stream;
  bool tried; /* only to try it: it may be ten times as slow */
  bool timed; /* say afterwards how long it took */
} gli_storing_way;

gli_storing_way gli_storing_next(gli_storing *s);
void gli_storing_note(gli_storing *s, gli_storing_bars bars, bool streamed,
                      uint64_t ns, size_t bytes);

#endif
