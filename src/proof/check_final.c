/* Checks that outputs hold what the collective defines. */
#include <inttypes.h>
#include <stdio.h>

#include "proof/check_internal.h"

/* Names the last step that wrote byte x of OUT; runs on failure only. */
static gloo_status fail_byte(gli_checker *c, uint32_t rank, uint64_t x,
                             const char *what) {
  gli_plan_params p = gli_check_params(c, rank);
  uint64_t element = x / p.elem_bytes;
  gloo_status status = gli_raw_begin(&c->builder, &p, c->error);
  if (status != GLOO_OK) return status;
  gli_raw_build(&c->builder, c->build);
  for (size_t i = c->builder.n_steps; i-- > 0;) {
    gli_step s = c->builder.steps[i];
    if (s.kind == GLI_STEP_SEND || s.dst_buffer != GLI_OUT) continue;
    if (s.role == GLI_ROLE_SIGNAL) continue;
    if (x < s.dst || x - s.dst >= s.bytes) continue;
    if (s.peer != GLI_NO_PEER) s.peer = c->builder.peers[s.peer].rank;
    return gli_check_fail(c, rank, i, &s,
                          "the last step to write element %" PRIu64
                          " of OUT leaves it wrong: %s",
                          element, what);
  }
  c->report->failed_step = c->builder.n_steps;
  return gli_fail(
      c->error, GLOO_ERR_INTERNAL, (int)rank,
      "%s of %u ranks, rank %u: no step writes element %" PRIu64 " of OUT: %s",
      gli_collective_name(p.collective), p.size, rank, element, what);
}

static gloo_status fail_ranks(gli_checker *c, uint32_t rank, uint64_t x,
                              gli_ranks is, gli_ranks wanted) {
  char has[80], want[80], what[320];
  uint32_t one;
  gli_ranks_print(c->pool, is, has, sizeof has);
  gli_ranks_print(c->pool, wanted, want, sizeof want);
  if (gli_ranks_first_extra(c->pool, wanted, is, &one)) {
    snprintf(what, sizeof what,
             "the contribution of rank %u is missing (it has those of %s, of "
             "%s)",
             one, has, want);
  } else {
    gli_ranks_first_extra(c->pool, is, wanted, &one);
    snprintf(what, sizeof what,
             "it has a contribution of rank %u that does not belong there (it "
             "has those of %s instead of %s)",
             one, has, want);
  }
  return fail_byte(c, rank, x, what);
}

static gloo_status fail_source(gli_checker *c, uint32_t rank, uint64_t x,
                               uint64_t is, uint64_t wanted) {
  char what[160];
  snprintf(what, sizeof what,
           "it comes from element %" PRIu64
           " of the input, not element %" PRIu64,
           is / c->params.elem_bytes, wanted / c->params.elem_bytes);
  return fail_byte(c, rank, x, what);
}

/* Checks that bytes without a defined value are unchanged. */
static gloo_status check_kept(gli_checker *c, uint32_t rank, const gli_piece *b,
                              uint64_t x) {
  gli_plan_params p = gli_check_params(c, rank);
  gli_shape shape;
  if (!gli_plan_shape(&p, &shape)) return gli_check_no_memory(c);
  uint64_t end = shape.in_shift + shape.in_bytes;
  gli_ranks own = {rank, 1};
  uint64_t source = b->source + (x - b->start);
  if (shape.in_place && x >= shape.in_shift && x < end &&
      gli_ranks_equal(b->ranks, own) && source == x - shape.in_shift) {
    return GLOO_OK;
  }
  return fail_byte(c, rank, x, "it must not be written");
}

static uint64_t check_final_least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* Checks bytes [from, to), which no step has written. */
static gloo_status check_gap(gli_checker *c, const gli_plan_params *p,
                             uint64_t from, uint64_t to) {
  for (uint64_t x = from; x < to;) {
    gli_result want = gli_plan_result(p, x);
    if (want.kind == GLI_RESULT_OF) {
      return fail_byte(c, p->rank, x, "it is undefined");
    }
    x = want.until;
  }
  return GLOO_OK;
}

static void note_order(gli_checker *c, const gli_piece *b) {
  gli_check_report *r = c->report;
  if (b->order < r->order) r->order = b->order;
  if (b->adds > r->adds) r->adds = b->adds;
  if (b->stores > r->roundings) r->roundings = b->stores;
}

/* Checks a piece without blocks. */
static gloo_status check_block(gli_checker *c, const gli_plan_params *p,
                               const gli_piece *b) {
  for (uint64_t x = b->start; x < b->end;) {
    uint64_t source = b->source + (x - b->start);
    gli_result want = gli_plan_result(p, x);
    if (want.kind == GLI_RESULT_KEPT) {
      gloo_status status = check_kept(c, p->rank, b, x);
      if (status != GLOO_OK) return status;
    }
    if (want.kind == GLI_RESULT_OF) {
      gli_ranks ranks = {want.first, want.n};
      if (!gli_ranks_equal(b->ranks, ranks)) {
        return fail_ranks(c, p->rank, x, b->ranks, ranks);
      }
      if (source != want.source) {
        return fail_source(c, p->rank, x, source, want.source);
      }
      note_order(c, b);
    }
    x = check_final_least(want.until, b->end);
  }
  return GLOO_OK;
}

/* Point to point: every byte is from one rank, at the same offset. */
static gloo_status check_sendrecv(gli_checker *c, uint32_t rank,
                                  const gli_piece *b) {
  if (b->ranks.n != 1) {
    return fail_ranks(c, rank, b->start, b->ranks,
                      (gli_ranks){b->ranks.first, 1});
  }
  if (b->source == b->start) return GLOO_OK;
  return fail_source(c, rank, b->start, b->source, b->start);
}

static gloo_status check_barrier(gli_checker *c, uint32_t rank) {
  gli_ranks all = {0, c->params.size};
  gli_ranks heard = c->ranks[rank].heard;
  if (gli_ranks_equal(heard, all)) return GLOO_OK;
  char text[80];
  uint32_t missing = 0;
  gli_ranks_print(c->pool, heard, text, sizeof text);
  gli_ranks_first_extra(c->pool, all, heard, &missing);
  c->report->failed_step = c->ranks[rank].total;
  return gli_fail(c->error, GLOO_ERR_INTERNAL, (int)rank,
                  "%s of %u ranks, rank %u: after its last step (%" PRIu64
                  ") it knows of ranks %s, but not of rank %u",
                  gli_collective_name(c->params.collective), c->params.size,
                  rank, c->ranks[rank].total, text, missing);
}

static gloo_status check_pieces(gli_checker *c, const gli_plan_params *p,
                                uint64_t end) {
  const gli_content *out = &c->ranks[p->rank].out;
  bool message = p->collective == GLI_SENDRECV;
  uint64_t at = 0; /* end of the checked bytes */
  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < out->n && status == GLOO_OK; i++) {
    const gli_piece *piece = &out->pieces[i];
    uint64_t blocks = gli_piece_blocks(piece);
    if (!message) status = check_gap(c, p, at, piece->start);
    for (uint64_t j = 0; j < blocks && status == GLOO_OK; j++) {
      gli_piece block = gli_piece_block(piece, p->size, j);
      status = message ? check_sendrecv(c, p->rank, &block)
                       : check_block(c, p, &block);
    }
    at = piece->end;
  }
  if (status != GLOO_OK || message) return status;
  return check_gap(c, p, at, end);
}

gloo_status gli_check_output(gli_checker *c, uint32_t rank) {
  gli_plan_params p = gli_check_params(c, rank);
  if (p.collective == GLI_BARRIER) return check_barrier(c, rank);
  gli_shape shape;
  if (!gli_plan_shape(&p, &shape)) return gli_check_no_memory(c);
  gloo_status status = check_pieces(c, &p, shape.out_bytes);
  return status == GLOO_OK ? gli_check_outputs(c, rank) : status;
}
