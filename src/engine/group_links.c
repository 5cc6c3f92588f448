/* The links of groups: how they are found, and how they end (see group.c). */
#include <stdlib.h>

#include "core/error.h"
#include "engine/context.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/straight.h"

/* ---- routes: from what arrives to a link --------------------------------- */

static size_t route_of(uint32_t id, uint32_t rank, size_t slots) {
  uint32_t mixed = id * UINT32_C(0x9e3779b1) + rank * UINT32_C(0x85ebca6b);
  return (mixed ^ mixed >> 15) & (slots - 1);
}

static bool grow_routes(gli_family *family) {
  size_t slots = family->route_slots ? 2 * family->route_slots : 64;
  gli_link **routes = calloc(slots, sizeof(gli_link *));
  if (!routes) return family->route_slots > 0; /* slower, but it works */
  for (size_t i = 0; i < family->route_slots; i++) {
    while (family->routes[i]) {
      gli_link *link = family->routes[i];
      family->routes[i] = link->route_next;
      size_t at = route_of(link->own, link->rank, slots);
      link->route_next = routes[at];
      routes[at] = link;
    }
  }
  free(family->routes);
  family->routes = routes;
  family->route_slots = slots;
  return true;
}

static bool add_route(gli_family *family, gli_link *link) {
  if (family->n_routes >= family->route_slots && !grow_routes(family)) {
    return false;
  }
  size_t at = route_of(link->own, link->rank, family->route_slots);
  link->route_next = family->routes[at];
  family->routes[at] = link;
  family->n_routes++;
  return true;
}

static void remove_route(gli_family *family, const gli_link *link) {
  size_t slot = route_of(link->own, link->rank, family->route_slots);
  gli_link **at = &family->routes[slot];
  while (*at != link) at = &(*at)->route_next;
  *at = link->route_next;
  family->n_routes--;
}

gli_link *gli_group_known_link(const gli_link *carrier, uint32_t id) {
  const gli_family *family = carrier->context->family;
  if (family->route_slots == 0) return NULL;
  size_t at = route_of(id, carrier->rank, family->route_slots);
  gli_link *link = family->routes[at];
  while (link && (link->own != id || link->carrier != carrier)) {
    link = link->route_next;
  }
  return link;
}

/* ---- links --------------------------------------------------------------- */

gli_link *gli_group_new_link(gloo_context *group, gli_link *carrier,
                             gloo_error *error) {
  gli_link *link = calloc(1, sizeof *link);
  if (link) {
    link->context = group;
    link->carrier = carrier;
    link->rank = carrier->rank;
    link->local = GLI_NO_RANK;
    link->pair = carrier->pair;
    link->self = carrier->self;
    link->left = carrier->gone;
    link->own = group->id;
  }
  if (!link || !add_route(group->family, link)) {
    free(link);
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for a group's link to rank %u", carrier->rank);
    return NULL;
  }
  link->next = group->links;
  group->links = link;
  return link;
}

void gli_group_join_link(gli_link *link, gli_peer *peer, uint32_t local) {
  link->local = local;
  link->group = link->self ? 0 : peer->group;
  peer->link = link;
}

/* The first word on a link has nothing to say, but is answered by a rank that
 * has left already. */
gli_link *gli_group_open_link(gloo_context *group, uint32_t rank,
                              gloo_error *error) {
  gli_peer *peer = &group->peers[rank];
  gloo_context *root = group->family->root;
  gli_link *carrier = gli_context_link(root, peer->rank, error);
  if (!carrier) return NULL;
  gli_link *link = gli_group_new_link(group, carrier, error);
  if (!link) return NULL;
  gli_group_join_link(link, peer, rank);
  if (!link->self) gli_flow_control(link, GLI_MESSAGE_CREDIT, NULL, 0);
  return link;
}

static bool has_work(const gli_link *link) {
  return link->again.first || link->flying.first || link->arriving.first;
}

static void free_link(gli_link *link) {
  gli_flow_drop(link); /* from the lists of the device */
  free(link);
}

void gli_group_reap(gli_family *family) {
  gli_link **at = &family->dying;
  while (*at) {
    gli_link *link = *at;
    if (has_work(link)) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    free_link(link);
  }
}

void gli_group_let_go(gloo_context *group, gli_link *link) {
  gli_family *family = group->family;
  remove_route(family, link);
  if (link->self || !link->pair || !has_work(link)) {
    free_link(link);
    return;
  }
  link->context = family->root;
  link->next = family->dying;
  family->dying = link;
}

void gli_group_carrier_left(gli_link *carrier) {
  const gli_family *family = carrier->context->family;
  for (gloo_context *g = family->groups; g; g = g->next) {
    gli_link *link = g->links;
    while (link && link->carrier != carrier) link = link->next;
    if (link && !link->left) gli_link_left(link);
  }
}

/* The pairs are closed. */
void gli_group_drop_links(gli_family *family) {
  for (gloo_context *g = family->groups; g; g = g->next) {
    for (gli_link *link = g->links; link; link = link->next) {
      link->pair = NULL;
      gli_flow_drop(link);
    }
  }
  while (family->dying) {
    gli_link *link = family->dying;
    family->dying = link->next;
    free_link(link);
  }
}

/* ---- what comes for a group that is gone --------------------------------- */

/* A kernel that does nothing. */
static void throw_away(void *out, const void *left, const void *right,
                       size_t count) {
  (void)out;
  (void)left;
  (void)right;
  (void)count;
}

gloo_status gli_group_is_gone(gli_link *carrier, const gli_header *h,
                              gli_sink *sink, gloo_error *error) {
  static uint8_t nowhere;
  if (h->length > 0) {
    sink->dst = &nowhere;
    sink->local = &nowhere;
    sink->fn = throw_away;
    sink->elem_bytes = 1;
  }
  if (h->type == GLI_MESSAGE_LEFT) return GLOO_OK; /* at the same time */
  gli_header about = {.tag = h->context};
  return gli_flow_answer(carrier, GLI_MESSAGE_LEFT, &about, error);
}

/* ---- LEFT ---------------------------------------------------------------- */

void gli_group_say_left(gloo_context *context) {
  for (gli_link *link = context->links; link; link = link->next) {
    if (link->self || link->left || !link->pair) continue;
    if (link->local == GLI_NO_RANK) { /* not formed: no number over there */
      gli_header about = {.tag = link->own};
      gli_flow_control(link->carrier, GLI_MESSAGE_LEFT, &about, 1);
      continue;
    }
    gli_header about = {.operation = link->data_sent};
    gli_flow_control(link, GLI_MESSAGE_LEFT, &about, 0);
  }
}

void gli_group_check_leaving(gli_link *link) {
  if (link->data_came < link->leaves_after) return;
  link->leaving = false;
  if (!link->left) gli_link_left(link);
}

/* Something that we sent to a group did not find it. If it has said LEFT in the
 * usual way, that counts. */
static void is_gone_there(gli_link *carrier, uint32_t id) {
  const gli_family *family = carrier->context->family;
  for (gloo_context *g = family->groups; g; g = g->next) {
    gli_link *link = g->links;
    while (link && link->carrier != carrier) link = link->next;
    if (!link || link->local == GLI_NO_RANK || link->group != id) continue;
    if (link->left || link->leaving) continue;
    gli_link_left(link);
    return;
  }
}

void gli_group_leaves(gli_link *link, const gli_header *h) {
  if (h->slot != 0 && link->carrier == link) {
    is_gone_there(link, h->tag);
    return;
  }
  link->leaving = true; /* from now on its messages are counted */
  if (link->awaits) gli_straight_leave(link->awaits);
  link->leaves_after = h->operation;
  gli_group_check_leaving(link);
}
