/* Distributes the records of all ranks up and down a binomial tree, over the
 * connections of the context. No rank has to read all records from a store. */
#ifndef GLI_RENDEZVOUS_JOIN_TREE_EXCHANGE_H
#define GLI_RENDEZVOUS_JOIN_TREE_EXCHANGE_H

#include "gloo_c/context.h"
#include "rendezvous/join/exchange.h"

/* Minimum size for the tree; fewer ranks fetch all records from the store,
 * which takes fewer steps. */
#define GLI_SPREAD_RANKS_MIN 33

/* Place of a rank in the tree. Neighbours differ in one bit: the parent lacks
 * the rank's lowest bit, and each child has one more bit below that. A subtree
 * is the contiguous ranks up to the next child of its root's parent. */
enum { GLI_TREE_LINKS_MAX = 32 };
typedef struct gli_tree_place {
  uint32_t rank, size;
  uint32_t parent; /* rank 0 is its own parent */
  uint32_t end;    /* the subtree is `rank` to `end`, exclusive */
  uint32_t n_children;
  uint32_t children[GLI_TREE_LINKS_MAX]; /* ascending */
} gli_tree_place;
gli_tree_place gli_tree_find(uint32_t rank, uint32_t size);

/* Writes the rank and its neighbours, ascending, to `circle`, which has room
 * for GLI_TREE_LINKS_MAX + 2 ranks. Returns their number. */
uint32_t gli_tree_circle(const gli_tree_place *at, uint32_t *circle);

/* Fills the missing elements of records[], for free(). The records of the
 * circle are filled, and the context can reach its ranks. Fails with the cause
 * of the meeting in `store` if that fails meanwhile. It ends by the deadline,
 * which is at the end of the timeout, or twice GLI_STORE_SLACK_NS later. *lost
 * is true if the store failed. */
gloo_status gli_spread(gloo_context *context, const gli_tree_place *at,
                       gloo_store *store, size_t record_max, int64_t timeout_ns,
                       uint64_t deadline_ns, gloo_value *records, bool *lost,
                       gloo_error *error);

#endif
