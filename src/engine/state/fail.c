#include "engine/state/fail.h"

#include <stdio.h>

#include "core/error.h"
#include "core/log.h"
#include "engine/state/device.h"

/* How long a lost connection waits for a peer that knows why. */
#define SUSPECT_NS UINT64_C(50000000)

gloo_status gli_context_unusable(const gloo_context *context,
                                 gloo_error *error) {
  if (context->cause.status == GLOO_ERR_FORKED) {
    if (error != NULL) *error = context->cause;
    return GLOO_ERR_FORKED;
  }
  gli_fail(error, GLOO_ERR_POISONED, context->cause.rank,
           "the context is unusable: %s", context->cause.message);
  if (error != NULL) error->cause = context->cause.status;
  return GLOO_ERR_POISONED;
}

void gli_context_poison(gloo_context *context, const gloo_error *cause) {
  if (gli_context_poisoned(context)) return;
  gli_family *family = context->family;
  gloo_error told = *cause;
  char where[48] = "";
  if (context->is_control) {
    snprintf(where, sizeof where, "while a group was made: ");
  } else if (!gli_context_is_root(context)) {
    snprintf(where, sizeof where, "in a group of %u ranks: ", context->size);
  }
  gli_error_prefix(&told, "%s", where);
  family->root->cause = told;
  for (gloo_context *g = family->groups; g != NULL; g = g->next)
    g->cause = told;
  family->root->teardown_pending = true;
  context->device->teardowns_pending = 1;
  for (gli_operation *op = family->active.first; op != NULL;
       op = op->active_next) {
    if (op->in_order.active) gli_in_order_stop(op);
  }
  gli_operation *unlisted = context->device->unlisted;
  if (unlisted != NULL && unlisted->context->family == family) {
    gli_in_order_stop(unlisted);
  }
  gli_log(GLOO_LOG_INFO, "rank %u: the context failed: %s", context->root_rank,
          told.message);
}

/* A rank that fails for a reason says it to those it is connected to, and is
 * gone. To the others it looks as if it had died: give them a moment to hear
 * the reason from another rank before they believe that. */
void gli_link_suspect(gli_link *link, const gloo_error *cause) {
  gloo_context *context = link->context->family->root;
  gloo_device *device = context->device;
  if (context->suspect.status != GLOO_OK) return;
  context->suspect = *cause;
  context->suspect_ns = device->ops->now_ns(device->transport) + SUSPECT_NS;
  device->suspects = device->leftovers = true;
}
