/* Groups: contexts that use the pairs of another.
 *
 * A message for a group goes through the pair of the root context to the same
 * rank. Its header has the number that the receiver has given to the group.
 * Everything else about it, credit included, is between the two links of the
 * group, which use the pair only to send. A number leads to a group from the
 * moment at which others can learn it, so messages that arrive before the group
 * is formed are kept like messages for operations that are not started yet.
 *
 * End. A group sends DEPARTED on its links where a context sends BYE and closes
 * the pair. Links with pending messages outlive their group until these are
 * done. The root lives until the last of its groups has ended. Messages for a
 * group that has ended are discarded, and the sender is notified. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* The numbers of a group and its control context are consecutive; those of the
 * root are 0 and 1. */
enum { CONTROL = 1, NUMBERS = 2 };

/* The budget of credit for groups: many groups must not take much more memory
 * than their root. */
#define GROUP_BUDGET GLI_EAGER_BUDGET_MIN

/* ---- making a group ------------------------------------------------------ */

static gloo_context *find_group_by_id(const gli_family *family, uint32_t id) {
  gloo_context *g = family->groups;
  while (g != NULL && g->id != id) g = g->next;
  return g;
}

/* Returns an unused number. Numbers are reused after four billion, when no
 * message for the last group of that number can be pending. */
static uint32_t next_number(gli_family *family) {
  do {
    family->last_id += NUMBERS;
  } while (family->last_id == 0 ||
           find_group_by_id(family, family->last_id) != NULL);
  return family->last_id;
}

static gloo_context *new_group(const gloo_context *parent, uint32_t id,
                               uint32_t size, gloo_error *error) {
  gloo_context *group = gli_context_new(parent->device, size);
  if (group == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a group");
    return NULL;
  }
  gli_family *family = parent->family;
  group->family = family;
  group->trace = family->trace;
  group->id = id;
  group->budget = GROUP_BUDGET;
  group->root_rank = parent->root_rank;
  group->timeout_ns = parent->timeout_ns;
  group->oversubscribed = parent->oversubscribed;
  group->maps = parent->maps;
  group->buffers_promised = parent->buffers_promised;
  if (gli_context_poisoned(family->root)) {
    group->cause = family->root->cause;
    gli_posted_put(&group->news, &group->cause);
  }
  group->next = family->groups;
  family->groups = group;
  return group;
}

gloo_context *gli_group_new(gloo_context *parent, gloo_error *error) {
  gli_group_reap(parent->family);
  return new_group(parent, next_number(parent->family), 0, error);
}

/* Binds the links that messages of others created before the members were
 * known. */
static gloo_status bind_early_links(gloo_context *group, gloo_error *error) {
  for (gli_link *link = group->links; link != NULL; link = link->next) {
    uint32_t rank = gli_context_rank_of(group, link->rank);
    if (rank == GLI_NO_RANK) {
      return gli_fail(
          error, GLOO_ERR_PROTOCOL, (int)link->rank,
          "rank %u sent a message for a group it is not a member of",
          link->rank);
    }
    gli_group_join_link(link, &group->peers[rank], rank);
  }
  return GLOO_OK;
}

/* Sets the name of a group in records: the number that its first rank gave it,
 * since each rank numbers groups itself. */
static void group_name(gloo_context *group) {
  group->group_first = (uint16_t)group->peers[0].rank;
  group->group_number = group->peers[0].group;
}

static gloo_status form_control(gloo_context *control, const gloo_context *base,
                                gloo_error *error) {
  gli_peer *peers = calloc(base->size, sizeof *peers);
  if (peers == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for groups of %u ranks", base->size);
  }
  for (uint32_t i = 0; i < base->size; i++) {
    peers[i].rank = base->peers[i].rank;
    peers[i].group = base->peers[i].group + CONTROL;
  }
  free(control->peers);
  control->peers = peers;
  control->size = base->size;
  control->rank = base->rank;
  control->timeout_ns = base->timeout_ns;
  group_name(control);
  return bind_early_links(control, error);
}

static gloo_status make_control(gloo_context *base, gloo_error *error) {
  gloo_context *control = new_group(base, base->id + CONTROL, 0, error);
  if (control == NULL) return error->status;
  control->is_control = true;
  base->control = control;
  return base->size > 0 ? form_control(control, base, error) : GLOO_OK;
}

gloo_context *gli_group_control(gloo_context *context, gloo_error *error) {
  if (context->control == NULL && make_control(context, error) != GLOO_OK)
    return NULL;
  return context->control;
}

/* Determines which ranks share a host, from the hosts of the parent. */
static gloo_status group_learn_hosts(gloo_context *group,
                                     const gloo_context *parent,
                                     const gli_member *members, uint32_t n,
                                     gloo_error *error) {
  if (parent->hosts == NULL) return GLOO_OK;
  uint64_t *keys = calloc(n, sizeof *keys);
  if (keys == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the hosts of %u ranks", n);
  }
  for (uint32_t i = 0; i < n; i++) keys[i] = parent->hosts->of[members[i].rank];
  gli_hosts *hosts;
  gloo_status status = gli_hosts_make(keys, n, &hosts, error);
  free(keys);
  if (status == GLOO_OK)
    gli_context_set_hosts(group, hosts, parent->oversubscribed);
  return status;
}

static gloo_status copy_tuning(gloo_context *group, const gloo_context *parent,
                               gloo_error *error) {
  const gli_tuning *from = parent->tuning;
  if (from == NULL) return GLOO_OK;
  size_t bytes = sizeof *from + from->n * sizeof from->rules[0];
  gli_tuning *copy = malloc(bytes);
  if (copy == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the choices of algorithms of a group");
  }
  memcpy(copy, from, bytes);
  gli_context_set_tuning(group, copy);
  return GLOO_OK;
}

gloo_status gli_group_set_members(gloo_context *group,
                                  const gloo_context *parent,
                                  const gli_member *members, uint32_t n,
                                  uint32_t own, gloo_error *error) {
  gli_peer *peers = calloc(n, sizeof *peers);
  if (peers == NULL) {
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
  group_name(group);
  gloo_status status = group_learn_hosts(group, parent, members, n, error);
  if (status == GLOO_OK) status = copy_tuning(group, parent, error);
  if (status == GLOO_OK) status = bind_early_links(group, error);
  if (status != GLOO_OK || group->control == NULL) return status;
  return form_control(group->control, group, error);
}

/* ---- arrivals ------------------------------------------------------------ */

/* Finds a control context, or makes it: a peer that has formed a group may make
 * groups of it before it is formed here. */
static gloo_context *find_or_make_control(gli_family *family, uint32_t id,
                                          gloo_error *error) {
  gloo_context *base = find_group_by_id(family, id - CONTROL);
  if (id == CONTROL && !family->orphaned) base = family->root;
  if (base == NULL || base->is_control) return NULL;
  return make_control(base, error) == GLOO_OK ? base->control : NULL;
}

static gli_link *first_message(gli_link *base_link, uint32_t id,
                               gloo_error *error) {
  gli_family *family = base_link->context->family;
  gloo_context *group = find_group_by_id(family, id);
  if (group == NULL) group = find_or_make_control(family, id, error);
  if (group == NULL) return NULL;
  if (group->size == 0) return gli_group_new_link(group, base_link, error);
  uint32_t rank = gli_context_rank_of(group, base_link->rank);
  if (rank != GLI_NO_RANK) return gli_context_link(group, rank, error);
  gli_fail(error, GLOO_ERR_PROTOCOL, (int)base_link->rank,
           "rank %u sent a message for a group it is not a member of",
           base_link->rank);
  return NULL;
}

gli_link *gli_group_find_link(gli_link *base_link, const gli_header *h,
                              gloo_error *error) {
  gli_link *link = gli_group_known_link(base_link, h->context);
  return link != NULL ? link : first_message(base_link, h->context, error);
}

/* ---- the end ------------------------------------------------------------- */

void gli_group_close(gloo_context *group) {
  gli_family *family = group->family;
  if (group->control != NULL) gli_group_close(group->control);
  gli_group_say_departed(group);
  gli_early_drop(group);
  gli_context_detach_operations(group);
  gloo_context **at = &family->groups;
  while (*at != group) at = &(*at)->next;
  *at = group->next;
  if (family->root->suspected == group) {
    family->root->suspected = NULL;
    if (family->root->disputes) gli_error_undecided(&family->root->suspect);
    family->root->disputes = family->root->misses = false;
  }
  while (group->links != NULL) {
    gli_link *link = group->links;
    group->links = link->next;
    gli_group_drain_link(group, link);
  }
  gli_context_free(group);
  gli_group_reap(family);
}
