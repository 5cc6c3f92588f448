/* Operations as callers see them: prepare, start, test, wait, cancel. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hints.h"
#include "engine/context.h"
#include "engine/describe.h"
#include "engine/device.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/operation.h"
#include "engine/straight.h"

static gloo_status refused(const gloo_context *context, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_POISONED, context->cause.rank,
                  "the context is unusable: %s", context->cause.message);
}

/* ---- prepare ------------------------------------------------------------- */

static gloo_status copy_candidates(gloo_operation *op, const gli_call *call,
                                   gloo_error *error) {
  op->p2p_peer = -1;
  op->n_candidates = 0;
  if (call->n_peers == 1) op->p2p_peer = call->peers[0];
  if (call->n_peers <= 1) return GLOO_OK;
  if (call->n_peers > SIZE_MAX / sizeof(int)) goto no_memory;
  op->candidates = malloc(call->n_peers * sizeof(int));
  if (!op->candidates) goto no_memory;
  memcpy(op->candidates, call->peers, call->n_peers * sizeof(int));
  op->n_candidates = call->n_peers;
  return GLOO_OK;

no_memory:
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a list of %zu ranks", call->n_peers);
}

/* What stands in a signature for the root, which messages do not have; of given
 * counts that all ranks know, and of a custom operation, a hash. */
static uint32_t signed_root(const gli_call *call) {
  const gli_plan_params *p = &call->params;
  uint32_t hash = call->custom ? gli_custom_op_hash(call->custom) : 0;
  if (p->collective == GLI_SENDRECV) return 0;
  if (!gli_collective_rooted(p->collective)) {
    return (p->counts != NULL ? p->counts->hash : 0) ^ hash;
  }
  if (p->size > UINT32_C(1) << GLI_ROOT_BITS) return p->root;
  return p->root ^ hash >> GLI_ROOT_BITS << GLI_ROOT_BITS;
}

static uint8_t signed_op(const gli_call *call) {
  return (uint8_t)((unsigned)call->op | (call->ordered ? GLI_OP_ORDERED : 0));
}

static void sign(gloo_operation *op, const gli_call *call) {
  bool message = call->params.collective == GLI_SENDRECV;
  op->prepared_for = NULL;
  op->again = false;
  op->strayed = 0;
  op->may_go_straight = op->suits && !call->custom;
  op->signature = (gli_header){
      .collective = (uint8_t)call->params.collective,
      .dtype = (uint8_t)call->dtype,
      .op = signed_op(call),
      .algorithm = call->algorithm,
      .tuning = message ? 0 : op->context->choices,
      .tag = call->tag,
      .root = signed_root(call),
      .count = call->params.count,
  };
  op->counter = NULL;
  op->pairwise = gli_collective_pairwise(call->params.collective);
}

/* An operation from the pool often has them already. */
static void find_kernels(gloo_operation *op, const gli_call *call) {
  const gli_header *last = &op->signature;
  if (call->custom) {
    gli_custom_op_hold(call->custom);
    op->held_custom = call->custom;
    op->custom = (gli_custom_call){call->custom, call->dtype,
                                   (size_t)call->params.elem_bytes};
    op->reduce = NULL;
    return;
  }
  if (op->reduce && last->dtype == call->dtype && last->op == signed_op(call)) {
    return;
  }
  gloo_op between = gli_op_between(call->op);
  op->reduce = gli_reduce_kernel(call->dtype, between);
  op->combine = NULL;
  if (op->plan->n_operands > 0) {
    op->combine = gli_combine_kernel(call->dtype, between);
  }
}

static gloo_status prepare_scaling(gloo_operation *op, const gli_call *call,
                                   gloo_error *error) {
  op->factor = call->factor;
  op->scales_joined = call->scales_joined;
  if (!call->unscaled) return GLOO_OK;
  uint64_t bytes = call->unscaled_bytes;
  op->unscaled = call->unscaled;
  op->unscaled_count = (size_t)(bytes / call->params.elem_bytes);
  op->scaled_to = call->output;
  if (call->params.in_place) return GLOO_OK;
  op->scaled = malloc((size_t)bytes);
  if (!op->scaled) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %llu bytes of scaled input",
                    (unsigned long long)bytes);
  }
  op->base[GLI_IN] = op->scaled_to = op->scaled;
  return GLOO_OK;
}

static gloo_status prepare(gloo_context *context, const gli_call *call,
                           gloo_operation **out, gloo_error *error) {
  if (gli_context_poisoned(context)) return refused(context, error);
  gli_plan_ref *ref;
  gloo_status status = gli_plan_cache_get(context->cache, call->build,
                                          &call->params, &ref, error);
  if (status != GLOO_OK) return status;
  gloo_operation *op = gli_operation_new(context, ref);
  if (!op) {
    gli_plan_cache_put(context->cache, ref);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for an operation of %u steps",
                    ref->plan->n_steps);
  }
  find_kernels(op, call);
  sign(op, call);
  /* Plans only read IN. */
  op->base[GLI_IN] = (uint8_t *)(uintptr_t)call->input;
  op->base[GLI_OUT] = call->output;
  op->base[GLI_SCRATCH] = op->scratch;
  gli_lists_set(op, call);
  op->timeout_ns =
      call->timeout_ns == 0 ? context->timeout_ns : call->timeout_ns;
  status = copy_candidates(op, call, error);
  if (status == GLOO_OK) status = prepare_scaling(op, call, error);
  if (status != GLOO_OK) {
    gli_operation_release(op);
    return status;
  }
  *out = op;
  return GLOO_OK;
}

gloo_status gli_operation_prepare(gloo_context *context, const gli_call *call,
                                  gloo_operation **operation,
                                  gloo_error *error) {
  gli_device_lock(context->device);
  gloo_status status = prepare(context, call, operation, error);
  gli_device_unlock(context->device);
  return status;
}

gloo_status gli_operation_complete(gloo_operation *op, int *source,
                                   gloo_error *error) {
  gloo_status status = gli_operation_begin(op, true, error);
  gli_device_settle(op->device);
  if (status != GLOO_OK) return status;
  if (op->state != GLI_OPERATION_DONE) gli_device_wait(op->device, op);
  status = op->error.status;
  if (status != GLOO_OK) *error = op->error;
  if (status == GLOO_OK && source) *source = op->source;
  return status;
}

gloo_status gli_operation_run(gloo_context *context, const gli_call *call,
                              const gli_repeated_call *remembered, int *source,
                              gloo_error *error) {
  gloo_device *device = context->device;
  gloo_operation *op = NULL;
  gli_device_lock(device);
  gloo_status status = prepare(context, call, &op, error);
  if (status == GLOO_OK) {
    status = gli_operation_complete(op, source, error);
    gli_repeat_keep(op, status == GLOO_OK ? remembered : NULL);
  }
  gli_device_unlock(device);
  return status;
}

/* ---- handles ------------------------------------------------------------- */

static bool is_running(const gloo_operation *op) {
  return op->state >= GLI_OPERATION_POSTED;
}

/* Is it, or what was joined to it? */
static bool any_running(const gloo_operation *op) {
  return is_running(op) || (op->also && is_running(op->also));
}

/* The first error of the two. */
static const gloo_operation *failed_of(const gloo_operation *op) {
  return op->error.status == GLOO_OK && op->also ? op->also : op;
}

void gli_operation_join(gloo_operation *op, gloo_operation *also) {
  op->also = also;
}

static void end_unstarted(gloo_operation *op, const gloo_error *error) {
  op->error = *error;
  op->state = GLI_OPERATION_DONE;
}

/* A message that goes nowhere, to which nothing was joined. */
static bool is_nothing(const gloo_operation *op) {
  return op->plan->n_steps == 0 && op->signature.collective == GLI_SENDRECV;
}

/* What was joined comes first: it may have to copy what the other receives. */
static gloo_status begin_both(gloo_operation *op, gloo_error *error) {
  gloo_status status = gli_operation_begin(op->also, true, error);
  gli_device_run(op->device);
  if (status == GLOO_OK) return gli_operation_begin(op, false, error);
  end_unstarted(op, error);
  return status;
}

GLI_COLD static gloo_status refuse_start(gloo_operation *op) {
  gloo_error error;
  gloo_status status = refused(op->context, &error);
  end_unstarted(op, &error);
  if (op->also) end_unstarted(op->also, &error);
  return status;
}

/* Others than `own` are under way, and a thread that does not sleep sees to
 * them. */
static inline bool is_busy(const gloo_device *device, size_t own) {
  return device->outstanding > own && device->has_helper &&
         device->sleepers == 0;
}

/* It is alone, and what it waits for has been looked for. */
static inline bool needs_no_poll(gloo_device *device,
                                 const gloo_operation *op) {
  if (device->outstanding > 1 || !gli_straight_looks(op)) return false;
  return gli_device_may_do_without(device) && ++device->unpolled > 0;
}

/* It has been begun: see to what can be done at once. */
GLI_INLINE void get_going(gloo_operation *op, bool busy) {
  gloo_device *device = op->device;
  if (busy) gli_device_put_off(device);
  gli_device_settle(device);
  if (!any_running(op)) return;
  if (!busy && !needs_no_poll(device, op)) gli_device_poll(device);
  if (is_running(op)) gli_late_start_clock(op);
  if (op->also && is_running(op->also)) gli_late_start_clock(op->also);
  gli_device_kick_locked(device);
}

/* Two, or nothing. */
GLI_COLD static gloo_status start_odd(gloo_operation *op, gloo_error *error) {
  if (!op->also) {
    gli_error_clear(error);
    end_unstarted(op, error);
    return GLOO_OK;
  }
  gloo_status status = begin_both(op, error);
  get_going(op, status == GLOO_OK && is_busy(op->device, 1));
  return status;
}

GLI_INLINE gloo_status start(gloo_operation *op) {
  gloo_error error;
  if (op->also || is_nothing(op)) return start_odd(op, &error);
  gloo_device *device = op->device;
  bool busy = is_busy(device, 0);
  gloo_status status = gli_operation_begin(op, !busy, &error);
  if (op->state == GLI_OPERATION_DONE && !device->runnable &&
      !device->unsettled) {
    return status;
  }
  get_going(op, busy && status == GLOO_OK);
  return status;
}

gloo_status gloo_operation_start(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return GLOO_ERR_POISONED;
  gloo_device *device = op->device;
  gli_device_lock(device);
  gloo_status status;
  if (any_running(op)) {
    status = GLOO_ERR_BUSY;
  } else if (gli_context_poisoned(op->context)) {
    status = refuse_start(op);
  } else {
    status = start(op);
  }
  gli_device_unlock(device);
  return status;
}

static gloo_status result(const gloo_operation *op) {
  return any_running(op) ? GLOO_IN_PROGRESS : failed_of(op)->error.status;
}

gloo_status gloo_operation_test(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return result(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (any_running(op)) {
    gli_device_progress_for(device, op);
    if (any_running(op)) gli_device_check_deadlines(device);
  }
  gloo_status status = result(op);
  gli_device_unlock(device);
  return status;
}

gloo_status gloo_operation_wait(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return result(op);
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (is_running(op)) gli_device_wait(device, op);
  if (op->also && is_running(op->also)) gli_device_wait(device, op->also);
  gloo_status status = result(op);
  gli_device_unlock(device);
  return status;
}

/* Has no other rank heard of it? */
static bool is_private(const gloo_operation *op) {
  if (op->state == GLI_OPERATION_POSTED) return true;
  if (op->put_off) return gli_operation_is_send(op);
  if (!gli_operation_is_send(op) || op->peers[0].wanted) return false;
  uint32_t blocked = 0;
  const gli_link *link = op->peers[0].link;
  for (const gli_transfer *t = link->blocked.first; t; t = t->next) {
    if (t->operation == op) blocked++;
  }
  return blocked == op->plan->n_steps;
}

static void withdraw(gloo_operation *op) {
  if (op->state == GLI_OPERATION_RUNNING) {
    gli_link *link = op->peers[0].link;
    gli_flow_withdraw(link, op);
  }
  gloo_error error;
  gli_fail(&error, GLOO_ERR_CANCELLED, -1, "cancelled before any rank knew");
  gli_operation_finish(op, &error);
}

static void cancel(gloo_operation *op) {
  if (is_private(op)) {
    withdraw(op);
    return;
  }
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  uint32_t rank = op->context->root_rank;
  gli_fail(&error, GLOO_ERR_CANCELLED, (int)rank, "rank %u cancelled %s", rank,
           gli_describe_call(&op->signature, text));
  gli_context_poison(op->context, &error);
}

gloo_status gloo_operation_cancel(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  if (!op->context) return GLOO_OK;
  gloo_device *device = op->device;
  gli_device_lock(device);
  if (any_running(op)) {
    if (is_running(op)) cancel(op);
    if (op->also && is_running(op->also)) cancel(op->also);
    gli_device_settle(device);
    gli_device_wake_sleepers(device);
  }
  gli_device_unlock(device);
  return GLOO_OK;
}

int gloo_operation_source(const gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return -1;
  gloo_device *device = op->context ? op->device : NULL;
  if (device) gli_device_lock(device);
  bool received =
      op->state == GLI_OPERATION_DONE && op->error.status == GLOO_OK;
  int source = received ? op->source : -1;
  if (device) gli_device_unlock(device);
  return source;
}

gloo_status gloo_operation_error(const gloo_operation *op, gloo_error *error) {
  if (!op || !error || gli_custom_op_inside()) return GLOO_ERR_INVALID;
  gli_error_clear(error);
  gloo_device *device = op->context ? op->device : NULL;
  if (device) gli_device_lock(device);
  if (op->state == GLI_OPERATION_DONE) *error = failed_of(op)->error;
  if (device) gli_device_unlock(device);
  return error->status;
}

void gloo_operation_destroy(gloo_operation *op) {
  if (!op || gli_custom_op_inside()) return;
  gloo_device *device = op->context ? op->device : NULL;
  gloo_operation_cancel(op);
  if (device) gli_device_lock(device);
  if (op->also) gli_operation_release(op->also);
  gli_operation_release(op);
  if (device) gli_device_unlock(device);
}
