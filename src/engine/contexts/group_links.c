/* The end of links of groups (see group_context.c). */
#include <stdlib.h>

#include "engine/contexts/contexts.h"
#include "engine/run/in_order.h"
#include "engine/wire/wire.h"

static bool link_has_work(const gli_link *link) {
  return link->pending.first != NULL || link->in_flight.first != NULL ||
         link->arriving.first != NULL;
}

static void free_link(gli_link *link) {
  gli_wire_drop(link); /* removes it from the lists of the device */
  gli_link_free(link);
}

void gli_group_reap(gli_family *family) {
  gli_link **at = &family->draining;
  while (*at != NULL) {
    gli_link *link = *at;
    if (link_has_work(link)) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    free_link(link);
  }
}

void gli_group_drain_link(gloo_context *group, gli_link *link) {
  gli_family *family = group->family;
  gli_group_forget_link(family, link);
  if (link->self || link->pair == NULL || !link_has_work(link)) {
    free_link(link);
    return;
  }
  link->context = family->root;
  link->next = family->draining;
  family->draining = link;
}

void gli_group_base_departed(gli_link *base_link) {
  const gli_family *family = base_link->context->family;
  for (gloo_context *g = family->groups; g != NULL; g = g->next) {
    gli_link *link = g->links;
    while (link != NULL && link->group.base != base_link) link = link->next;
    if (link != NULL && !link->leaving.departed) gli_link_departed(link);
  }
}

/* Drops the links of all groups, after the pairs were closed. */
void gli_group_drop_links(gli_family *family) {
  for (gloo_context *g = family->groups; g != NULL; g = g->next) {
    for (gli_link *link = g->links; link != NULL; link = link->next) {
      link->pair = NULL;
      gli_wire_drop(link);
    }
  }
  while (family->draining != NULL) {
    gli_link *link = family->draining;
    family->draining = link->next;
    free_link(link);
  }
}

/* ---- messages for groups that have ended --------------------------------- */

/* A kernel that does nothing. */
static void throw_away(void *out, const void *left, const void *right,
                       size_t count) {
  (void)out;
  (void)left;
  (void)right;
  (void)count;
}

void gli_sink_nowhere(gli_sink *sink, uint64_t bytes) {
  static uint8_t nowhere;
  if (bytes == 0) return;
  sink->dst = &nowhere;
  sink->local = &nowhere;
  sink->fn = throw_away;
  sink->elem_bytes = 1;
}

gloo_status gli_group_is_gone(gli_link *base_link, const gli_header *h,
                              gli_sink *sink, gloo_error *error) {
  gli_sink_nowhere(sink, h->length);
  if (h->type == GLI_MESSAGE_DEPARTED) return GLOO_OK; /* both left */
  gli_header about = {.tag = h->context};
  return gli_wire_answer(base_link, GLI_MESSAGE_DEPARTED, &about, error);
}

/* ---- DEPARTED ------------------------------------------------------------ */

void gli_group_say_departed(gloo_context *context) {
  for (gli_link *link = context->links; link != NULL; link = link->next) {
    if (link->self || link->leaving.departed || link->pair == NULL) continue;
    if (link->local == GLI_NO_RANK) { /* not formed: number unknown */
      gli_header about = {.tag = link->group.own};
      gli_wire_control(link->group.base, GLI_MESSAGE_DEPARTED, &about, 1);
      continue;
    }
    gli_header about = {.operation = link->leaving.sent};
    gli_wire_control(link, GLI_MESSAGE_DEPARTED, &about, 0);
  }
}

void gli_group_check_departing(gli_link *link) {
  if (link->leaving.came < link->leaving.after) return;
  link->leaving.announced = false;
  if (!link->leaving.departed) gli_link_departed(link);
}

/* Takes the answer to a message for a group that has ended at the peer. It
 * counts unless the group has sent DEPARTED in the usual way. */
static void is_gone_there(gli_link *base_link, uint32_t id) {
  const gli_family *family = base_link->context->family;
  for (gloo_context *g = family->groups; g != NULL; g = g->next) {
    gli_link *link = g->links;
    while (link != NULL && link->group.base != base_link) link = link->next;
    if (link == NULL || link->local == GLI_NO_RANK || link->group.peers != id)
      continue;
    if (link->leaving.departed || link->leaving.announced) continue;
    gli_link_departed(link);
    return;
  }
}

void gli_group_departs(gli_link *link, const gli_header *h) {
  if (h->slot != 0 && link->group.base == link) {
    is_gone_there(link, h->tag);
    return;
  }
  link->leaving.announced = true; /* from now on its messages are counted */
  if (link->awaits != NULL) gli_in_order_leave(link->awaits);
  link->leaving.after = h->operation;
  gli_group_check_departing(link);
}
