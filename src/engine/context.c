/* Contexts: links to other ranks, and counters. */
#include <stdlib.h>

#include "core/error.h"
#include "engine/context.h"
#include "engine/device.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/operation.h"

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
  if (gli_forked(&device->birth))
    return gli_fork_refuse(&device->birth, "the device", error);
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
                           gli_crowding crowded) {
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

gli_crowding gli_context_crowded(const gloo_context *context) {
  return context->crowded;
}

void gli_context_promise_buffers(gloo_context *context) {
  context->buffers_promised = true;
}

gli_nearness gli_context_near(const gloo_context *context) {
  if (context->device->ops->refer == NULL) return GLI_NOT_NEAR;
  return context->buffers_promised ? GLI_IN_REACH : GLI_NEAR;
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
