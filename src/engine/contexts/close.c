/* The end of contexts: failure, and closing. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/contexts/snapshot.h"
#include "engine/life/life.h"
#include "engine/rma/rma.h"
#include "engine/run/run.h"
#include "engine/state/callback.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* Returns the cause without "reported by rank N: ", which the next rank
 * adds. */
static const char *original_text(const gloo_error *cause) {
  static const char start[] = "reported by rank ";
  if (strncmp(cause->message, start, sizeof start - 1) != 0) {
    return cause->message;
  }
  const char *colon = strchr(cause->message, ':');
  return colon != NULL && colon[1] == ' ' ? colon + 2 : cause->message;
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

void gli_context_describe_abort(const gloo_context *context, const char *reason,
                                gloo_error *cause) {
  gli_fail(cause, GLOO_ERR_ABORTED, (int)context->root_rank,
           "rank %u gave up: %s", context->root_rank,
           reason != NULL && *reason ? reason : "no reason given");
}

static void close_links(gloo_context *context, gli_send_request *last) {
  for (gli_link *link = context->links; link != NULL; link = link->next) {
    last->header.credit = link->credit.consumed;
    gli_link_close(link, last);
  }
}

gli_snapshot_fn gli_family_take_on_failure(gli_family *family) {
  gli_snapshot_fn tell = family->on_failure;
  family->on_failure = NULL;
  return family->root->device->fork.child ? NULL : tell;
}

void gli_context_finish_teardown(gloo_context *context) {
  if (!context->teardown_pending) return;
  gli_device_list(context->device);
  context->teardown_pending = false;
  gli_family *family = context->family;
  gli_snapshot_fn tell = gli_family_take_on_failure(family);
  gli_snapshot *snapshot = tell != NULL ? gli_snapshot_take(context) : NULL;
  gli_send_request request;
  uint8_t payload[GLI_ABORT_MAX];
  make_abort(&context->cause, &request, payload);
  for (gloo_context *g = family->groups; g != NULL; g = g->next)
    if (g->window != NULL) gli_rma_await_copies(g->window);
  close_links(context, &request);
  gli_group_drop_links(family);
  if (tell != NULL) tell(family->on_failure_user, snapshot);
  while (family->active.first != NULL) {
    gli_operation_finish(family->active.first, &context->cause);
  }
  while (family->posted.first != NULL) {
    gli_operation_finish(family->posted.first, &context->cause);
  }
  gli_early_drop(context);
  for (gloo_context *g = family->groups; g != NULL; g = g->next) {
    gli_early_drop(g);
    if (g->window != NULL) gli_rma_fail(g->window);
  }
}

void gli_context_detach_operations(gloo_context *context) {
  gli_repeat_forget_all(context);
  gli_callback_forget_context(context);
  bool failed = gli_context_poisoned(context);
  while (context->all != NULL) {
    gli_operation *op = context->all;
    context->all = op->all_next;
    gli_operation_count_runs(op);
    gli_context_localize(context, &op->error);
    op->orphaned_by = failed ? context->cause.status : GLOO_ERR_CANCELLED;
    gli_plan_cache_put(context->cache, op->ref);
    op->context = NULL;
    op->odd |= GLI_ODD_ORPHANED;
    /* From now on the caller may free it at any time. */
    atomic_store_explicit(&op->orphaned, true, memory_order_release);
  }
}

static void unlist_context(gloo_context *context) {
  gloo_context **at = &context->device->contexts;
  while (*at != context) at = &(*at)->next;
  *at = context->next;
}

static bool has_some(const gli_operation_list *list,
                     const gloo_context *context) {
  const gli_operation *op = list->first;
  while (op != NULL && op->context != context) op = op->active_next;
  return op != NULL;
}

bool gli_context_is_busy(const gloo_context *context) {
  gli_device_list(context->device);
  return has_some(&context->family->active, context) ||
         has_some(&context->family->posted, context) ||
         (context->control != NULL && gli_context_is_busy(context->control));
}

static void free_links(gloo_context *root) {
  while (root->links != NULL) {
    gli_link *link = root->links;
    root->links = link->next;
    root->peers[link->rank].link = NULL;
    gli_link_free(link);
  }
}

void gli_context_leave_links(gloo_context *root) {
  gli_send_request bye = {.header = {.type = GLI_MESSAGE_BYE}};
  close_links(root, &bye);
  free_links(root);
}

/* Ends a family with its last context. */
static void end_family(gloo_context *root) {
  gli_family *family = root->family;
  gli_send_request bye = {.header = {.type = GLI_MESSAGE_BYE}};
  if (root->end_shrinks != NULL) root->end_shrinks(root);
  gli_context_attend(root, false);
  close_links(root, &bye);
  gli_group_drop_links(family);
  gli_early_drop(root);
  gli_context_detach_operations(root);
  unlist_context(root);
  free_links(root);
  gli_context_free(root);
  gli_trace_free(family->trace);
  free(family->totals);
  free(family->on_failure_user);
  free(family->routes);
  free(family);
}

bool gli_context_end(gloo_context *context) {
  gli_family *family = context->family;
  if (!gli_context_is_root(context)) {
    gli_group_close(context);
  } else {
    if (context->control != NULL) gli_group_close(context->control);
    family->orphaned = true;
    gli_context_attend(context, false);
    gli_context_detach_operations(context);
    if (family->groups != NULL) gli_group_say_departed(context);
  }
  if (!family->orphaned || family->groups != NULL) return false;
  end_family(family->root);
  return true;
}
