/* Groups: contexts that use the pairs of another.
 *
 * A message for a group goes through the pair of the root context to the same
 * rank, with the number that the receiver has given to the group in its header.
 * Everything else about it, credit included, is between the two links of the
 * group, which know of pairs only what to send through. A number leads to a
 * group from the moment on at which others can hear of it, so what comes before
 * the group is formed is parked by the same means as what comes for operations
 * that are not started yet.
 *
 * What ends. A group says LEFT on its links where a context says BYE and closes
 * the pair. Links that still have something to send, or to take in, live on
 * without their group until that is done. The root lives until the last of its
 * groups is gone. What comes for a group that is gone is thrown away, and the
 * sender is told. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "engine/context.h"
#include "engine/device.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/straight.h"

/* A group and its lobby have neighbouring numbers; those of the root are 0 and
 * 1. */
enum { LOBBY = 1, NUMBERS = 2 };

/* For the credit of groups: many of them must not take much more memory than
 * their root does. */
#define GROUP_BUDGET GLI_PARK_BUDGET_MIN

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

/* ---- links --------------------------------------------------------------- */

static gli_link *new_link(gloo_context *group, gli_link *carrier,
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

/* Messages of a rank to itself need no number. */
static void join(gli_link *link, gli_peer *peer, uint32_t local) {
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
  gli_link *link = new_link(group, carrier, error);
  if (!link) return NULL;
  join(link, peer, rank);
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

static void reap(gli_family *family) {
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

static void let_go(gloo_context *group, gli_link *link) {
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

/* ---- making a group ------------------------------------------------------ */

static gloo_context *find_group(const gli_family *family, uint32_t id) {
  gloo_context *g = family->groups;
  while (g && g->id != id) g = g->next;
  return g;
}

/* Numbers come back after four billion, when no message can be under way that
 * means the last group of that number. */
static uint32_t next_number(gli_family *family) {
  do {
    family->last_id += NUMBERS;
  } while (family->last_id == 0 || find_group(family, family->last_id));
  return family->last_id;
}

static gloo_context *new_group(const gloo_context *parent, uint32_t id,
                               uint32_t size, gloo_error *error) {
  gloo_context *group = gli_context_new(parent->device, size);
  if (!group) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a group");
    return NULL;
  }
  gli_family *family = parent->family;
  group->family = family;
  group->id = id;
  group->budget = GROUP_BUDGET;
  group->root_rank = parent->root_rank;
  group->timeout_ns = parent->timeout_ns;
  group->crowded = parent->crowded;
  group->cause = family->root->cause;
  group->next = family->groups;
  family->groups = group;
  return group;
}

gloo_status gli_group_begin(gloo_context *parent, gloo_context **out,
                            gloo_error *error) {
  gloo_device *device = parent->device;
  gli_device_lock(device);
  reap(parent->family);
  gloo_context *group =
      new_group(parent, next_number(parent->family), 0, error);
  gli_device_unlock(device);
  if (!group) return error->status;
  *out = group;
  return GLOO_OK;
}

uint32_t gli_group_id(const gloo_context *group) {
  return group->id;
}

/* Links that others' messages have made before the members were known. */
static gloo_status settle_early_links(gloo_context *group, gloo_error *error) {
  for (gli_link *link = group->links; link; link = link->next) {
    uint32_t rank = gli_context_rank_of(group, link->rank);
    if (rank == GLI_NO_RANK) {
      return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                      "rank %u sent a message for a group that it is not in",
                      link->rank);
    }
    join(link, &group->peers[rank], rank);
  }
  return GLOO_OK;
}

static gloo_status form_lobby(gloo_context *lobby, const gloo_context *base,
                              gloo_error *error) {
  gli_peer *peers = calloc(base->size, sizeof *peers);
  if (!peers) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory to make groups of %u ranks", base->size);
  }
  for (uint32_t i = 0; i < base->size; i++) {
    peers[i].rank = base->peers[i].rank;
    peers[i].group = base->peers[i].group + LOBBY;
  }
  free(lobby->peers);
  lobby->peers = peers;
  lobby->size = base->size;
  lobby->rank = base->rank;
  lobby->timeout_ns = base->timeout_ns;
  return settle_early_links(lobby, error);
}

static gloo_status make_lobby(gloo_context *base, gloo_error *error) {
  gloo_context *lobby = new_group(base, base->id + LOBBY, 0, error);
  if (!lobby) return error->status;
  lobby->is_lobby = true;
  base->lobby = lobby;
  return base->size > 0 ? form_lobby(lobby, base, error) : GLOO_OK;
}

gloo_status gli_context_lobby(gloo_context *context, gloo_context **lobby,
                              gloo_error *error) {
  gli_device_lock(context->device);
  gloo_status status = GLOO_OK;
  if (!context->lobby) status = make_lobby(context, error);
  if (status == GLOO_OK) *lobby = context->lobby;
  gli_device_unlock(context->device);
  return status;
}

/* Which of the ranks share a host, as the parent sees it. */
static gloo_status learn_hosts(gloo_context *group, const gloo_context *parent,
                               const gli_member *members, uint32_t n,
                               gloo_error *error) {
  if (!parent->hosts) return GLOO_OK;
  uint64_t *keys = calloc(n, sizeof *keys);
  if (!keys) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the hosts of %u ranks", n);
  }
  for (uint32_t i = 0; i < n; i++) keys[i] = parent->hosts->of[members[i].rank];
  gli_hosts *hosts;
  gloo_status status = gli_hosts_make(keys, n, &hosts, error);
  free(keys);
  if (status == GLOO_OK) gli_context_set_hosts(group, hosts, parent->crowded);
  return status;
}

static gloo_status copy_tuning(gloo_context *group, const gloo_context *parent,
                               gloo_error *error) {
  const gli_tuning *from = parent->tuning;
  if (!from) return GLOO_OK;
  size_t bytes = sizeof *from + from->n * sizeof from->rules[0];
  gli_tuning *copy = malloc(bytes);
  if (!copy) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the choices of algorithms of a group");
  }
  memcpy(copy, from, bytes);
  gli_context_set_tuning(group, copy);
  return GLOO_OK;
}

static gloo_status form(gloo_context *group, const gloo_context *parent,
                        const gli_member *members, uint32_t n, uint32_t own,
                        gloo_error *error) {
  gli_peer *peers = calloc(n, sizeof *peers);
  if (!peers) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a group of %u ranks", n);
  }
  for (uint32_t i = 0; i < n; i++) {
    peers[i].rank = parent->peers[members[i].rank].rank;
    peers[i].group = members[i].group;
  }
  free(group->peers);
  group->peers = peers;
  group->size = n;
  group->rank = own;
  gloo_status status = learn_hosts(group, parent, members, n, error);
  if (status == GLOO_OK) status = copy_tuning(group, parent, error);
  if (status == GLOO_OK) status = settle_early_links(group, error);
  if (status != GLOO_OK || !group->lobby) return status;
  return form_lobby(group->lobby, group, error);
}

gloo_status gli_group_form(gloo_context *group, const gloo_context *parent,
                           const gli_member *members, uint32_t n, uint32_t own,
                           int64_t timeout_ns, gloo_error *error) {
  gloo_device *device = group->device;
  gli_device_lock(device);
  if (timeout_ns != 0) group->timeout_ns = timeout_ns;
  gloo_status status = form(group, parent, members, n, own, error);
  if (status != GLOO_OK) gli_context_poison(group, error);
  gli_device_settle(device);
  gli_device_unlock(device);
  return status;
}

gloo_status gli_context_fail(gloo_context *context, const gloo_error *cause) {
  gloo_device *device = context->device;
  gli_device_lock(device);
  gli_context_poison(context, cause);
  gli_device_settle(device);
  gli_device_unlock(device);
  return cause->status;
}

gloo_status gli_context_cause(const gloo_context *context, gloo_error *cause) {
  gli_device_lock(context->device);
  *cause = context->cause;
  gli_device_unlock(context->device);
  return cause->status;
}

/* ---- what arrives -------------------------------------------------------- */

/* A peer that has a group formed may make groups of it before it is formed
 * here. */
static gloo_context *find_or_make_lobby(gli_family *family, uint32_t id,
                                        gloo_error *error) {
  gloo_context *base = find_group(family, id - LOBBY);
  if (id == LOBBY && !family->rootless) base = family->root;
  if (!base || base->is_lobby) return NULL;
  return make_lobby(base, error) == GLOO_OK ? base->lobby : NULL;
}

static gli_link *first_message(gli_link *carrier, uint32_t id,
                               gloo_error *error) {
  gli_family *family = carrier->context->family;
  gloo_context *group = find_group(family, id);
  if (!group) group = find_or_make_lobby(family, id, error);
  if (!group) return NULL;
  if (group->size == 0) return new_link(group, carrier, error);
  uint32_t rank = gli_context_rank_of(group, carrier->rank);
  if (rank != GLI_NO_RANK) return gli_context_link(group, rank, error);
  gli_fail(error, GLOO_ERR_PROTOCOL, (int)carrier->rank,
           "rank %u sent a message for a group that it is not in",
           carrier->rank);
  return NULL;
}

gli_link *gli_group_find_link(gli_link *carrier, const gli_header *h,
                              gloo_error *error) {
  const gli_family *family = carrier->context->family;
  if (family->route_slots > 0) {
    size_t at = route_of(h->context, carrier->rank, family->route_slots);
    gli_link *link = family->routes[at];
    while (link && (link->own != h->context || link->carrier != carrier)) {
      link = link->route_next;
    }
    if (link) return link;
  }
  return first_message(carrier, h->context, error);
}

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

/* ---- the end ------------------------------------------------------------- */

void gli_group_close(gloo_context *group) {
  gli_family *family = group->family;
  if (group->lobby) gli_group_close(group->lobby);
  gli_group_say_left(group);
  gli_parked_drop(group);
  gli_context_detach_operations(group);
  gloo_context **at = &family->groups;
  while (*at != group) at = &(*at)->next;
  *at = group->next;
  while (group->links) {
    gli_link *link = group->links;
    group->links = link->next;
    let_go(group, link);
  }
  gli_context_free(group);
  reap(family);
}

/* ---- ranks --------------------------------------------------------------- */

uint32_t gli_context_root_rank(const gloo_context *context, uint32_t rank) {
  return context->peers[rank].rank;
}

uint32_t gli_context_rank_of(const gloo_context *context, uint32_t root_rank) {
  if (gli_context_is_root(context)) {
    return root_rank < context->size ? root_rank : GLI_NO_RANK;
  }
  for (uint32_t i = 0; i < context->size; i++) {
    if (context->peers[i].rank == root_rank) return i;
  }
  return GLI_NO_RANK;
}

bool gli_context_related(const gloo_context *a, const gloo_context *b) {
  return a->family == b->family;
}
