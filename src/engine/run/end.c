/* The end of a run. */
#include "core/hints.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/memory/staged_copies.h"
#include "engine/run/run.h"
#include "kernels/reduce.h"
#include "plan/shape.h"

/* Divides sums into averages. Each rank divides, and gets the same bits,
 * because all have the same sums. */
GLI_COLD static void divide_outputs(const gli_operation *op) {
  const gli_plan_params *p = &op->plan->params;
  gli_shape shape;
  if (!gli_plan_shape(p, &shape) || !shape.writes_out) return;
  uint64_t count = p->counts != NULL ? p->counts->own : p->count;
  uint8_t *out = op->base[GLI_OUT];
  if (count == 0) return;
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(out, out, (size_t)count,
                                                    1.0 / p->size);
}

void gli_operation_end_specially(gli_operation *op, bool well) {
  if (well && (op->ending & GLI_ENDS_DIVIDED)) divide_outputs(op);
  if (well && (op->ending & GLI_ENDS_NARROWED))
    gli_wide_end(op, 0, GLI_WIDE_ALL);
  if (well && (op->ending & GLI_ENDS_STAGED)) gli_staging_end(op->staging);
  if (op->ending & GLI_ENDS_COPIED) gli_staged_end(op, well);
  gli_operation_becomes(op, GLI_OPERATION_DONE);
  if (op->ending & GLI_ENDS_TOLD) gli_operation_note_end(op);
}

/* Takes an operation off the lists, so that no message finds it. */
GLI_INLINE void take_off_lists(gli_operation *op) {
  gloo_device *device = op->device;
  device->outstanding--;
  device->completed++;
  if (device->unlisted == op) {
    device->unlisted = NULL;
    return;
  }
  gli_operation_list_remove(&op->context->family->active, op);
  gli_match_remove(op);
}

GLI_COLD static void end_with(gli_operation *op, const gloo_error *error) {
  if (op->deferred) gli_device_leave_deferred(op);
  if (op->in_order.active) gli_in_order_stop(op);
  if (gli_operation_is(op, GLI_OPERATION_POSTED)) {
    gli_family *family = op->context->family;
    gli_operation_list_remove(&family->posted, op);
    gli_operation_list_add(&family->active, op); /* with all others */
  }
  op->error = *error;
  op->about.status = (int8_t)error->status;
  op->in_order.prepared = false;
  if (!op->device->fork.child) gli_expose_revoke(op);
}

/* Counts the lateness of the rank that sent the last message of a collective
 * that took long. */
GLI_COLD static void count_lateness(const gli_operation *op, uint64_t ended) {
  const gli_trace_about *a = &op->about;
  if (a->collective >= GLI_COLLECTIVES || gli_operation_is_message(op)) return;
  if (a->peer == GLI_NO_RANK || a->status != GLOO_OK) return;
  gli_peer_total *total = &op->context->family->totals->peers[a->peer];
  total->late++;
  total->late_ticks += ended - op->started;
}

/* Returns the time of the end. A waiting thread reads the clock while it waits,
 * so that a fast path need not; but a long message takes long to add up after
 * that. */
GLI_INLINE uint64_t end_ticks(const gli_operation *op) {
  uint64_t ticks = op->device->wait.ticks;
  return ticks != 0 && op->in_order.active ? ticks : gli_ticks();
}

void gli_operation_finish(gli_operation *op, const gloo_error *error) {
  uint64_t ticks = end_ticks(op);
  if (error != NULL) end_with(op, error);
  take_off_lists(op);
  op->in_order.active = false;
  if ((int64_t)(ticks - op->started) > op->context->trace->late)
    count_lateness(op, ticks);
  gli_operation_end(op, error == NULL, op->started, ticks);
  while (op->early != NULL) {
    gli_early *early = op->early;
    op->early = early->next;
    gli_early_free(early);
  }
  if (error == NULL) return;
  op->about.status = GLOO_OK;
  op->runs--;
  op->ticks -= ticks - op->started;
  op->context->family->totals->failed++;
}
