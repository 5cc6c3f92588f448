/* The records of operations, for src/api. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/life/life.h"

gloo_status gli_context_keep_traces(gloo_context *context, uint64_t kept,
                                    gloo_error *error) {
  gli_trace *trace = gli_trace_new(kept);
  if (trace == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for records of %llu operations",
                    (unsigned long long)kept);
  gli_device_lock(context->device);
  gli_trace *before = context->trace;
  context->family->trace = context->trace = trace;
  /* A peer that has begun earlier may have made groups already. */
  for (gloo_context *g = context->family->groups; g != NULL; g = g->next)
    g->trace = trace;
  gli_device_unlock(context->device);
  gli_trace_free(before);
  return GLOO_OK;
}

gli_snapshot *gli_context_snapshot(gloo_context *context) {
  gli_device_lock(context->device);
  gli_snapshot *snapshot = gli_snapshot_take(context);
  gli_device_unlock(context->device);
  return snapshot;
}

uint64_t gli_context_mark(gloo_context *context) {
  gli_device_lock(context->device);
  uint64_t mark = gli_snapshot_mark(context->family->root);
  gli_device_unlock(context->device);
  return mark;
}

static size_t count_running(const gli_family *family) {
  size_t n = 0;
  const gli_operation_list *lists[] = {&family->active, &family->posted};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    const gli_operation *op = lists[i]->first;
    for (; op != NULL; op = op->active_next) n += !op->context->is_control;
  }
  return n;
}

static size_t totals_bytes(const gli_family *family) {
  const gli_totals *totals = family->totals;
  return sizeof *totals + family->root->size * sizeof totals->peers[0];
}

bool gli_context_figures(gloo_context *context, gli_figures *figures) {
  gloo_device *device = context->device;
  gli_device_lock(device);
  gli_family *family = context->family;
  const gloo_context *root = family->root;
  size_t bytes = totals_bytes(family);
  *figures = (gli_figures){.rank = root->rank,
                           .size = root->size,
                           .mark = gli_snapshot_mark(root),
                           .transport = device->ops->name,
                           .has_failed = gli_context_poisoned(root),
                           .totals = malloc(bytes),
                           .first = family->trace->born,
                           .now = gli_moment_now()};
  gli_device_list(device);
  figures->running = count_running(family);
  figures->kept = gli_family_kept(family);
  gli_family_count_runs(family);
  if (figures->totals != NULL) memcpy(figures->totals, family->totals, bytes);
  gli_device_unlock(device);
  return figures->totals != NULL;
}

void gli_context_started(gloo_context *context) {
  gli_device_lock(context->device);
  gli_family *family = context->family;
  gli_totals *totals = family->totals;
  gli_family_count_runs(family);
  gli_peer_total own = totals->internal;
  for (uint32_t i = 0; i < family->root->size; i++) {
    const gli_peer_total *peer = &totals->peers[i];
    own.messages_sent += peer->messages_sent;
    own.bytes_sent += peer->bytes_sent;
    own.messages_received += peer->messages_received;
    own.bytes_received += peer->bytes_received;
  }
  memset(totals, 0, totals_bytes(family));
  totals->internal = own;
  family->trace->internal = family->trace->n;
  gli_device_unlock(context->device);
}

void gli_context_trim(gloo_context *context) {
  gli_device_lock(context->device);
  gli_family_trim(context->family);
  gli_device_unlock(context->device);
}

const void *gli_context_failure_user(const gloo_context *context) {
  return context->family->on_failure_user;
}

void gli_context_on_failure(gloo_context *context, gli_snapshot_fn function,
                            void *user) {
  gli_device_lock(context->device);
  context->family->on_failure = function;
  context->family->on_failure_user = user;
  bool over = gli_context_poisoned(context) && !context->teardown_pending;
  gli_snapshot_fn tell =
      over ? gli_family_take_on_failure(context->family) : NULL;
  if (tell != NULL) tell(user, gli_snapshot_take(context));
  gli_device_unlock(context->device);
}
