/* The end of a run. */
#include "core/hints.h"
#include "core/reduce.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/run/in_order.h"
#include "engine/run/run.h"
#include "plan/shape.h"

/* Sums become averages only when they are divided: by each rank, all of whose
 * sums have the same bits. */
GLI_COLD static void divide(const gloo_operation *op) {
  const gli_plan_params *p = &op->plan->params;
  gli_shape shape;
  if (!gli_plan_shape(p, &shape) || !shape.writes_out) return;
  uint64_t count = p->counts ? p->counts->own : p->count;
  uint8_t *out = op->base[GLI_OUT];
  if (count == 0) return;
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(out, out, (size_t)count,
                                                    1.0 / p->size);
}

GLI_COLD static void settle_outputs(const gloo_operation *op) {
  if (op->ending == GLI_ENDS_DIVIDED) divide(op);
  if (op->ending == GLI_ENDS_NARROWED) gli_wide_end(op);
}

void gli_operation_remember(gloo_operation *op) {
  gloo_context *context = op->context;
  if (op->ending != GLI_ENDS_AS_IT_IS) settle_outputs(op);
  context->finished[context->n_finished++ % GLI_FINISHED] = op->signature;
}

/* Nobody can find it any more. */
GLI_INLINE void end(gloo_operation *op) {
  gli_operation_list_remove(&op->context->family->active, op);
  gli_match_remove(op);
}

/* What the next run, or nobody, expects to find. */
GLI_INLINE void clear_up(gloo_operation *op) {
  while (op->parked) {
    gli_parked *parked = op->parked;
    op->parked = parked->next;
    gli_parked_free(parked);
  }
  op->state = GLI_OPERATION_DONE;
  op->device->outstanding--;
  op->device->completed++;
}

void gli_straight_finish(gloo_operation *op) {
  end(op);
  if (op->signature.collective != GLI_SENDRECV) gli_operation_remember(op);
  op->straight = false;
  op->strayed = 0;
  clear_up(op);
}

void gli_operation_finish(gloo_operation *op, const gloo_error *error) {
  gloo_context *context = op->context;
  if (op->put_off) gli_device_leave_put_off(op);
  if (op->straight) gli_in_order_stop(op);
  if (op->state == GLI_OPERATION_POSTED) {
    gli_operation_list_remove(&context->family->posted, op);
  } else {
    end(op);
  }
  if (error) {
    op->error = *error;
    op->again = false;
    if (!op->device->forked) gli_reach_recall(op);
  } else if (op->signature.collective != GLI_SENDRECV) {
    gli_operation_remember(op);
  }
  clear_up(op);
}
