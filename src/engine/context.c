/* Contexts: links to other ranks, counters, and the end of it all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "core/log.h"
#include "engine/context.h"
#include "engine/device.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/operation.h"
#include "engine/straight.h"

/* Steps of all cached plans together; a step takes about 80 bytes. */
enum { CACHED_STEPS = 1 << 18 };

/* ---- open ---------------------------------------------------------------- */

static uint32_t budget_for(uint32_t size) {
  uint32_t each = GLI_PARK_BUDGET_ALL / size;
  if (each > GLI_PARK_BUDGET_MAX) return GLI_PARK_BUDGET_MAX;
  return each < GLI_PARK_BUDGET_MIN ? GLI_PARK_BUDGET_MIN : each;
}

gloo_context *gli_context_new(gloo_device *device, uint32_t size) {
  gloo_context *context = calloc(1, sizeof *context);
  if (!context) return NULL;
  context->cache = gli_plan_cache_create(CACHED_STEPS, gli_operation_free_pool);
  context->peers = calloc(size > 0 ? size : 1, sizeof *context->peers);
  context->device = device;
  context->size = size;
  if (context->cache && context->peers) return context;
  gli_context_free(context);
  return NULL;
}

static void free_counters(gloo_context *context) {
  for (uint32_t i = 0; i < context->counter_slots; i++) {
    free(context->counters[i]);
  }
  free(context->counters);
}

void gli_context_free(gloo_context *context) {
  if (!context) return;
  if (context->cache) gli_plan_cache_destroy(context->cache);
  gli_hosts_free(context->hosts);
  free(context->tuning);
  free(context->contacts);
  free(context->peers);
  free_counters(context);
  free(context);
}

gloo_status gli_context_open(gloo_device *device, uint32_t rank, uint32_t size,
                             uint64_t key, int64_t timeout_ns,
                             gloo_context **out, gloo_error *error) {
  gloo_context *context = gli_context_new(device, size);
  if (!context) goto no_memory;
  context->contacts = calloc(size, sizeof *context->contacts);
  context->family = calloc(1, sizeof *context->family);
  if (!context->contacts || !context->family) goto no_memory;
  for (uint32_t i = 0; i < size; i++) context->peers[i].rank = i;
  context->family->root = context;
  context->rank = context->root_rank = rank;
  context->key = key;
  context->timeout_ns = timeout_ns;
  context->budget = budget_for(size);
  gli_device_lock(device);
  context->next = device->contexts;
  device->contexts = context;
  gli_device_unlock(device);
  *out = context;
  return GLOO_OK;

no_memory:
  if (context) free(context->family);
  gli_context_free(context);
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a context of %u ranks", size);
}

void gli_context_set_peer(gloo_context *context, uint32_t rank,
                          const gli_address *address, uint64_t key) {
  gli_device_lock(context->device);
  context->contacts[rank] = (gli_contact){*address, key};
  gli_device_unlock(context->device);
}

void gli_context_set_hosts(gloo_context *context, gli_hosts *hosts,
                           bool crowded) {
  context->crowded = crowded;
  gli_hosts_free(context->hosts);
  context->hosts = hosts->n > 1 ? hosts : NULL;
  if (hosts->n == 1) gli_hosts_free(hosts);
}

const gli_hosts *gli_context_hosts(const gloo_context *context) {
  return context->hosts;
}

void gli_context_set_tuning(gloo_context *context, gli_tuning *tuning) {
  free(context->tuning);
  context->tuning = tuning;
  context->choices = 0;
  if (tuning == NULL) return;
  uint64_t hash = tuning->hash ^ tuning->hash >> 32;
  hash ^= hash >> 16;
  uint8_t choices = (uint8_t)(hash ^ hash >> 8);
  context->choices = choices != 0 ? choices : 1;
}

const gli_tuning *gli_context_tuning(const gloo_context *context) {
  return context->tuning;
}

bool gli_context_crowded(const gloo_context *context) {
  return context->crowded;
}

bool gli_context_near(const gloo_context *context) {
  return context->device->ops->refer != NULL;
}

void gli_context_own_device(gloo_context *context) {
  context->owns_device = true;
}

gloo_device *gli_context_device(const gloo_context *context) {
  return context->device;
}

/* ---- links --------------------------------------------------------------- */

gli_link *gli_context_link(gloo_context *context, uint32_t rank,
                           gloo_error *error) {
  gli_peer *peer = &context->peers[rank];
  if (peer->link) return peer->link;
  if (!gli_context_is_root(context)) {
    return gli_group_open_link(context, rank, error);
  }
  const gli_contact *contact = &context->contacts[rank];
  gli_link *link = calloc(1, sizeof *link);
  if (!link) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for the link to rank %u", rank);
    return NULL;
  }
  link->context = context;
  link->carrier = link;
  link->rank = link->local = rank;
  link->self = rank == context->rank;
  if (!link->self) {
    gli_pair_config config = {.self_rank = context->rank,
                              .peer_rank = rank,
                              .local_key = context->key,
                              .remote_key = contact->key,
                              .address = contact->address,
                              .user = link};
    gloo_device *device = context->device;
    gloo_status status =
        device->ops->pair_open(device->transport, &config, &link->pair, error);
    if (status != GLOO_OK) {
      free(link);
      return NULL;
    }
  }
  peer->link = link;
  link->next = context->links;
  context->links = link;
  if (context->family->rootless) {
    gli_flow_control(link, GLI_MESSAGE_LEFT, NULL, 0);
  }
  return link;
}

gloo_status gli_context_join_tree(gloo_context *context, gloo_error *error) {
  gloo_device *device = context->device;
  gloo_status status = GLOO_OK;
  gli_device_lock(device);
  /* The neighbours of a rank differ from it in one bit: its parent lacks its
   * lowest one, its children have one more below that. */
  for (uint32_t bit = 1; status == GLOO_OK && bit < context->size; bit <<= 1) {
    uint32_t other = context->rank ^ bit;
    if (other < context->size && !gli_context_link(context, other, error)) {
      status = error->status;
    }
    if (context->rank & bit) break;
  }
  gli_device_poll(device);
  gli_device_unlock(device);
  return status;
}

const char *gli_context_route(gloo_context *context, uint32_t peer,
                              char why[GLI_WHY_BYTES]) {
  const char *route = "its own memory";
  why[0] = '\0';
  if (peer == context->rank) return route;
  gloo_device *device = context->device;
  gli_device_lock(device);
  const gloo_context *root = context->family->root;
  const gli_link *link = root->peers[context->peers[peer].rank].link;
  route = device->ops->name;
  if (link == NULL || link->pair == NULL)
    route = NULL;
  else if (device->ops->route != NULL)
    route = device->ops->route(link->pair, why);
  gli_device_unlock(device);
  return route;
}

/* ---- counters ------------------------------------------------------------ */

/* Open addressing; slots are a power of two and at most half full. */
static gli_tag_counter **find_counter(gli_tag_counter **counters,
                                      uint32_t slots, uint32_t tag) {
  uint32_t mask = slots - 1;
  uint32_t at = tag * UINT32_C(0x9e3779b1) & mask;
  while (counters[at] && counters[at]->tag != tag) at = (at + 1) & mask;
  return &counters[at];
}

static bool grow_counters(gloo_context *context) {
  uint32_t slots = context->counter_slots ? context->counter_slots * 2 : 16;
  gli_tag_counter **bigger = calloc(slots, sizeof(gli_tag_counter *));
  if (!bigger) return false;
  for (uint32_t i = 0; i < context->counter_slots; i++) {
    gli_tag_counter *old = context->counters[i];
    if (old) *find_counter(bigger, slots, old->tag) = old;
  }
  free(context->counters);
  context->counters = bigger;
  context->counter_slots = slots;
  return true;
}

uint64_t *gli_context_counter(gloo_context *context, uint32_t tag) {
  if (context->n_counters * 2 >= context->counter_slots &&
      !grow_counters(context)) {
    return NULL;
  }
  gli_tag_counter **at =
      find_counter(context->counters, context->counter_slots, tag);
  if (!*at) {
    *at = calloc(1, sizeof **at);
    if (!*at) return NULL;
    (*at)->tag = tag;
    context->n_counters++;
  }
  return &(*at)->next;
}

uint64_t gli_context_started(const gloo_context *context, uint32_t tag) {
  if (context->counter_slots == 0) return 0;
  const gli_tag_counter *counter =
      *find_counter(context->counters, context->counter_slots, tag);
  return counter ? counter->next : 0;
}

/* ---- errors -------------------------------------------------------------- */

gloo_status gli_context_refuse(gloo_context *context, const gloo_error *error) {
  gli_log(GLOO_LOG_INFO, "refused a call: %s", error->message);
  gli_device_lock(context->device);
  context->refused = *error;
  gli_device_unlock(context->device);
  return error->status;
}

void gli_context_poison(gloo_context *context, const gloo_error *cause) {
  if (gli_context_poisoned(context)) return;
  gli_family *family = context->family;
  gloo_error told = *cause;
  char where[48] = "";
  if (context->is_lobby) {
    snprintf(where, sizeof where, "while a group was made: ");
  } else if (!gli_context_is_root(context)) {
    snprintf(where, sizeof where, "in a group of %u ranks: ", context->size);
  }
  gli_error_prefix(&told, "%s", where);
  family->root->cause = told;
  for (gloo_context *g = family->groups; g; g = g->next) g->cause = told;
  family->root->unsettled = true;
  context->device->unsettled = true;
  for (gloo_operation *op = family->active.first; op; op = op->active_next) {
    if (op->straight) gli_straight_stop(op);
  }
  gli_log(GLOO_LOG_INFO, "rank %u: the context failed: %s", context->root_rank,
          told.message);
}

/* ---- the end ------------------------------------------------------------- */

/* The cause without "reported by rank N: ", which the next rank puts there. */
static const char *original_text(const gloo_error *cause) {
  static const char start[] = "reported by rank ";
  if (strncmp(cause->message, start, sizeof start - 1) != 0) {
    return cause->message;
  }
  const char *colon = strchr(cause->message, ':');
  return colon && colon[1] == ' ' ? colon + 2 : cause->message;
}

static void make_abort(const gloo_error *cause, gli_send_request *request,
                       uint8_t payload[GLI_ABORT_MAX]) {
  const char *text = original_text(cause);
  size_t length = strlen(text);
  gli_put_u32(payload, (uint32_t)cause->status);
  gli_put_u32(payload + 4, (uint32_t)cause->rank);
  memcpy(payload + 8, text, length);
  *request = (gli_send_request){.payload = payload};
  request->header.type = GLI_MESSAGE_ABORT;
  request->header.length = 8 + length;
}

static void close_link(gli_link *link, const gli_send_request *last) {
  if (link->pair) {
    bool silent = link->gone || link->failed;
    link->pair->ops->pair_close(link->pair, silent ? NULL : last);
    link->pair = NULL;
  }
  gli_flow_drop(link);
}

static void close_links(gloo_context *context, gli_send_request *last) {
  for (gli_link *link = context->links; link; link = link->next) {
    last->header.credit = link->consumed;
    close_link(link, last);
  }
}

void gli_context_settle(gloo_context *context) {
  if (!context->unsettled) return;
  context->unsettled = false;
  gli_send_request request;
  uint8_t payload[GLI_ABORT_MAX];
  make_abort(&context->cause, &request, payload);
  close_links(context, &request);
  gli_family *family = context->family;
  gli_group_drop_links(family);
  while (family->active.first) {
    gli_operation_finish(family->active.first, &context->cause);
  }
  while (family->posted.first) {
    gli_operation_finish(family->posted.first, &context->cause);
  }
  gli_parked_drop(context);
  for (gloo_context *g = family->groups; g; g = g->next) gli_parked_drop(g);
}

void gli_context_detach_operations(gloo_context *context) {
  gli_repeat_forget_all(context);
  while (context->all) {
    gloo_operation *op = context->all;
    context->all = op->all_next;
    op->context = NULL;
    gli_plan_cache_put(context->cache, op->ref);
  }
}

static void unlist(gloo_context *context) {
  gloo_context **at = &context->device->contexts;
  while (*at != context) at = &(*at)->next;
  *at = context->next;
}

static bool has_some(const gli_operation_list *list,
                     const gloo_context *context) {
  const gloo_operation *op = list->first;
  while (op && op->context != context) op = op->active_next;
  return op != NULL;
}

bool gli_context_is_busy(const gloo_context *context) {
  return has_some(&context->family->active, context) ||
         has_some(&context->family->posted, context) ||
         (context->lobby && gli_context_is_busy(context->lobby));
}

/* The last of the family goes. */
static void end_family(gloo_context *root) {
  gli_family *family = root->family;
  gli_send_request bye = {.header = {.type = GLI_MESSAGE_BYE}};
  close_links(root, &bye);
  gli_group_drop_links(family);
  gli_parked_drop(root);
  gli_context_detach_operations(root);
  unlist(root);
  while (root->links) {
    gli_link *link = root->links;
    root->links = link->next;
    free(link);
  }
  gli_context_free(root);
  free(family->routes);
  free(family);
}

/* True when that was the end of the family. */
static bool close_one(gloo_context *context) {
  gli_family *family = context->family;
  if (!gli_context_is_root(context)) {
    gli_group_close(context);
  } else {
    if (context->lobby) gli_group_close(context->lobby);
    family->rootless = true;
    gli_context_detach_operations(context);
    if (family->groups) gli_group_say_left(context);
  }
  if (!family->rootless || family->groups) return false;
  end_family(family->root);
  return true;
}

void gli_context_close(gloo_context *context) {
  gloo_device *device = context->device;
  const gloo_context *root = context->family->root;
  bool owns_device = root->owns_device;
  gli_device_lock(device);
  if (gli_context_is_busy(context)) {
    gloo_error cause;
    gli_fail(&cause, GLOO_ERR_CANCELLED, (int)context->root_rank,
             "rank %u destroyed its context while operations were running",
             context->root_rank);
    gli_context_poison(context, &cause);
  }
  gli_device_settle(device);
  bool ended = close_one(context);
  gli_device_unlock(device);
  if (ended && owns_device) {
    gli_device_close(device);
  } else {
    gli_device_kick(device);
  }
}

/* ---- public -------------------------------------------------------------- */

int gloo_context_rank(const gloo_context *context) {
  return context ? (int)context->rank : -1;
}

int gloo_context_size(const gloo_context *context) {
  return context ? (int)context->size : -1;
}

gloo_status gloo_context_error(const gloo_context *context, gloo_error *error) {
  if (!context || !error || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  gloo_device *device = context->device;
  gli_device_lock(device);
  gli_device_poll(device);
  gli_device_check_deadlines(device);
  bool poisoned = gli_context_poisoned(context);
  *error = poisoned ? context->cause : context->refused;
  gli_device_unlock(device);
  return error->status;
}
