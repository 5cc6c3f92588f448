/* Local steps. */
#include "engine/memory/memory.h"
#include "engine/memory/staged_copies.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"

void gli_operation_run_local(gli_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  if (s->dst_buffer == GLI_TOKEN || s->bytes == 0) return;
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  const uint8_t *a = gli_operation_at(op, s->a_buffer, s->a);
  if (s->kind == GLI_STEP_COPY) {
    if (gli_operation_is_nontemporal(op, step) &&
        !gli_ranges_overlap(dst, a, (size_t)s->bytes)) {
      gli_copy_nontemporal(dst, a, (size_t)s->bytes);
    } else {
      gli_move_bytes(dst, a, (size_t)s->bytes);
    }
    return;
  }
  const uint8_t *b = gli_operation_at(op, s->b_buffer, s->b);
  gli_operation_reduce(op, dst, a, b,
                       gli_operation_elems(op, (size_t)s->bytes));
}

void gli_operation_make_input(gli_operation *op) {
  if (op->staged != NULL) {
    gli_staged_begin(op);
    return;
  }
  if (op->staging != NULL) {
    gli_staging_begin(op->staging);
    if (op->scaling.from == op->staging) return;
  }
  if (op->wide != NULL) {
    gli_wide_begin(op, 0, GLI_WIDE_ALL);
    return;
  }
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(
      op->scaling.to, op->scaling.from, op->scaling.count, op->scaling.factor);
}
