/* Distributes the records of all ranks: up and down a binomial tree, over the
 * connections of the context. No rank has to read the records of all others
 * from a store. */
#ifndef GLI_RENDEZVOUS_JOIN_SPREAD_H
#define GLI_RENDEZVOUS_JOIN_SPREAD_H

#include "gloo_c/context.h"
#include "rendezvous/join/exchange.h"

/* So few ranks fetch all records from the store: that takes fewer steps. */
#define GLI_SPREAD_RANKS_MIN 33

/* A rank's neighbours in the tree differ from it in one bit: its parent lacks
 * its lowest one, its children have one more below that. Below a rank are those
 * that follow it, up to the next that its parent has, so they follow one
 * another. */
enum { GLI_TREE_LINKS_MAX = 32 };
typedef struct gli_tree_place {
  uint32_t rank, size;
  uint32_t parent; /* of rank 0: itself */
  uint32_t end;    /* `rank` to here, without it: what is below, and it */
  uint32_t n_children;
  uint32_t children[GLI_TREE_LINKS_MAX]; /* ascending */
} gli_tree_place;
gli_tree_place gli_tree_find(uint32_t rank, uint32_t size);

/* `circle` has room for GLI_TREE_LINKS_MAX + 2 ranks: the rank and its
 * neighbours, ascending. Returns how many. */
uint32_t gli_tree_circle(const gli_tree_place *at, uint32_t *circle);

/* Where records[] of the circle are filled, and the context can reach them:
 * fill all others, for free(). Ends as the meeting in `store` does when that
 * fails meanwhile, and by the deadline, which is at the end of the timeout, or
 * twice GLI_STORE_SLACK_NS later.
 * *lost: it is the store that failed. */
gloo_status gli_spread(gloo_context *context, const gli_tree_place *at,
                       gloo_store *store, size_t record_max, int64_t timeout_ns,
                       uint64_t deadline_ns, gloo_value *records, bool *lost,
                       gloo_error *error);

#endif
