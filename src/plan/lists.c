#include "plan/lists.h"

#include "core/error.h"
#include "plan/raw.h"
#include "plan/shape.h"

uint64_t gli_lists_input_bytes(const gli_plan_params *p, uint64_t in_bytes) {
  if (!gli_lists_has_inputs(p)) return in_bytes;
  return gli_collective_reduces(p->collective) ? in_bytes : in_bytes / p->n_in;
}

/* ---- before -------------------------------------------------------------- */

/* Returns the range of the joined input: where IN is in place, if it fits. */
static gli_range place_for(gli_builder *b, gli_plan_params *inner) {
  gli_shape within;
  *inner = b->params;
  inner->in_place = true;
  bool fits = gli_plan_shape(inner, &within) && within.in_place &&
              b->writes_out && within.out_bytes <= b->out_bytes;
  if (fits) return gli_bytes(GLI_OUT, within.in_shift, b->in_bytes);
  inner->in_place = false;
  return gli_scratch(b, b->in_bytes);
}

static void lists_join(gli_builder *b, uint32_t first, uint32_t n,
                       gli_range dst) {
  gli_step s = {.kind = GLI_STEP_LOCAL_REDUCE,
                .a_buffer = b->in_moved ? GLI_OUTS : GLI_INS,
                .dst_buffer = (uint8_t)dst.buffer,
                .dst = dst.offset,
                .bytes = dst.bytes,
                .own = first,
                .n = n,
                .peer = GLI_NO_PEER};
  if (dst.bytes != 0) gli_build_push(b, &s);
}

void gli_lists_local_reduce(gli_builder *b, gli_plan_params *inner) {
  *inner = b->params;
  if (!gli_lists_has_inputs(&b->params) || !b->reads_in) return;
  uint32_t n = b->params.n_in;
  bool combines = gli_collective_reduces(b->params.collective);
  if (!combines && (b->in_moved || b->in_bytes % n != 0)) {
    gli_build_fail(b, GLOO_ERR_INTERNAL,
                   "its inputs are not equal shares of IN");
    return;
  }
  gli_range all = place_for(b, inner);
  uint64_t each = b->in_bytes / n;
  if (combines) lists_join(b, 0, n, all);
  for (uint32_t i = 0; i < n && !combines; i++) {
    lists_join(b, i, 1, gli_bytes(all.buffer, all.offset + i * each, each));
  }
  b->in_moved = true;
  b->in_buffer = all.buffer;
  b->in_shift = all.offset;
}

/* ---- after --------------------------------------------------------------- */

void gli_lists_local_bcast(gli_builder *b) {
  if (!gli_lists_has_outputs(&b->params) || !b->writes_out) return;
  gli_plan_params apart = b->params;
  gli_shape shape;
  apart.in_place = false;
  if (gli_build_failed(b) || !gli_plan_shape(&apart, &shape)) return;
  gli_step s = {.kind = GLI_STEP_LOCAL_BCAST,
                .a_buffer = GLI_OUT,
                .dst_buffer = GLI_OUTS,
                .bytes = shape.out_bytes,
                .n = b->params.n_out - 1,
                .peer = GLI_NO_PEER};
  if (s.bytes != 0) gli_build_push(b, &s);
}
