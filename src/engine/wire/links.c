/* Links. The links of a root own a pair each, and links of groups use them.
 * Routes lead a message that arrives on a pair for a group to its link. */
#include <stdlib.h>

#include "core/error.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* ---- routes -------------------------------------------------------------- */

static size_t route_of(uint32_t id, uint32_t rank, size_t slots) {
  uint32_t mixed = id * UINT32_C(0x9e3779b1) + rank * UINT32_C(0x85ebca6b);
  return (mixed ^ mixed >> 15) & (slots - 1);
}

static bool grow_routes(gli_family *family) {
  size_t slots = family->route_slots ? 2 * family->route_slots : 64;
  gli_link **routes = calloc(slots, sizeof(gli_link *));
  if (routes == NULL) return family->route_slots > 0; /* slower, but correct */
  for (size_t i = 0; i < family->route_slots; i++) {
    while (family->routes[i] != NULL) {
      gli_link *link = family->routes[i];
      family->routes[i] = link->group.next;
      size_t at = route_of(link->group.own, link->rank, slots);
      link->group.next = routes[at];
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
  size_t at = route_of(link->group.own, link->rank, family->route_slots);
  link->group.next = family->routes[at];
  family->routes[at] = link;
  family->n_routes++;
  return true;
}

void gli_group_forget_link(gli_family *family, const gli_link *link) {
  size_t slot = route_of(link->group.own, link->rank, family->route_slots);
  gli_link **at = &family->routes[slot];
  while (*at != link) at = &(*at)->group.next;
  *at = link->group.next;
  family->n_routes--;
}

gli_link *gli_group_known_link(const gli_link *base_link, uint32_t id) {
  const gli_family *family = base_link->context->family;
  if (family->route_slots == 0) return NULL;
  size_t at = route_of(id, base_link->rank, family->route_slots);
  gli_link *link = family->routes[at];
  while (link != NULL &&
         (link->group.own != id || link->group.base != base_link)) {
    link = link->group.next;
  }
  return link;
}

/* ---- links --------------------------------------------------------------- */

gli_link *gli_group_new_link(gloo_context *group, gli_link *base_link,
                             gloo_error *error) {
  gli_link *link = calloc(1, sizeof *link);
  if (link != NULL) {
    link->context = group;
    link->group.base = base_link;
    link->rank = base_link->rank;
    link->local = GLI_NO_RANK;
    link->pair = base_link->pair;
    link->self = base_link->self;
    link->leaving.departed = base_link->leaving.said_bye;
    link->group.own = group->id;
  }
  if (link == NULL || !add_route(group->family, link)) {
    free(link);
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for a group's link to rank %u", base_link->rank);
    return NULL;
  }
  link->next = group->links;
  group->links = link;
  return link;
}

void gli_group_join_link(gli_link *link, gli_peer *peer, uint32_t local) {
  link->local = local;
  link->group.peers = link->self ? 0 : peer->group;
  peer->link = link;
}

gli_pair_config gli_context_pair_config(const gloo_context *root,
                                        uint32_t rank) {
  const gli_contact *contact = &root->contacts[rank];
  return (gli_pair_config){.self_rank = root->rank,
                           .peer_rank = rank,
                           .local_key = root->key,
                           .remote_key = contact->key,
                           .job_key = root->asks ? root->job_key : NULL,
                           .address = contact->address};
}

static gli_link *new_root_link(gloo_context *context, uint32_t rank,
                               gloo_error *error) {
  gli_link *link = calloc(1, sizeof *link);
  if (link == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for the link to rank %u", rank);
    return NULL;
  }
  link->context = context;
  link->group.base = link;
  link->rank = link->local = rank;
  link->self = rank == context->rank;
  if (!link->self) {
    gli_pair_config config = gli_context_pair_config(context, rank);
    config.user = link;
    gloo_device *device = context->device;
    gloo_status status =
        device->ops->pair_open(device->transport, &config, &link->pair, error);
    if (status != GLOO_OK) {
      free(link);
      return NULL;
    }
  }
  link->next = context->links;
  context->links = link;
  if (context->family->orphaned) {
    gli_wire_control(link, GLI_MESSAGE_DEPARTED, NULL, 0);
  }
  return link;
}

gli_link *gli_context_try_link(gloo_context *root, uint32_t rank,
                               gloo_error *error) {
  if (root->peers[rank].link != NULL) return root->peers[rank].link;
  gli_link *trial = root->heartbeat.trial;
  if (trial == NULL) trial = new_root_link(root, rank, error);
  root->heartbeat.trial = trial;
  return trial;
}

void gli_context_keep_link(gli_link *link) {
  gloo_context *root = link->context;
  if (root->heartbeat.trial != link) return;
  root->heartbeat.trial = NULL;
  root->peers[link->rank].link = link;
}

static gli_link *open_root_link(gloo_context *context, uint32_t rank,
                                gloo_error *error) {
  gli_link *link = context->heartbeat.trial;
  if (link == NULL || link->rank != rank) {
    link = new_root_link(context, rank, error);
    if (link != NULL) context->peers[rank].link = link;
    return link;
  }
  gli_context_keep_link(link);
  if (link->failed) {
    gloo_error cause;
    gli_fail(&cause, GLOO_ERR_PEER, (int)rank,
             "rank %u cannot be reached; it may have left, or exited", rank);
    gli_link_suspect(link, &cause);
  }
  return link;
}

/* Opens a link of a group. The first message on it is empty, but a rank that
 * has left answers it. */
static gli_link *open_group_link(gloo_context *group, uint32_t rank,
                                 gloo_error *error) {
  gli_peer *peer = &group->peers[rank];
  gloo_context *root = group->family->root;
  gli_link *base_link = root->peers[peer->rank].link;
  if (base_link == NULL) base_link = open_root_link(root, peer->rank, error);
  if (base_link == NULL) return NULL;
  gli_link *link = gli_group_new_link(group, base_link, error);
  if (link == NULL) return NULL;
  gli_group_join_link(link, peer, rank);
  if (!link->self) gli_wire_control(link, GLI_MESSAGE_CREDIT, NULL, 0);
  return link;
}

void gli_link_close(gli_link *link, const gli_send_request *last) {
  if (link->pair != NULL && link->context->device->fork.child) {
    if (link->pair->ops->pair_abandon != NULL)
      link->pair->ops->pair_abandon(link->pair);
    link->pair = NULL;
  }
  if (link->pair != NULL) {
    bool silent = link->leaving.said_bye || link->failed;
    link->pair->ops->pair_close(link->pair, silent ? NULL : last);
    link->pair = NULL;
  }
  gli_wire_drop(link);
}

void gli_link_free(gli_link *link) {
  gli_counters_free(&link->sent);
  gli_counters_free(&link->found);
  free(link);
}

void gli_context_drop_link(gloo_context *root, uint32_t rank) {
  gli_link *link = root->peers[rank].link, **at = &root->links;
  if (link == NULL) return;
  gli_link_close(link, NULL);
  while (*at != link) at = &(*at)->next;
  *at = link->next;
  root->peers[rank].link = NULL;
  gli_link_free(link);
}

gli_link *gli_context_link(gloo_context *context, uint32_t rank,
                           gloo_error *error) {
  gli_link *link = context->peers[rank].link;
  if (link != NULL) return link;
  return gli_context_is_root(context) ? open_root_link(context, rank, error)
                                      : open_group_link(context, rank, error);
}
