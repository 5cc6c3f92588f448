/* Local steps. */
#include <string.h>

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

/* ---- several inputs and outputs ------------------------------------------ */

void gli_lists_set(gli_operation *op, const gli_call *call) {
  const gli_plan_params *p = &call->params;
  if (p->n_in > 1) memcpy(op->ins, call->inputs, p->n_in * sizeof *op->ins);
  if (p->n_out > 1)
    memcpy(op->outs, call->outputs, p->n_out * sizeof *op->outs);
}

/* Reduces the inputs, each of which is read once. A segment of a scaled sum is
 * scaled while it is in the caches. */
static void lists_reduce_local(gli_operation *op, const gli_step *s) {
  void *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  const void **srcs = op->operands.srcs;
  for (uint32_t i = 0; i < s->n; i++) {
    srcs[i] = (const uint8_t *)op->ins[s->own + i] + s->a;
  }
  if (s->n == 1) {
    gli_copy_bytes(dst, srcs[0], (size_t)s->bytes);
    return;
  }
  size_t count = (size_t)(s->bytes / op->plan->params.elem_bytes);
  gli_operation_combine(op, &dst, 1, srcs, s->n, count, false);
  if (!op->scaling.joined) return;
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(dst, dst, count,
                                                    op->scaling.factor);
}

/* Copies one source to all outputs, so that it is read once. */
static void lists_bcast_local(gli_operation *op, const gli_step *s) {
  const void *src = gli_operation_at(op, s->a_buffer, s->a);
  void **dsts = op->operands.dsts;
  for (uint32_t i = 0; i < s->n; i++) {
    dsts[i] = (uint8_t *)op->outs[1 + i] + s->dst;
  }
  uint64_t streamed = op->nontemporal ? GLI_STREAM_ALL : 0;
  gli_combine_kernel(GLOO_UINT8, GLOO_BOR)(dsts, s->n, &src, 1,
                                           (size_t)s->bytes, streamed);
}

void gli_lists_run(gli_operation *op, const gli_step *s) {
  if (s->kind == GLI_STEP_LOCAL_REDUCE) {
    lists_reduce_local(op, s);
  } else {
    lists_bcast_local(op, s);
  }
}

/* ---- blocks that lie apart ----------------------------------------------- */

/* The plan runs on one buffer, which the blocks are copied to before it, and
 * copied from after it. */

void gli_staging_begin(const gli_staging *s) {
  for (size_t i = 0; i < s->n_before; i++) {
    gli_copy_bytes(s->pieces[i].to, s->pieces[i].from, s->pieces[i].bytes);
  }
}

void gli_staging_end(const gli_staging *s) {
  const gli_piece *after = s->pieces + s->n_before;
  for (size_t i = 0; i < s->n_after; i++) {
    gli_copy_bytes(after[i].to, after[i].from, after[i].bytes);
  }
}
