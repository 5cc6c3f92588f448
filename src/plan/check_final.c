/* Do outputs hold what the collective defines? */
#include <inttypes.h>
#include <stdio.h>

#include "plan/check_internal.h"

/* What bytes [x, until) of the output are to be. */
typedef struct expected {
  gli_ranks ranks;
  uint64_t source, until;
} expected;

static expected expect(const gli_plan_params *p, uint32_t rank, uint64_t x) {
  uint64_t one = p->count * p->elem_bytes;
  gli_ranks all = {0, p->size};
  switch (p->collective) {
    case GLI_BROADCAST:
      return (expected){{p->root, 1}, x, one};
    case GLI_REDUCE_SCATTER:
      return (expected){all, rank * one + x, one};
    case GLI_ALLGATHER:
      return (expected){{(uint32_t)(x / one), 1}, x % one, (x / one + 1) * one};
    default:
      return (expected){all, x, one};
  }
}

/* The last step that wrote byte x of OUT, on the failing path only. */
static gloo_status fail_byte(gli_checker *c, uint32_t rank, uint64_t x,
                             const char *what) {
  gli_plan_params p = c->params;
  p.rank = rank;
  uint64_t element = x / p.elem_bytes;
  gloo_status status = gli_raw_begin(&c->builder, &p, c->error);
  if (status != GLOO_OK) return status;
  c->build(&c->builder, &c->builder.params);
  for (size_t i = c->builder.n_steps; i-- > 0;) {
    gli_step s = c->builder.steps[i];
    if (s.kind == GLI_STEP_SEND || s.dst_buffer != GLI_OUT) continue;
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
  gli_ranks_print(c->pool, is, has, sizeof(has));
  gli_ranks_print(c->pool, wanted, want, sizeof(want));
  if (gli_ranks_first_extra(c->pool, wanted, is, &one)) {
    snprintf(what, sizeof(what),
             "the contribution of rank %u is missing (it has those of %s, of "
             "%s)",
             one, has, want);
  } else {
    gli_ranks_first_extra(c->pool, is, wanted, &one);
    snprintf(what, sizeof(what),
             "it has a contribution of rank %u, which does not belong there "
             "(it has those of %s, not of %s only)",
             one, has, want);
  }
  return fail_byte(c, rank, x, what);
}

static gloo_status fail_source(gli_checker *c, uint32_t rank, uint64_t x,
                               uint64_t is, uint64_t wanted) {
  char what[160];
  snprintf(what, sizeof(what),
           "it comes from element %" PRIu64
           " of the input, not from element %" PRIu64,
           is / c->params.elem_bytes, wanted / c->params.elem_bytes);
  return fail_byte(c, rank, x, what);
}

/* A piece without blocks. */
static gloo_status check_block(gli_checker *c, uint32_t rank,
                               const gli_piece *b, uint64_t end) {
  uint64_t stop = b->end < end ? b->end : end;
  for (uint64_t x = b->start; x < stop;) {
    uint64_t source = b->source + (x - b->start);
    expected e = expect(&c->params, rank, x);
    if (!gli_ranks_equal(b->ranks, e.ranks)) {
      return fail_ranks(c, rank, x, b->ranks, e.ranks);
    }
    if (source != e.source) return fail_source(c, rank, x, source, e.source);
    x = e.until;
  }
  return GLOO_OK;
}

/* Point to point: whatever was written comes from one rank, byte for byte. */
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
  gli_ranks_print(c->pool, heard, text, sizeof(text));
  gli_ranks_first_extra(c->pool, all, heard, &missing);
  c->report->failed_step = c->ranks[rank].total;
  return gli_fail(c->error, GLOO_ERR_INTERNAL, (int)rank,
                  "%s of %u ranks, rank %u: after its last step (%" PRIu64
                  ") it has heard of ranks %s, but not of rank %u",
                  gli_collective_name(c->params.collective), c->params.size,
                  rank, c->ranks[rank].total, text, missing);
}

gloo_status gli_check_output(gli_checker *c, uint32_t rank) {
  const gli_plan_params *p = &c->params;
  if (p->collective == GLI_BARRIER) return check_barrier(c, rank);
  const gli_content *out = &c->ranks[rank].out;
  uint64_t in, end;
  if (!gli_plan_buffer_bytes(p, &in, &end)) return gli_check_no_memory(c);
  if (p->collective == GLI_REDUCE_SCATTER) end = p->count * p->elem_bytes;
  bool all_of_it = p->collective != GLI_SENDRECV;
  uint64_t gap = all_of_it ? gli_content_first_gap(out, end) : end;
  if (gap < end) return fail_byte(c, rank, gap, "it is undefined");
  for (size_t i = 0; i < out->n && out->pieces[i].start < end; i++) {
    const gli_piece *piece = &out->pieces[i];
    for (uint64_t j = 0; j < gli_piece_blocks(piece); j++) {
      gli_piece block = gli_piece_block(piece, p->size, j);
      gloo_status status = all_of_it ? check_block(c, rank, &block, end)
                                     : check_sendrecv(c, rank, &block);
      if (status != GLOO_OK) return status;
    }
  }
  return GLOO_OK;
}
