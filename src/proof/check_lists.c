/* Checks that all inputs of a rank are used, and all outputs filled. */
#include <inttypes.h>

#include "plan/lists.h"
#include "proof/check_internal.h"

/* ---- steps --------------------------------------------------------------- */

/* Converts the range of a LOCAL_REDUCE to an offset in IN. In place, each
 * combined input is one of OUT and OUTS. */
static gloo_status check_local_reduce(gli_checker *c, uint32_t rank,
                                      const check_step *s, uint64_t *from) {
  gli_plan_params p = gli_check_params(c, rank);
  const gli_step *t = &s->step;
  gli_shape shape;
  if (!gli_plan_shape(&p, &shape)) return gli_check_no_memory(c);
  bool combines = gli_collective_reduces(p.collective);
  uint64_t each = gli_lists_input_bytes(&p, shape.in_bytes);
  if (t->n != (combines ? p.n_in : 1) || t->own > p.n_in - t->n ||
      !gli_in_bounds(t->a, t->bytes, each)) {
    return gli_check_fail(c, rank, s->number, t,
                          "uses inputs that do not exist");
  }
  if (!combines) *from += t->own * each;
  return GLOO_OK;
}

gloo_status gli_check_lists(gli_checker *c, uint32_t rank, const check_step *s,
                            uint64_t *from) {
  if (s->step.kind == GLI_STEP_LOCAL_REDUCE)
    return check_local_reduce(c, rank, s, from);
  if (s->step.kind != GLI_STEP_LOCAL_BCAST) return GLOO_OK;
  if (s->step.n == c->params.n_out - 1) return GLOO_OK;
  return gli_check_fail(c, rank, s->number, &s->step,
                        "fills outputs that do not exist");
}

/* ---- the end ------------------------------------------------------------- */

/* Finds the block that contains byte x; returns false if there is none. */
static bool block_at(const gli_content *c, uint32_t size, uint64_t x,
                     gli_piece *block) {
  for (size_t i = 0; i < c->n; i++) {
    const gli_piece *p = &c->pieces[i];
    if (x < p->start || x >= p->end) continue;
    uint64_t j = p->stride == 0 ? 0 : (x - p->start) / p->stride;
    *block = gli_piece_block(p, size, j);
    return true;
  }
  return false;
}

static uint64_t check_lists_least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

gloo_status gli_check_outputs(gli_checker *c, uint32_t rank) {
  gli_plan_params p = gli_check_params(c, rank);
  const check_rank *r = &c->ranks[rank];
  gli_shape shape;
  if (!gli_plan_shape(&p, &shape)) return gli_check_no_memory(c);
  if (!gli_lists_has_outputs(&p) || !shape.writes_out) return GLOO_OK;
  for (uint64_t x = 0; x < shape.out_bytes;) {
    gli_result want = gli_plan_result(&p, x);
    uint64_t until = check_lists_least(want.until, shape.out_bytes);
    if (want.kind == GLI_RESULT_OF) {
      gli_piece one, other;
      if (!block_at(&r->out, p.size, x, &one) ||
          !block_at(&r->outs, p.size, x, &other) ||
          !gli_ranks_equal(one.ranks, other.ranks) ||
          one.source - one.start != other.source - other.start) {
        c->report->failed_step = r->total;
        return gli_fail(c->error, GLOO_ERR_INTERNAL, (int)rank,
                        "%s of %u ranks, rank %u: element %" PRIu64
                        " differs between the outputs",
                        gli_collective_name(p.collective), p.size, rank,
                        x / p.elem_bytes);
      }
      until = check_lists_least(until, check_lists_least(one.end, other.end));
    }
    x = until;
  }
  return GLOO_OK;
}
