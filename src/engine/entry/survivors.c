/* Shrinking: the remaining ranks get a new context. */
#include "engine/failure/council.h"

#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"
#include "engine/state/fail.h"
#include "kernels/custom_op.h"

static const char name[] = "gloo_context_shrink";

static gloo_status shrink_check(const gloo_context *context,
                                gloo_context *const *successor,
                                const gloo_shrink_options *options,
                                gloo_error *error) {
  if (context == NULL || successor == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    name, context == NULL ? "context" : "successor");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  if (!gli_context_is_root(context))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: the context is a group; shrink its parent context and "
                    "create the group again",
                    name);
  if (options->ranks_min < 0 || options->ranks_min > (int)context->size)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: ranks_min is %d, but the context has %u ranks", name,
                    options->ranks_min, context->size);
  return GLOO_OK;
}

/* Fails the context, so that ranks in its operations shrink it as well. */
static void shrink_give_up(gloo_context *context) {
  gloo_device *device = context->device;
  (void)gli_device_poll(device);
  if (!gli_context_poisoned(context) && context->suspect.status != GLOO_OK) {
    if (context->disputes) gli_error_undecided(&context->suspect);
    gli_context_poison(context, &context->suspect);
  }
  if (!gli_context_poisoned(context)) {
    gloo_error cause;
    gli_fail(&cause, GLOO_ERR_ABORTED, (int)context->rank,
             "rank %u continues with the ranks that call %s", context->rank,
             name);
    gli_context_poison(context, &cause);
  }
  gli_device_settle(device);
}

static uint64_t shrink_patience(const gloo_context *context,
                                int64_t timeout_ns) {
  if (timeout_ns == GLOO_TIMEOUT_DEFAULT) timeout_ns = context->timeout_ns;
  return timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns;
}

/* Returns the result of an agreement that has ended. */
static gloo_status shrink_outcome(const gli_shrink *s, int ranks_min,
                                  gloo_error *error) {
  const gloo_context *council = s->council;
  if (s->successor == NULL && gli_context_poisoned(council)) {
    *error = council->cause;
    return error->status;
  }
  if (s->successor == NULL)
    return gli_fail(error, GLOO_ERR_STALE, (int)council->rank,
                    "the other ranks continue without rank %u: it was stopped, "
                    "disconnected or too late",
                    council->rank);
  if (s->successor->size < (uint32_t)ranks_min)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "only %u of %u ranks are left; ranks_min is %d",
                    s->successor->size, council->size, ranks_min);
  return GLOO_OK;
}

/* Agrees on a successor. The lock is held. */
static gloo_status shrink_agree(gloo_context *context,
                                const gloo_shrink_options *options,
                                gloo_context **successor, gloo_error *error) {
  gloo_device *device = context->device;
  if (context->cause.status == GLOO_ERR_FORKED)
    return gli_context_unusable(context, error);
  if (context->forsaken)
    return gli_fail(
        error, GLOO_ERR_STALE, (int)context->rank,
        "%s: rank %u cannot tell whether the others continued without it: %s",
        name, context->rank, context->cause.message);
  if (context->shrunk)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "%s: this context was shrunk before; shrink its successor instead",
        name);
  shrink_give_up(context);
  gli_shrink *s = gli_shrink_begin(
      context, shrink_patience(context, options->timeout_ns), error);
  if (s == NULL) return error->status;
  gli_device_settle(device);
  gli_device_wait_flag(device, &s->over, UINT64_MAX);
  gloo_status status = shrink_outcome(s, options->ranks_min, error);
  if (status != GLOO_OK) {
    if (s->successor != NULL) (void)gli_context_end(s->successor);
    s->successor = NULL;
    return status;
  }
  gli_shrink_hand_over(context, s->successor);
  *successor = s->successor;
  return GLOO_OK;
}

gloo_status gli_context_shrink(gloo_context *context,
                               const gloo_shrink_options *options,
                               gloo_context **successor, gloo_error *error) {
  gloo_context *made = NULL;
  gloo_status status = shrink_check(context, successor, options, error);
  if (status != GLOO_OK) return status;
  gloo_device *device = context->device;
  gli_device_lock(device);
  status = shrink_agree(context, options, &made, error);
  gli_device_settle(device);
  gli_device_unlock(device);
  if (status != GLOO_OK) return status;
  status = gli_context_join_tree(made, error);
  if (status != GLOO_OK) {
    gli_context_close(made);
    return status;
  }
  gli_context_share_device(context, made);
  gli_context_start_heartbeat(made, made->heartbeat.own_ns);
  *successor = made;
  return GLOO_OK;
}

void gli_context_forsake(gloo_context *context, const gloo_error *cause) {
  gloo_device *device = context->device;
  gloo_context *root = context->family->root;
  gli_device_lock(device);
  root->forsaken = root->shrunk = true;
  gli_context_poison(root, cause);
  gli_context_attend(root, false);
  gli_device_settle(device);
  gli_device_unlock(device);
}
