/* Links of the simulated transport: opening and closing. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "internal.h"

sim_side *sim_other(sim_side *side) {
  return side == &side->link->sides[0] ? &side->link->sides[1]
                                       : &side->link->sides[0];
}

static void enter(sim_side *side) {
  side->next = side->node->sides;
  side->node->sides = side;
}

static void leave(sim_side *side) {
  sim_side **at = &side->node->sides;
  while (*at != NULL && *at != side) at = &(*at)->next;
  if (*at != NULL) *at = side->next;
}

void sim_fail(sim_side *side, const char *why) {
  if (side->closed || side->failure_ns != SIM_NEVER) return;
  side->failure = why;
  side->failure_ns = sim_soon_ns(side->world);
}

/* ---- dropping ------------------------------------------------------------ */

static void drop_from(sim_queue *queue, sim_message **at) {
  sim_message *m = *at;
  *at = NULL;
  while (m != NULL) {
    sim_message *next = m->next;
    sim_message_free(m);
    m = next;
  }
  queue->tail = queue->head;
  while (queue->tail != NULL && queue->tail->next != NULL) {
    queue->tail = queue->tail->next;
  }
}

void sim_drop_borrowed(sim_side *to) {
  for (int i = 0; i < SIM_STREAMS_MAX; i++) {
    sim_message **at = &to->streams[i].head;
    while (*at != NULL && (*at)->flight == NULL) at = &(*at)->next;
    drop_from(&to->streams[i], at);
  }
}

void sim_drop_all(sim_side *to) {
  for (int i = 0; i < SIM_STREAMS_MAX; i++) {
    drop_from(&to->streams[i], &to->streams[i].head);
  }
}

void sim_free_flights(sim_side *side) {
  while (side->flights != NULL) {
    sim_flight *flight = side->flights;
    side->flights = flight->next;
    if (flight->message != NULL) flight->message->flight = NULL;
    free(flight);
  }
}

/* ---- opening ------------------------------------------------------------- */

/* Returns the node, closed or not: its last messages may be in transit. */
static sim_node *find_node(sim_world *world, const gli_address *address) {
  if (address->bytes != 13 || memcmp(address->data, "sim", 3) != 0) return NULL;
  if (address->data[3] != world->number) return NULL;
  uint64_t id = gli_get_u64(address->data + 5);
  sim_node *node = world->nodes;
  while (node != NULL && node->id != id) node = node->next;
  return node;
}

static sim_link *take_offer(sim_node *self, const sim_node *from,
                            const gli_pair_config *config) {
  for (sim_link *link = self->world->links; link != NULL; link = link->next) {
    const sim_side *theirs = &link->sides[0], *ours = &link->sides[1];
    if (!link->offered || ours->node != self || theirs->node != from) continue;
    if (theirs->key != config->remote_key) continue;
    if (theirs->rank != config->peer_rank) continue;
    if (ours->key != config->local_key) continue;
    if (ours->rank != config->self_rank) continue;
    link->offered = false;
    return link;
  }
  return NULL;
}

static void init_side(sim_side *side, sim_link *link, sim_world *world,
                      sim_node *node, uint32_t rank, uint64_t key) {
  side->pair.ops = &sim_transport;
  side->world = world;
  side->link = link;
  side->node = node;
  side->rank = rank;
  side->key = key;
  side->failure_ns = SIM_NEVER;
}

static sim_side *new_link(sim_node *self, sim_node *to,
                          const gli_pair_config *config) {
  sim_world *world = self->world;
  sim_link *link = sim_alloc(sizeof *link);
  sim_side *ours = &link->sides[0], *theirs = &link->sides[1];
  init_side(ours, link, world, self, config->self_rank, config->local_key);
  init_side(theirs, link, world, to, config->peer_rank, config->remote_key);
  link->next = world->links;
  world->links = link;
  enter(ours);
  if (to == NULL || !to->open || to->dead) {
    theirs->closed = true;
    sim_fail(ours, "is not there");
  } else {
    link->offered = true;
    link->offer_ns = sim_soon_ns(world);
    enter(theirs);
  }
  return ours;
}

gloo_status sim_pair_open(gli_transport *t, const gli_pair_config *config,
                          gli_pair **pair, gloo_error *error) {
  sim_node *self = (sim_node *)t;
  (void)error;
  if (!self->open) sim_violation(self->world, "pair_open on a closed device");
  if (config->self_rank == config->peer_rank) {
    sim_violation(self->world, "rank %u opens a pair with itself",
                  config->self_rank);
  }
  sim_node *to = find_node(self->world, &config->address);
  sim_link *link = to == NULL ? NULL : take_offer(self, to, config);
  sim_side *side = link ? &link->sides[1] : new_link(self, to, config);
  side->user = config->user;
  side->attached = true;
  *pair = &side->pair;
  return GLOO_OK;
}

/* ---- closing ------------------------------------------------------------- */

/* Copies the payloads of this side's requests. An abort keeps every message
 * that has begun, and a random number of the rest. */
static void keep_copies(sim_side *side, bool all) {
  sim_side *peer = sim_other(side);
  for (int i = 0; i < SIM_STREAMS_MAX; i++) {
    sim_queue *queue = &peer->streams[i];
    sim_message **at = &queue->head;
    while (*at != NULL) {
      bool keep = all || (*at)->begun || sim_chance(side->world, 50);
      if (!keep) break;
      sim_message_copy(side, *at);
      at = &(*at)->next;
    }
    drop_from(queue, at);
  }
}

static void say_farewell(sim_side *side, const gli_send_request *last) {
  sim_side *peer = sim_other(side);
  sim_message *m = sim_alloc(sizeof *m);
  m->header = last->header;
  m->payload = last->payload;
  m->digest = sim_digest(m->payload, m->header.length);
  m->last = true;
  m->due_ns = sim_soon_ns(side->world);
  sim_message_copy(side, m);
  sim_queue_push(&peer->streams[0], m);
}

/* Completes the peer's requests to a side that is gone; their payloads are not
 * read. */
static void release_peers_requests(sim_side *side) {
  sim_side *peer = sim_other(side);
  for (sim_flight *f = peer->flights; f != NULL; f = f->next) {
    if (f->message == NULL) continue;
    f->message->flight = NULL;
    f->message = NULL;
    f->due_ns = sim_soon_ns(side->world);
  }
  sim_drop_all(side);
}

void sim_pair_close(gli_pair *pair, const gli_send_request *last) {
  sim_side *side = (sim_side *)pair;
  sim_side *peer = sim_other(side);
  sim_world *world = side->world;
  if (side->closed) {
    sim_violation(world, "rank %u closes a pair twice", side->rank);
  }
  if (last != NULL && last->header.type != GLI_MESSAGE_BYE &&
      last->header.type != GLI_MESSAGE_ABORT) {
    sim_violation(world, "rank %u closes a pair with a message of type %u",
                  side->rank, (unsigned)last->header.type);
  }
  bool reachable = !peer->closed && !side->node->dead &&
                   (peer->node == NULL || !peer->node->dead) &&
                   side->failure_ns == SIM_NEVER;
  if (reachable && last != NULL) {
    keep_copies(side, last->header.type == GLI_MESSAGE_BYE);
    say_farewell(side, last);
  } else {
    sim_drop_borrowed(peer);
    if (!side->node->dead) sim_fail(peer, "closed the connection");
    if (side->link->offered) {
      side->link->offered = false;
      leave(peer);
    }
  }
  if (peer->closed) sim_drop_all(peer);
  release_peers_requests(side);
  sim_free_flights(side);
  side->closed = true;
  leave(side);
}
