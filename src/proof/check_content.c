/* Effects of steps on the symbolic content of buffers. */
#include <inttypes.h>
#include <string.h>

#include "plan/lists.h"
#include "proof/check_internal.h"

/* ---- reading ------------------------------------------------------------- */

static gli_content *buffer_of(gli_checker *c, uint32_t rank, uint8_t buffer) {
  check_rank *r = &c->ranks[rank];
  switch (buffer) {
    case GLI_OUT:
      return &r->out;
    case GLI_OUTS:
      return &r->outs;
    case GLI_SCRATCH:
      return &r->scratch;
    default:
      return &r->token;
  }
}

/* Reads the initial content of an input, which no step ever writes. */
static bool check_content_read_input(gli_checker *c, uint32_t rank,
                                     uint64_t offset, uint64_t bytes,
                                     gli_content *into) {
  gli_piece all = {.end = bytes,
                   .source = offset,
                   .ranks = {rank, 1},
                   .order = GLI_ORDER_FOLD};
  into->n = 0;
  return gli_content_append(into, c->params.size, all);
}

static gloo_status check_content_read_range(gli_checker *c, uint32_t rank,
                                            const check_step *s, uint8_t buffer,
                                            uint64_t offset,
                                            gli_content *into) {
  uint64_t bytes = s->step.bytes;
  if (buffer < GLI_OUT) {
    if (!check_content_read_input(c, rank, offset, bytes, into)) {
      return gli_check_no_memory(c);
    }
    return GLOO_OK;
  }
  if (!gli_content_read(buffer_of(c, rank, buffer), c->params.size, offset,
                        bytes, into)) {
    return gli_check_no_memory(c);
  }
  uint64_t gap = gli_content_first_gap(into, bytes);
  if (gap == bytes) return GLOO_OK;
  return gli_check_fail(c, rank, s->number, &s->step,
                        "reads byte %" PRIu64 " of %s, which was never written",
                        offset + gap,
                        buffer == GLI_OUT    ? "OUT"
                        : buffer == GLI_OUTS ? "OUTS"
                                             : "SCRATCH");
}

static gloo_status write_range(gli_checker *c, uint32_t rank,
                               const check_step *s, const gli_content *from) {
  gli_content *to = buffer_of(c, rank, s->step.dst_buffer);
  if (gli_content_write(to, c->params.size, s->step.dst, s->step.bytes, from)) {
    return GLOO_OK;
  }
  return gli_check_no_memory(c);
}

/* ---- combining ----------------------------------------------------------- */

/* An iterator over blocks; `at` is the rest of the current one. */
typedef struct cursor {
  const gli_content *c;
  size_t piece;
  uint64_t block;
  gli_piece at;
} cursor;

static cursor cursor_at_start(const gli_content *c, uint32_t size) {
  return (cursor){.c = c, .at = gli_piece_block(&c->pieces[0], size, 0)};
}

static void check_content_advance(cursor *k, uint32_t size, uint64_t to) {
  if (to < k->at.end) {
    k->at.source += to - k->at.start;
    k->at.start = to;
    return;
  }
  if (++k->block == gli_piece_blocks(&k->c->pieces[k->piece])) {
    k->block = 0;
    if (++k->piece == k->c->n) return;
  }
  k->at = gli_piece_block(&k->c->pieces[k->piece], size, k->block);
}

static uint32_t check_content_larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* Computes the order of x op y. A set of ranks that wraps has no order. */
static gli_order check_content_order_of(const gli_piece *x, const gli_piece *y,
                                        uint32_t size) {
  gli_ranks a = x->ranks, b = y->ranks;
  if (a.n == GLI_RANKS_LISTED || b.n == GLI_RANKS_LISTED) return GLI_ORDER_ANY;
  bool follows = a.n <= size - a.first && a.first + a.n == b.first;
  if (!follows || x->order == GLI_ORDER_ANY || y->order == GLI_ORDER_ANY) {
    return GLI_ORDER_ANY;
  }
  if (b.n > size - b.first) return GLI_ORDER_ANY;
  return b.n == 1 ? x->order : GLI_ORDER_RANKS;
}

static gloo_status combine_pieces(gli_checker *c, uint32_t rank,
                                  const check_step *s, const gli_piece *x,
                                  const gli_piece *y, bool stores,
                                  gli_piece *sum) {
  uint64_t element = (s->step.dst + x->start) / c->params.elem_bytes;
  if (x->source != y->source) {
    return gli_check_fail(c, rank, s->number, &s->step,
                          "at element %" PRIu64 ", combines element %" PRIu64
                          " of the inputs with element %" PRIu64,
                          element, x->source / c->params.elem_bytes,
                          y->source / c->params.elem_bytes);
  }
  *sum = *x;
  sum->order = check_content_order_of(x, y, c->params.size);
  sum->adds = check_content_larger(x->adds, y->adds) + 1;
  sum->stores = check_content_larger(x->stores, y->stores) + stores;
  uint32_t common = 0;
  switch (gli_ranks_add(c->pool, x->ranks, y->ranks, &sum->ranks, &common)) {
    case GLI_RANKS_OK:
      return GLOO_OK;
    case GLI_RANKS_NO_MEMORY:
      return gli_check_no_memory(c);
    default:
      break;
  }
  return gli_check_fail(c, rank, s->number, &s->step,
                        "at element %" PRIu64
                        ", the contribution of rank %u is counted twice",
                        element, common);
}

/* c->result = c->a op c->b; both cover the step's length. `stores` is true if
 * the step stores this result, false for an intermediate one. */
static gloo_status check_content_combine(gli_checker *c, uint32_t rank,
                                         const check_step *s, bool stores) {
  uint32_t size = c->params.size;
  cursor a = cursor_at_start(&c->a, size), b = cursor_at_start(&c->b, size);
  c->result.n = 0;
  for (uint64_t at = 0; at < s->step.bytes;) {
    uint64_t end = a.at.end < b.at.end ? a.at.end : b.at.end;
    gli_piece sum;
    gloo_status status = combine_pieces(c, rank, s, &a.at, &b.at, stores, &sum);
    if (status != GLOO_OK) return status;
    sum.end = end;
    if (!gli_content_append(&c->result, size, sum)) {
      return gli_check_no_memory(c);
    }
    check_content_advance(&a, size, end);
    check_content_advance(&b, size, end);
    at = end;
  }
  return GLOO_OK;
}

/* ---- local steps --------------------------------------------------------- */

/* Reads operand k of a reduction of several. */
static gloo_status read_operand(gli_checker *c, uint32_t rank,
                                const check_step *s, uint32_t k,
                                gli_content *into) {
  const gli_step *t = &s->step;
  if (k == t->own)
    return check_content_read_range(c, rank, s, t->a_buffer, t->a, into);
  uint32_t get = k < t->own ? k : k - 1;
  return check_content_read_range(c, rank, s, t->b_buffer,
                                  t->b + get * t->stride, into);
}

static gloo_status reduce_all(gli_checker *c, uint32_t rank,
                              const check_step *s) {
  gloo_status status = read_operand(c, rank, s, 0, &c->result);
  for (uint32_t k = 1; k <= s->step.n && status == GLOO_OK; k++) {
    gli_content sum = c->result;
    c->result = c->a;
    c->a = sum;
    status = read_operand(c, rank, s, k, &c->b);
    if (status == GLOO_OK)
      status = check_content_combine(c, rank, s, k == s->step.n);
  }
  return status == GLOO_OK ? write_range(c, rank, s, &c->result) : status;
}

/* Returns true for steps that copy content. Joined inputs together are the
 * rank's contribution, so LOCAL_REDUCE is one of them. */
static bool check_content_copies(const gli_step *s) {
  return s->kind == GLI_STEP_COPY || s->kind == GLI_STEP_COPY_GET ||
         s->kind == GLI_STEP_LOCAL_REDUCE || s->kind == GLI_STEP_LOCAL_BCAST;
}

gloo_status gli_check_local(gli_checker *c, uint32_t rank,
                            const check_step *s) {
  uint64_t from = s->step.a;
  gloo_status status = gli_check_lists(c, rank, s, &from);
  if (status != GLOO_OK) return status;
  status = check_content_read_range(c, rank, s, s->step.a_buffer, from, &c->a);
  if (status != GLOO_OK) return status;
  if (check_content_copies(&s->step)) return write_range(c, rank, s, &c->a);
  if (gli_step_has_blocks(&s->step)) return reduce_all(c, rank, s);
  status =
      check_content_read_range(c, rank, s, s->step.b_buffer, s->step.b, &c->b);
  if (status == GLOO_OK) status = check_content_combine(c, rank, s, true);
  if (status == GLOO_OK) status = write_range(c, rank, s, &c->result);
  return status;
}

/* ---- messages ------------------------------------------------------------ */

/* Computes the ranks that a range of tokens has heard of, plus this rank. */
static bool token_ranks(gli_checker *c, uint32_t rank, uint64_t offset,
                        uint64_t bytes, gli_ranks *heard) {
  *heard = (gli_ranks){rank, 1};
  if (!gli_content_read(&c->ranks[rank].token, c->params.size, offset, bytes,
                        &c->a)) {
    return false;
  }
  for (size_t i = 0; i < c->a.n; i++) {
    for (uint64_t j = 0; j < gli_piece_blocks(&c->a.pieces[i]); j++) {
      gli_piece block = gli_piece_block(&c->a.pieces[i], c->params.size, j);
      if (gli_ranks_merge(c->pool, *heard, block.ranks, heard) !=
          GLI_RANKS_OK) {
        return false;
      }
    }
  }
  return true;
}

/* Adds a received token to the earlier content, which it waited for. */
static gloo_status pass_token(gli_checker *c, uint32_t from,
                              const check_step *send, uint32_t to,
                              const check_step *recv) {
  gli_ranks sent, had;
  check_rank *r = &c->ranks[to];
  if (!token_ranks(c, from, send->step.a, send->step.bytes, &sent) ||
      !token_ranks(c, to, recv->step.dst, recv->step.bytes, &had) ||
      gli_ranks_merge(c->pool, sent, had, &sent) != GLI_RANKS_OK ||
      gli_ranks_merge(c->pool, sent, r->heard, &r->heard) != GLI_RANKS_OK) {
    return gli_check_no_memory(c);
  }
  gli_piece all = {.end = recv->step.bytes, .ranks = sent};
  c->a.n = 0;
  if (!gli_content_append(&c->a, c->params.size, all)) {
    return gli_check_no_memory(c);
  }
  return write_range(c, to, recv, &c->a);
}

/* Checks that both ends agree on the use of each other's memory. */
static gloo_status match_roles(gli_checker *c, uint32_t from,
                               const check_step *send, uint32_t to,
                               const check_step *recv) {
  static const char *const names[GLI_ROLES] = {"bytes", "a get", "a put",
                                               "a completed put", "a signal"};
  if (send->step.role != recv->step.role) {
    return gli_check_fail(c, to, recv->number, &recv->step,
                          "expects %s, but step %u of rank %u sends %s",
                          names[recv->step.role], send->number, from,
                          names[send->step.role]);
  }
  if (send->step.role != GLI_ROLE_EXPOSE_PUT ||
      send->step.bytes == recv->step.bytes) {
    return GLOO_OK;
  }
  return gli_check_fail(c, to, recv->number, &recv->step,
                        "expects to put %" PRIu64
                        " bytes, but step %u of rank %u exposes %" PRIu64,
                        recv->step.bytes, send->number, from, send->step.bytes);
}

gloo_status gli_check_message(gli_checker *c, uint32_t from,
                              const check_step *send, uint32_t to,
                              const check_step *recv) {
  gloo_status status = match_roles(c, from, send, to, recv);
  if (status != GLOO_OK || send->step.role == GLI_ROLE_EXPOSE_PUT)
    return status;
  bool token = send->step.a_buffer == GLI_TOKEN;
  bool both = token && recv->step.dst_buffer == GLI_TOKEN;
  if (send->step.role == GLI_ROLE_SIGNAL && !both) return GLOO_OK;
  if (token != (recv->step.dst_buffer == GLI_TOKEN) ||
      gli_step_wire_bytes(&send->step) != gli_step_wire_bytes(&recv->step)) {
    return gli_check_fail(c, to, recv->number, &recv->step,
                          "expects %" PRIu64
                          " bytes, but step %u of rank %u "
                          "sends %" PRIu64,
                          gli_step_wire_bytes(&recv->step), send->number, from,
                          gli_step_wire_bytes(&send->step));
  }
  if (token) return pass_token(c, from, send, to, recv);
  status = check_content_read_range(c, from, send, send->step.a_buffer,
                                    send->step.a, &c->b);
  if (status != GLOO_OK) return status;
  if (recv->step.kind == GLI_STEP_RECV) return write_range(c, to, recv, &c->b);
  status = check_content_read_range(c, to, recv, recv->step.a_buffer,
                                    recv->step.a, &c->a);
  if (recv->step.incoming_first) {
    gli_content left = c->b;
    c->b = c->a;
    c->a = left;
  }
  if (status == GLOO_OK) status = check_content_combine(c, to, recv, true);
  if (status == GLOO_OK) status = write_range(c, to, recv, &c->result);
  return status;
}

/* ---- the start ----------------------------------------------------------- */

bool gli_check_fill_inputs(gli_checker *c, uint32_t rank) {
  check_rank *r = &c->ranks[rank];
  r->out.n = r->outs.n = r->scratch.n = r->token.n = 0;
  r->heard = (gli_ranks){rank, 1};
  gli_plan_params own = gli_check_params(c, rank);
  gli_shape shape;
  if (!gli_plan_shape(&own, &shape)) return false;
  uint64_t in = shape.in_bytes;
  if (!shape.in_place || in == 0) return true;
  if (!check_content_read_input(c, rank, 0, in, &c->a)) return false;
  /* One of several inputs alone is no contribution: OUT must not be read before
   * the inputs are joined. */
  gli_content *to = gli_lists_has_inputs(&own) ? &r->outs : &r->out;
  return gli_content_write(to, c->params.size, shape.in_shift, in, &c->a);
}
