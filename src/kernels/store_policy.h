/* Ordinary stores, or non-temporal ones, which bypass the caches: which take
 * less time?
 *
 * Where another core has just read the lines that are written, it has them, and
 * has to give each of them up first. Where cores share a cache that costs
 * little. Where they do not (other dies, other sockets, most of the time the
 * processors of a virtual machine) it can take ten times as long as the copy
 * itself, and no prefetching helps; then it is faster to write past the caches
 * (non-temporal stores), though a rank that reads that gets it from memory.
 * Which it is depends on where both ranks run at the moment, and on how much of
 * it their caches still hold, so the rank that stores times some of what it
 * stores, each way, and changes its mind when it has to. */
#ifndef GLI_KERNELS_STORE_POLICY_H
#define GLI_KERNELS_STORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Measurements of stores of one kind. Initially all 0. */
typedef struct gli_store_policy {
  bool nontemporal;                       /* non-temporally */
  uint32_t stores;                        /* so far */
  uint32_t try_at;                        /* when to try the other way */
  uint32_t try_period;                    /* in stores; 0: not set yet */
  uint64_t cost_cached, cost_nontemporal; /* ns for each MiB; 0: unknown */
} gli_store_policy;

/* How many times as long as streaming the caches must take, in halves, for a
 * change to streaming, and to stay with it. More than as long, for what is
 * streamed takes longer to read. */
typedef struct gli_store_bars {
  uint8_t to_nontemporal, to_cache;
} gli_store_bars;

/* How to store this time. */
typedef struct gli_store_way {
  bool nontemporal;
  bool tried; /* only to try it: it may be ten times as slow */
  bool timed; /* say afterwards how long it took */
} gli_store_way;

gli_store_way gli_store_policy_next(gli_store_policy *s);
void gli_store_policy_learn(gli_store_policy *s, gli_store_bars bars,
                            bool nontemporal, uint64_t ns, size_t bytes);

#endif
