#include "tools/bench_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gli_case_knows(gli_collective collective) {
  switch (collective) {
    case GLI_BARRIER:
    case GLI_BROADCAST:
    case GLI_ALLREDUCE:
    case GLI_REDUCE_SCATTER:
    case GLI_ALLGATHER:
    case GLI_SENDRECV:
    case GLI_ALLTOALL:
    case GLI_REDUCE:
    case GLI_GATHER:
    case GLI_SCATTER:
      return true;
    default:
      return false;
  }
}

/* ---- sizes -------------------------------------------------------------- */

/* How many times `count` elements the larger buffer holds. */
static size_t blocks(gli_collective collective, int ranks) {
  bool by_rank = collective == GLI_REDUCE_SCATTER ||
                 collective == GLI_ALLGATHER || collective == GLI_ALLTOALL ||
                 collective == GLI_GATHER || collective == GLI_SCATTER;
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

static bool is_root(const gli_bench_case *c) {
  return c->rank == c->call.root;
}

/* Blocks that go to or come from a root are in place there only. */
static bool in_place(const gli_bench_case *c) {
  gli_collective collective = c->call.collective;
  if (!c->call.in_place) return false;
  return (collective != GLI_GATHER && collective != GLI_SCATTER) || is_root(c);
}

static void set_buffer_sizes(gli_bench_case *c) {
  size_t all = (size_t)c->bytes;
  c->in_bytes = c->out_bytes = c->count * gloo_dtype_size(c->call.dtype);
  switch (c->call.collective) {
    case GLI_ALLTOALL:
      c->in_bytes = c->out_bytes = all;
      break;
    case GLI_REDUCE_SCATTER:
      c->in_bytes = all;
      break;
    case GLI_ALLGATHER:
      c->out_bytes = all;
      break;
    case GLI_GATHER:
      c->out_bytes = is_root(c) ? all : 0;
      break;
    case GLI_SCATTER:
      c->in_bytes = is_root(c) ? all : 0;
      break;
    default:
      break;
  }
  if (!in_place(c)) return;
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
  bool from_root =
      call->collective == GLI_BROADCAST || call->collective == GLI_SCATTER;
  if (from_root) source = call->root;
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

static void *allocate(size_t bytes, bool shareable) {
  long page = sysconf(_SC_PAGESIZE);
  void *memory = NULL;
  if (shareable) {
    if (gloo_alloc(bytes, &memory, NULL) != GLOO_OK) return NULL;
  } else if (posix_memalign(&memory, page > 0 ? (size_t)page : 4096,
                            bytes > 0 ? bytes : 1) != 0) {
    return NULL;
  }
  memset(memory, 0xa5, bytes);
  return memory;
}

bool gli_case_allocate(const gli_bench_case *c, gli_bench_buffers *buffers) {
  buffers->shareable = c->call.shareable;
  buffers->in = allocate(c->in_bytes, c->call.shareable);
  buffers->out = allocate(c->out_bytes, c->call.shareable);
  if (buffers->in != NULL && buffers->out != NULL) return true;
  gli_case_free(buffers);
  return false;
}

void gli_case_free(gli_bench_buffers *buffers) {
  void (*release)(void *) = buffers->shareable ? gloo_free : free;
  release(buffers->in);
  release(buffers->out);
  buffers->in = buffers->out = NULL;
}

/* Where in the output the input lies when the call is in place; no count: this
 * rank has none. */
static void fill_in_place(const gli_bench_case *c, uint8_t *out) {
  size_t first = 0, count = c->count;
  size_t elem = gloo_dtype_size(c->call.dtype);
  if (c->call.collective == GLI_REDUCE_SCATTER ||
      c->call.collective == GLI_ALLTOALL || c->call.collective == GLI_SCATTER) {
    count *= (size_t)c->ranks;
  }
  if (c->call.collective == GLI_ALLGATHER || c->call.collective == GLI_GATHER) {
    first = (size_t)c->rank * count;
  }
  if (c->call.collective == GLI_BROADCAST && c->rank != c->call.root) return;
  gli_period_fill(&c->input, out + first * elem, 0, count);
}

void gli_case_fill(const gli_bench_case *c, const gli_bench_buffers *buffers) {
  if (c->call.collective == GLI_BARRIER) return;
  memset(buffers->out, 0xa5, c->out_bytes);
  if (in_place(c)) {
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
  const void *in = in_place(c) ? GLOO_IN_PLACE : b->in;
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
    case GLI_ALLTOALL:
      return gloo_alltoall(c->context, in, b->out, c->count, call->dtype,
                           &options);
    case GLI_REDUCE:
      return gloo_reduce(c->context, in, b->out, c->count, call->dtype,
                         call->op, call->root, &options);
    case GLI_GATHER:
      return gloo_gather(c->context, in, b->out, c->count, call->dtype,
                         call->root, &options);
    case GLI_SCATTER:
      return gloo_scatter(c->context, in, b->out, c->count, call->dtype,
                          call->root, &options);
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

/* A block from every rank: its elements from `first` on. */
static bool check_blocks(const gli_bench_case *c, const void *out, size_t first,
                         char where[GLI_CASE_WHERE]) {
  gli_period expected;
  for (int r = 0; r < c->ranks; r++) {
    gli_period_moved(&expected, c->call.dtype, r);
    size_t at = (size_t)r * c->count;
    if (!check_range(c, &expected, out, at, first, c->count, where)) {
      return false;
    }
  }
  return true;
}

/* The output of a rank that gets no result must be what it was. */
static bool check_untouched(const gli_bench_case *c, const void *out,
                            char where[GLI_CASE_WHERE]) {
  const uint8_t *bytes = out;
  if (in_place(c)) {
    return check_range(c, &c->input, out, 0, 0, c->count, where);
  }
  for (size_t i = 0; i < c->out_bytes; i++) {
    if (bytes[i] == 0xa5) continue;
    snprintf(where, GLI_CASE_WHERE,
             "byte %zu of the output was written to, at a rank that has none",
             i);
    return false;
  }
  return true;
}

static bool check_rooted(const gli_bench_case *c, const void *out,
                         char where[GLI_CASE_WHERE]) {
  size_t own = (size_t)c->rank * c->count;
  if (c->call.collective == GLI_SCATTER) {
    size_t at = in_place(c) ? own : 0;
    return check_range(c, &c->expected, out, at, own, c->count, where);
  }
  if (!is_root(c)) return check_untouched(c, out, where);
  if (c->call.collective == GLI_GATHER) return check_blocks(c, out, 0, where);
  return check_range(c, &c->expected, out, 0, 0, c->count, where);
}

bool gli_case_check(const gli_bench_case *c, const gli_bench_buffers *b,
                    char where[GLI_CASE_WHERE]) {
  if (c->call.collective == GLI_BARRIER) return true;
  if (c->call.collective == GLI_REDUCE || c->call.collective == GLI_GATHER ||
      c->call.collective == GLI_SCATTER) {
    return check_rooted(c, b->out, where);
  }
  if (c->call.collective == GLI_SENDRECV && c->partner < 0) return true;
  if (c->call.collective == GLI_ALLGATHER) {
    return check_blocks(c, b->out, 0, where);
  }
  if (c->call.collective == GLI_ALLTOALL) {
    return check_blocks(c, b->out, (size_t)c->rank * c->count, where);
  }
  size_t first = 0;
  if (c->call.collective == GLI_REDUCE_SCATTER) {
    first = (size_t)c->rank * c->count;
  }
  return check_range(c, &c->expected, b->out, 0, first, c->count, where);
}
