/* The end of links of groups (see group.c). */
#include <stdlib.h>

#include "engine/contexts/contexts.h"
#include "engine/run/in_order.h"
#include "engine/wire/wire.h"

static bool has_work(const gli_link *link) {
  return link->again.first || link->flying.first || link->arriving.first;
}

static void free_link(gli_link *link) {
  gli_flow_drop(link); /* from the lists of the device */
  gli_link_free(link);
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
  gli_group_forget_link(family, link);
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
  if (link->awaits) gli_in_order_leave(link->awaits);
  link->leaves_after = h->operation;
  gli_group_check_leaving(link);
}
