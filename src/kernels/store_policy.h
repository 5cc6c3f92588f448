/* Choice between ordinary stores and non-temporal ones, which bypass the
 * caches.
 *
 * If another core has just read the lines that are written, it holds them in
 * its cache and must first give up each of them. That is cheap between cores
 * that share a cache. Between others (other dies, other sockets, usually the
 * processors of a virtual machine) it can take ten times as long as the copy
 * itself, and prefetching does not help. Non-temporal stores are then faster,
 * although a rank that reads the data gets it from memory. The best choice
 * depends on where both ranks run at the moment, and on how much of the data
 * their caches still hold. The storing rank therefore times some of its stores,
 * each way, and adapts. */
#ifndef GLI_KERNELS_STORE_POLICY_H
#define GLI_KERNELS_STORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Measurements of stores of one kind. Initially all 0. */
typedef struct gli_store_policy {
  bool nontemporal;    /* true if the choice is non-temporal */
  uint32_t stores;     /* number of stores so far */
  uint32_t try_at;     /* number of the store that tries the other way */
  uint32_t try_period; /* number of stores; 0 if not set */
  uint64_t cost_cached, cost_nontemporal; /* ns per MiB; 0 if unknown */
} gli_store_policy;

/* Thresholds for the time of cached stores, in halves of the time of
 * non-temporal ones: above `to_nontemporal` the policy changes to non-temporal
 * stores, above `to_cache` it stays with them. The change requires a margin,
 * because data that was stored non-temporally takes longer to read. */
typedef struct gli_store_bars {
  uint8_t to_nontemporal, to_cache;
} gli_store_bars;

/* Choice for one store. */
typedef struct gli_store_way {
  bool nontemporal;
  bool tried; /* a trial of the other way; it may be ten times as slow */
  bool timed; /* true if the caller is to report the duration */
} gli_store_way;

gli_store_way gli_store_policy_next(gli_store_policy *s);
void gli_store_policy_learn(gli_store_policy *s, gli_store_bars bars,
                            bool nontemporal, uint64_t ns, size_t bytes);

#endif
