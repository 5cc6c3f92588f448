#include "tools/bench_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- sizes -------------------------------------------------------------- */

/* How many times `count` elements the larger buffer holds. */
static size_t blocks(gli_collective collective, int ranks) {
  bool by_rank =
      collective == GLI_REDUCE_SCATTER || collective == GLI_ALLGATHER;
  return by_rank ? (size_t)ranks : 1;
}

static size_t case_count(const gli_bench_call *call, int ranks,
                         uint64_t bytes) {
  if (call->collective == GLI_BARRIER) return 0;
  size_t each = gloo_dtype_size(call->dtype) * blocks(call->collective, ranks);
  return bytes < each ? 1 : (size_t)(bytes / each);
}

uint64_t gli_case_bytes(const gli_bench_call *call, int ranks, uint64_t bytes) {
  return (uint64_t)case_count(call, ranks, bytes) *
         gloo_dtype_size(call->dtype) * blocks(call->collective, ranks);
}

static void set_buffer_sizes(gli_bench_case *c) {
  size_t one = c->count * gloo_dtype_size(c->call.dtype);
  size_t all = (size_t)c->bytes;
  c->in_bytes = c->call.collective == GLI_REDUCE_SCATTER ? all : one;
  c->out_bytes = c->call.collective == GLI_ALLGATHER ? all : one;
  if (!c->call.in_place) return;
  if (c->in_bytes > c->out_bytes) c->out_bytes = c->in_bytes;
  c->in_bytes = 0;
}

static int find_partner(int rank, int ranks) {
  if (ranks == 1) return rank;
  int partner = rank ^ 1;
  return partner < ranks ? partner : -1;
}

void gli_case_init(gli_bench_case *c, const gli_bench_call *call,
                   gloo_context *context, uint64_t bytes) {
  memset(c, 0, sizeof *c);
  c->call = *call;
  c->context = context;
  c->rank = gloo_context_rank(context);
  c->ranks = gloo_context_size(context);
  c->count = case_count(call, c->ranks, bytes);
  c->bytes = gli_case_bytes(call, c->ranks, bytes);
  set_buffer_sizes(c);
  c->partner = find_partner(c->rank, c->ranks);
  int source = c->rank;
  if (call->collective == GLI_BROADCAST) source = call->root;
  if (call->collective == GLI_SENDRECV) source = c->partner;
  if (gli_collective_reduces(call->collective)) {
    gli_period_input(&c->input, call->dtype, call->op, c->ranks, c->rank);
    gli_period_reduced(&c->expected, call->dtype, call->op, c->ranks);
  } else {
    gli_period_moved(&c->input, call->dtype, c->rank);
    gli_period_moved(&c->expected, call->dtype, source);
  }
}

/* ---- buffers ------------------------------------------------------------ */

static void *allocate(size_t bytes) {
  long page = sysconf(_SC_PAGESIZE);
  void *memory = NULL;
  if (posix_memalign(&memory, page > 0 ? (size_t)page : 4096,
                     bytes > 0 ? bytes : 1) != 0) {
    return NULL;
  }
  memset(memory, 0xa5, bytes);
  return memory;
}

bool gli_case_allocate(const gli_bench_case *c, gli_bench_buffers *buffers) {
  buffers->in = allocate(c->in_bytes);
  buffers->out = allocate(c->out_bytes);
  if (buffers->in != NULL && buffers->out != NULL) return true;
  gli_case_free(buffers);
  return false;
}

void gli_case_free(gli_bench_buffers *buffers) {
  free(buffers->in);
  free(buffers->out);
  buffers->in = buffers->out = NULL;
}

/* Where in the output the input lies when the call is in place; no count: this
 * rank has none. */
static void fill_in_place(const gli_bench_case *c, uint8_t *out) {
  size_t first = 0, count = c->count;
  size_t elem = gloo_dtype_size(c->call.dtype);
  if (c->call.collective == GLI_REDUCE_SCATTER) count *= (size_t)c->ranks;
  if (c->call.collective == GLI_ALLGATHER) first = (size_t)c->rank * count;
  if (c->call.collective == GLI_BROADCAST && c->rank != c->call.root) return;
  gli_period_fill(&c->input, out + first * elem, 0, count);
}

void gli_case_fill(const gli_bench_case *c, const gli_bench_buffers *buffers) {
  if (c->call.collective == GLI_BARRIER) return;
  memset(buffers->out, 0xa5, c->out_bytes);
  if (c->call.in_place) {
    fill_in_place(c, buffers->out);
    return;
  }
  gli_period_fill(&c->input, buffers->in, 0,
                  c->in_bytes / gloo_dtype_size(c->call.dtype));
}

/* ---- the calls ---------------------------------------------------------- */

/* There and back again, from the view of the even rank of a pair. */
static gloo_status ping_pong(const gli_bench_case *c,
                             const gli_bench_buffers *b,
                             const gloo_options *options) {
  gloo_dtype dtype = c->call.dtype;
  bool first = c->rank % 2 == 0;
  gloo_status status = GLOO_OK;
  if (first) {
    status = gloo_send(c->context, b->in, c->count, dtype, c->partner, options);
    if (status != GLOO_OK) return status;
  }
  status = gloo_recv(c->context, b->out, c->count, dtype, c->partner, options);
  if (status != GLOO_OK || first) return status;
  return gloo_send(c->context, b->in, c->count, dtype, c->partner, options);
}

/* The same two messages when there is only one rank. */
static gloo_status ping_self(const gli_bench_case *c,
                             const gli_bench_buffers *b,
                             const gloo_options *options) {
  gloo_status status = GLOO_OK;
  for (int trip = 0; trip < 2 && status == GLOO_OK; trip++) {
    gloo_operation *receive;
    status = gloo_recv_start(c->context, b->out, c->count, c->call.dtype,
                             c->rank, options, &receive);
    if (status != GLOO_OK) return status;
    status =
        gloo_send(c->context, b->in, c->count, c->call.dtype, c->rank, options);
    if (status == GLOO_OK) status = gloo_operation_wait(receive);
    gloo_operation_destroy(receive);
  }
  return status;
}

gloo_status gli_case_run(const gli_bench_case *c, const gli_bench_buffers *b,
                         gloo_error *error) {
  const gli_bench_call *call = &c->call;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.algorithm = call->algorithm;
  options.error = error;
  const void *in = call->in_place ? GLOO_IN_PLACE : b->in;
  switch (call->collective) {
    case GLI_BARRIER:
      return gloo_barrier(c->context, &options);
    case GLI_BROADCAST:
      return gloo_broadcast(c->context, in, b->out, c->count, call->dtype,
                            call->root, &options);
    case GLI_ALLREDUCE:
      return gloo_allreduce(c->context, in, b->out, c->count, call->dtype,
                            call->op, &options);
    case GLI_REDUCE_SCATTER:
      return gloo_reduce_scatter(c->context, in, b->out, c->count, call->dtype,
                                 call->op, &options);
    case GLI_ALLGATHER:
      return gloo_allgather(c->context, in, b->out, c->count, call->dtype,
                            &options);
    default:
      break;
  }
  if (c->partner < 0) return GLOO_OK;
  return c->partner == c->rank ? ping_self(c, b, &options)
                               : ping_pong(c, b, &options);
}

/* ---- the check ---------------------------------------------------------- */

/* `at` is where elements [first, first + count) of `expected` must be. */
static bool check_range(const gli_bench_case *c, const gli_period *expected,
                        const void *out, size_t at, size_t first, size_t count,
                        char where[GLI_CASE_WHERE]) {
  size_t elem = gloo_dtype_size(c->call.dtype);
  const uint8_t *data = (const uint8_t *)out + at * elem;
  size_t wrong = gli_period_mismatch(expected, data, first, count);
  if (wrong == count) return true;
  char got[GLI_ELEMENT_TEXT], want[GLI_ELEMENT_TEXT];
  snprintf(where, GLI_CASE_WHERE,
           "element %zu of the output is %s, expected %s", at + wrong,
           gli_element_text(c->call.dtype, data + wrong * elem, got),
           gli_element_text(c->call.dtype,
                            gli_period_at(expected, first + wrong), want));
  return false;
}

static bool check_allgather(const gli_bench_case *c, const void *out,
                            char where[GLI_CASE_WHERE]) {
  gli_period expected;
  for (int r = 0; r < c->ranks; r++) {
    gli_period_moved(&expected, c->call.dtype, r);
    size_t at = (size_t)r * c->count;
    if (!check_range(c, &expected, out, at, 0, c->count, where)) return false;
  }
  return true;
}

bool gli_case_check(const gli_bench_case *c, const gli_bench_buffers *b,
                    char where[GLI_CASE_WHERE]) {
  if (c->call.collective == GLI_BARRIER) return true;
  if (c->call.collective == GLI_SENDRECV && c->partner < 0) return true;
  if (c->call.collective == GLI_ALLGATHER) {
    return check_allgather(c, b->out, where);
  }
  size_t first = 0;
  if (c->call.collective == GLI_REDUCE_SCATTER) {
    first = (size_t)c->rank * c->count;
  }
  return check_range(c, &c->expected, b->out, 0, first, c->count, where);
}
