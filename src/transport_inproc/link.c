/* Links of the in-process transport: opening and closing of their sides. */
#include <stdlib.h>

#include "core/error.h"
#include "transport_inproc/inproc.h"

/* ---- lifetime of a link -------------------------------------------------- */

gli_inproc_side *gli_inproc_other_side(gli_inproc_side *side) {
  gli_inproc_link *link = side->link;
  return side == &link->sides[0] ? &link->sides[1] : &link->sides[0];
}

static void free_own(gli_send_request *m) {
  if (m->private_ != GLI_INPROC_BORROWED) free(m);
}

static void free_all(gli_send_request *first) {
  while (first != NULL) {
    gli_send_request *next = first->next;
    free_own(first);
    first = next;
  }
}

void gli_inproc_link_unref(gli_inproc_link *link) {
  if (atomic_fetch_sub(&link->rkeys, 1) != 1) return;
  for (int i = 0; i < 2; i++) {
    free_all(link->sides[i].queue.head);
    free_all(link->sides[i].spare);
  }
  uv_cond_destroy(&link->read);
  uv_mutex_destroy(&link->lock);
  free(link);
}

static gli_inproc_link *link_create(void) {
  gli_inproc_link *link = calloc(1, sizeof *link);
  if (link == NULL) return NULL;
  if (uv_mutex_init(&link->lock) != 0) goto free_link;
  if (uv_cond_init(&link->read) != 0) goto destroy_lock;
  return link;

destroy_lock:
  uv_mutex_destroy(&link->lock);
free_link:
  free(link);
  return NULL;
}

/* ---- opening ------------------------------------------------------------- */

/* Takes the offer that matches a pair. Both sides may open at once: the first
 * leaves an offer with the other's end point, and the second finds it. */
static gli_inproc_link *take_offer(gli_inproc_endpoint *self, uint64_t from,
                                   const gli_pair_config *config) {
  for (gli_inproc_link **at = &self->offers; *at; at = &(*at)->offer_next) {
    gli_inproc_link *link = *at;
    const gli_inproc_side *theirs = &link->sides[0], *ours = &link->sides[1];
    if (link->from != from) continue;
    if (theirs->key != config->remote_key) continue;
    if (theirs->rank != config->peer_rank) continue;
    if (ours->key != config->local_key) continue;
    if (ours->rank != config->self_rank) continue;
    *at = link->offer_next;
    link->offered = false;
    return link;
  }
  return NULL;
}

static void inproc_link_attach(gli_inproc_side *side, void *user) {
  uv_mutex_lock(&side->link->lock);
  side->user = user;
  side->attached = true;
  atomic_fetch_add(&side->link->rkeys, 1);
  gli_inproc_mark_ready(side);
  uv_mutex_unlock(&side->link->lock);
}

/* Leaves an offer, with its side 1 on the ready list for `accept`. */
static void make_offer(gli_inproc_endpoint *to, gli_inproc_link *link) {
  link->offered = true;
  link->offer_next = NULL;
  gli_inproc_link **at = &to->offers;
  while (*at != NULL) at = &(*at)->offer_next;
  *at = link;
  atomic_fetch_add(&link->rkeys, 1);
  uv_mutex_lock(&link->lock);
  gli_inproc_mark_ready(&link->sides[1]);
  uv_mutex_unlock(&link->lock);
}

static gli_inproc_side side_init(gli_inproc_link *link, uint32_t rank,
                                 uint64_t key, gli_inproc_endpoint *endpoint) {
  return (gli_inproc_side){.pair = {.ops = &gli_transport_inproc},
                           .link = link,
                           .endpoint = endpoint,
                           .rank = rank,
                           .key = key};
}

/* Opens the side of a pair: that of a matching offer, or of a new link. */
static gli_inproc_side *open_side(gli_inproc_endpoint *self,
                                  const gli_pair_config *config) {
  uint64_t id = gli_inproc_address_id(&config->address);
  gli_inproc_link *link = id == 0 ? NULL : take_offer(self, id, config);
  if (link != NULL) {
    inproc_link_attach(&link->sides[1], config->user);
    gli_inproc_link_unref(link); /* the offer's reference */
    return &link->sides[1];
  }
  link = link_create();
  if (link == NULL) return NULL;
  gli_inproc_endpoint *to = gli_inproc_find(id);
  link->from = self->id;
  gli_inproc_side *ours = &link->sides[0], *theirs = &link->sides[1];
  *ours = side_init(link, config->self_rank, config->local_key, self);
  *theirs = side_init(link, config->peer_rank, config->remote_key, to);
  if (to == NULL) {
    ours->failure = id == 0 ? GLI_INPROC_FOREIGN : GLI_INPROC_ABSENT;
    theirs->closed = true;
  }
  inproc_link_attach(ours, config->user);
  if (to != NULL) make_offer(to, link);
  return ours;
}

gloo_status gli_inproc_pair_open(gli_transport *t,
                                 const gli_pair_config *config, gli_pair **pair,
                                 gloo_error *error) {
  gli_inproc_table_lock();
  gli_inproc_side *side = open_side((gli_inproc_endpoint *)t, config);
  gli_inproc_table_unlock();
  if (side == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for an in-process connection to rank %u",
                    (unsigned)config->peer_rank);
  }
  *pair = &side->pair;
  return GLOO_OK;
}

void gli_inproc_link_refuse(gli_inproc_link *link, gli_inproc_failure why) {
  gli_inproc_side *offerer = &link->sides[0], *refuser = &link->sides[1];
  link->offered = false;
  uv_mutex_lock(&link->lock);
  refuser->closed = true;
  if (!offerer->closed) {
    offerer->failure = why;
    gli_inproc_mark_ready(offerer);
  }
  uv_mutex_unlock(&link->lock);
  gli_inproc_link_unref(link);
}

/* ---- closing ------------------------------------------------------------- */

static gli_send_request *copy_of(const gli_send_request *m) {
  gli_send_request *copy = gli_request_copy(m, 0);
  if (copy != NULL) copy->private_ = GLI_INPROC_COPIED;
  return copy;
}

/* Replaces the closing side's own requests by copies. With a BYE all messages
 * remain; with an ABORT those before the first large one whose delivery has not
 * begun. Returns false if out of memory; messages from there on are lost. */
static bool copy_queue(gli_inproc_side *to, bool all) {
  gli_request_queue old = to->queue;
  bool keep = true, enough = true, begun = to->begun;
  to->queue = (gli_request_queue){NULL, NULL};
  for (gli_send_request *m; (m = gli_request_pop(&old)) != NULL;) {
    if (keep && m->private_ == GLI_INPROC_BORROWED) {
      gli_send_request *copy = all || begun ? copy_of(m) : NULL;
      if (copy == NULL) {
        keep = false;
        enough = !(all || begun);
      } else {
        m = copy;
      }
    }
    if (keep) {
      gli_request_push(&to->queue, m);
    } else {
      free_own(m);
    }
    begun = false;
  }
  return enough;
}

static void inproc_drop_queue(gli_inproc_side *to) {
  free_all(to->queue.head);
  to->queue = (gli_request_queue){NULL, NULL};
}

/* Leaves copies of sent messages and `last` for the peer, or nothing. */
static void leave_behind(gli_inproc_side *peer, const gli_send_request *last) {
  gli_send_request *farewell = NULL;
  if (last == NULL) {
    peer->failure = GLI_INPROC_DROPPED;
  } else if (!copy_queue(peer, last->header.type == GLI_MESSAGE_BYE)) {
    peer->failure = GLI_INPROC_EXHAUSTED;
  } else if ((farewell = copy_of(last)) == NULL) {
    peer->failure = GLI_INPROC_EXHAUSTED;
  }
  if (peer->failure != GLI_INPROC_NO_FAILURE) {
    inproc_drop_queue(peer);
    free(farewell);
  } else {
    gli_request_push(&peer->queue, farewell);
  }
}

/* Gives unread large messages back to their sender. */
static void give_back_queue(gli_inproc_side *side, gli_inproc_side *peer) {
  for (gli_send_request *m; (m = gli_request_pop(&side->queue)) != NULL;) {
    if (m->private_ != GLI_INPROC_BORROWED) {
      free(m);
    } else if (!peer->closed) {
      gli_request_push(&peer->done, m);
    }
  }
}

/* Withdraws an offer whose maker closes it before its peer has taken it. */
static void withdraw_offer(gli_inproc_link *link) {
  gli_inproc_table_lock();
  bool offered = link->offered;
  if (offered) {
    gli_inproc_link **at = &link->sides[1].endpoint->offers;
    while (*at != link) at = &(*at)->offer_next;
    *at = link->offer_next;
    link->offered = false;
  }
  gli_inproc_table_unlock();
  if (offered) gli_inproc_link_unref(link);
}

void gli_inproc_pair_close(gli_pair *pair, const gli_send_request *last) {
  gli_inproc_side *side = (gli_inproc_side *)pair;
  gli_inproc_side *peer = gli_inproc_other_side(side);
  gli_inproc_link *link = side->link;
  if (last == NULL) withdraw_offer(link);

  uv_mutex_lock(&link->lock);
  side->closed = true;
  while (peer->reading) uv_cond_wait(&link->read, &link->lock);
  give_back_queue(side, peer);
  if (peer->closed || side->failure != GLI_INPROC_NO_FAILURE) {
    inproc_drop_queue(peer);
  } else {
    leave_behind(peer, last);
    gli_inproc_mark_ready(peer);
  }
  uv_mutex_unlock(&link->lock);
  gli_inproc_link_unref(link);
}

/* Closes a side in a forked child, where the other side is inactive. */
void gli_inproc_pair_abandon(gli_pair *pair) {
  gli_inproc_side *side = (gli_inproc_side *)pair;
  side->closed = true;
  gli_inproc_link_unref(side->link);
}
