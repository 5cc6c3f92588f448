/* A child of a fork: its copies of descriptors go, and memory. What is
 * registered, and the queue pairs, are the parent's: a child of a kernel that
 * cannot copy such pages does not have them, so they are left alone. */
#include <stdlib.h>

#include "transport_ibv/ibv.h"

void gli_ibv_forked(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->forked(t->tcp);
  gli_ibv_port_forked(&t->port);
}

static void abandon_pairs(gli_ibv_pair *list) {
  while (list != NULL) {
    gli_ibv_pair *pair = list;
    list = pair->next;
    gli_request_copies_free(&pair->copies);
    free(pair);
  }
}

void gli_ibv_abandon(gli_transport *base) {
  gli_ibv *t = (gli_ibv *)base;
  t->tcp->ops->abandon(t->tcp);
  abandon_pairs(t->pairs);
  abandon_pairs(t->garbage);
  abandon_pairs(t->old_garbage);
  abandon_pairs(t->undead);
  free(t->regions);
  free(t->stash);
  free(t);
}
