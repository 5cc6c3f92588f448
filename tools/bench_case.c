#include "tools/bench_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/aligned.h"
#include "core/environment.h"
#include "memory/gpu.h"

bool gli_case_knows(gli_collective collective) {
  return collective >= 0 && collective < GLI_COLLECTIVES;
}

/* ---- sizes --------------------------------------------------------------- */

static bool is_v_alltoall(gli_collective collective) {
  return collective == GLI_ALLTOALLV;
}

/* Returns true if some buffer has a block for each rank. */
static bool in_blocks(gli_collective collective) {
  return gli_collective_counted(collective) ||
         collective == GLI_REDUCE_SCATTER || collective == GLI_ALLGATHER ||
         collective == GLI_ALLTOALL || collective == GLI_GATHER ||
         collective == GLI_SCATTER;
}

/* Returns the units of block number i, if lengths differ. */
static size_t units(size_t i) {
  static const size_t lengths[] = {2, 1, 3, 2, 0};
  return lengths[i % (sizeof lengths / sizeof lengths[0])];
}

/* Returns the units of blocks first, first + 1, ..., one for each rank. */
static size_t row_units(size_t first, int ranks) {
  size_t sum = 0;
  for (size_t i = 0; i < (size_t)ranks; i++) sum += units(first + i);
  return sum;
}

/* Returns the size of the larger buffer in units of `count` elements: the
 * largest of any rank. */
static size_t blocks(gli_collective collective, int ranks) {
  if (!in_blocks(collective)) return 1;
  if (!gli_collective_counted(collective)) return (size_t)ranks;
  size_t most = row_units(0, ranks);
  for (size_t r = 1; is_v_alltoall(collective) && r < (size_t)ranks; r++) {
    size_t sum = row_units(r, ranks);
    if (sum > most) most = sum;
  }
  return most;
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

/* Returns the elements of the block that rank `from` has for rank `to`. */
static size_t block_count(const gli_bench_case *c, int from, int to) {
  switch (c->call.collective) {
    case GLI_ALLTOALLV:
      return c->count * units((size_t)from + (size_t)to);
    case GLI_ALLGATHERV:
    case GLI_GATHERV:
      return c->count * units((size_t)from);
    case GLI_SCATTERV:
    case GLI_REDUCE_SCATTERV:
      return c->count * units((size_t)to);
    default:
      return c->count;
  }
}

/* Returns the offset of that block among the blocks that `from` has for all,
 * or, with `gathered`, among the blocks that all have for `to`. */
static size_t block_at(const gli_bench_case *c, int from, int to,
                       bool gathered) {
  size_t at = 0;
  for (int r = 0; r < (gathered ? from : to); r++) {
    at += gathered ? block_count(c, r, to) : block_count(c, from, r);
  }
  return at;
}

/* Returns the elements of a buffer with a block for every rank. */
static size_t all_blocks(const gli_bench_case *c) {
  return block_at(c, c->rank, c->ranks, false);
}

static size_t all_gathered(const gli_bench_case *c) {
  return block_at(c, c->ranks, c->rank, true);
}

/* Collectives that move blocks to or from a root are in place at the root only.
 */
bool gli_case_in_place(const gli_bench_case *c) {
  gli_collective collective = c->call.collective;
  bool rooted = gli_collective_rooted(collective) && in_blocks(collective);
  return c->call.in_place && (!rooted || is_root(c));
}

/* Sets the input's elements and returns the output's, as if out of place. */
static size_t set_counts(gli_bench_case *c) {
  size_t own = block_count(c, c->rank, c->rank);
  switch (c->call.collective) {
    case GLI_ALLTOALL:
    case GLI_ALLTOALLV:
      c->in_count = all_blocks(c);
      return c->in_count;
    case GLI_REDUCE_SCATTER:
    case GLI_REDUCE_SCATTERV:
      c->in_count = all_blocks(c);
      return own;
    case GLI_SCATTER:
    case GLI_SCATTERV:
      c->in_count = is_root(c) ? all_blocks(c) : 0;
      return own;
    case GLI_ALLGATHER:
    case GLI_ALLGATHERV:
      c->in_count = own;
      c->in_at = block_at(c, c->rank, c->rank, true);
      return all_gathered(c);
    case GLI_GATHER:
    case GLI_GATHERV:
      c->in_count = own;
      c->in_at = block_at(c, c->rank, c->rank, true);
      return is_root(c) ? all_gathered(c) : 0;
    default:
      c->in_count = c->count;
      return c->count;
  }
}

static void set_buffer_sizes(gli_bench_case *c) {
  size_t elem = gloo_dtype_size(c->call.dtype);
  c->out_bytes = set_counts(c) * elem;
  c->in_bytes = c->in_count * elem;
  if (!gli_case_in_place(c)) return;
  if (c->in_bytes > c->out_bytes) c->out_bytes = c->in_bytes;
  c->in_bytes = 0;
}

/* Allocates the list of counts that the call takes. */
static bool list_counts(gli_bench_case *c) {
  if (!gli_collective_counted(c->call.collective)) return true;
  c->counts = malloc((size_t)c->ranks * sizeof *c->counts);
  if (c->counts == NULL) return false;
  size_t first = is_v_alltoall(c->call.collective) ? (size_t)c->rank : 0;
  for (size_t i = 0; i < (size_t)c->ranks; i++) {
    c->counts[i] = c->count * units(first + i);
  }
  return true;
}

static int find_partner(int rank, int ranks) {
  if (ranks == 1) return rank;
  int partner = rank ^ 1;
  return partner < ranks ? partner : -1;
}

/* Returns how many ranks' inputs, from rank 0 on, this rank's result combines.
 */
static int reduced_ranks(const gli_bench_case *c) {
  if (c->call.collective == GLI_SCAN) return c->rank + 1;
  if (c->call.collective == GLI_EXSCAN) return c->rank;
  return c->ranks;
}

static void set_values(gli_bench_case *c) {
  const gli_bench_call *call = &c->call;
  if (gli_collective_reduces(call->collective)) {
    gli_period_input(&c->input, call->dtype, call->op, c->ranks, c->rank);
    gli_period_reduced(&c->expected, call->dtype, call->op, c->ranks,
                       reduced_ranks(c));
    return;
  }
  int source = call->collective == GLI_SENDRECV ? c->partner : call->root;
  gli_period_moved(&c->input, call->dtype, c->rank);
  gli_period_moved(&c->expected, call->dtype, source);
}

bool gli_case_init(gli_bench_case *c, const gli_bench_call *call,
                   gloo_context *context, uint64_t bytes) {
  memset(c, 0, sizeof *c);
  c->call = *call;
  c->context = context;
  c->rank = gloo_context_rank(context);
  c->ranks = gloo_context_size(context);
  c->count = case_count(call, c->ranks, bytes);
  c->bytes = gli_case_bytes(call, c->ranks, bytes);
  c->partner = find_partner(c->rank, c->ranks);
  set_buffer_sizes(c);
  set_values(c);
  return list_counts(c);
}

void gli_case_destroy(gli_bench_case *c) {
  free(c->counts);
  c->counts = NULL;
}

/* ---- buffers ------------------------------------------------------------- */

const char *gli_bench_memory_name(gli_bench_memory memory) {
  static const char *const names[] = {"malloc", "gloo_alloc", "cuda", "hip"};
  return names[memory];
}

int gli_bench_promises_buffers(const gli_bench_call *call) {
  return call->memory == GLI_BENCH_ALLOC &&
         gli_environment_read("GLOO_SHARED_BUFFERS") == NULL;
}

static void *host_memory(size_t bytes, const gli_bench_call *call) {
  long page = sysconf(_SC_PAGESIZE);
  void *memory = NULL;
  bytes += call->offset;
  if (bytes == 0) bytes = 1;
  if (call->memory == GLI_BENCH_ALLOC) {
    if (gloo_alloc(bytes, &memory, NULL) != GLOO_OK) return NULL;
  } else if (!call->placed) {
    memory = malloc(bytes);
  } else {
    size_t unit = page > 0 ? (size_t)page : 4096;
    memory = gli_aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  }
  if (memory == NULL) return NULL;
  memset(memory, 0xa5, bytes);
  return (char *)memory + call->offset;
}

static bool gpu_complains(const gli_bench_case *c, const gloo_error *error) {
  fprintf(stderr, "gloo bench: rank %d: %s\n", c->rank, error->message);
  return false;
}

/* Allocates GPU memory. The library must have GPU support on, or it would treat
 * the memory as the host's. */
static bool gpu_memory(const gli_bench_case *c, size_t bytes, void **memory) {
  gloo_error error;
  const char *kind = gli_bench_memory_name(c->call.memory);
  if (gli_gpu_allocate(kind, c->rank, bytes > 0 ? bytes : 1, memory, &error) !=
      GLOO_OK)
    return gpu_complains(c, &error);
  gli_gpu_place place;
  if (gli_gpu_find(*memory, &place, &error) == GLOO_OK &&
      place.kind == GLI_MEMORY_DEVICE)
    return true;
  fprintf(stderr,
          "gloo bench: rank %d: --memory %s needs a GPU, but GLOO_%s is 0 or "
          "this machine has none\n",
          c->rank, kind, c->call.memory == GLI_BENCH_HIP ? "HIP" : "CUDA");
  return false;
}

bool gli_case_allocate(const gli_bench_case *c, gli_bench_buffers *buffers) {
  bool gpu = c->call.memory >= GLI_BENCH_CUDA;
  *buffers = (gli_bench_buffers){.memory = c->call.memory,
                                 .placed = c->call.placed,
                                 .offset = c->call.offset};
  buffers->in_image = host_memory(c->in_bytes, &c->call);
  buffers->out_image = host_memory(c->out_bytes, &c->call);
  bool good = buffers->in_image != NULL && buffers->out_image != NULL;
  if (!gpu) {
    buffers->in = buffers->in_image;
    buffers->out = buffers->out_image;
  } else if (good) {
    good = gpu_memory(c, c->in_bytes, &buffers->in) &&
           gpu_memory(c, c->out_bytes, &buffers->out);
  }
  if (!good) gli_case_free(buffers);
  return good;
}

void gli_case_free(gli_bench_buffers *buffers) {
  void (*release)(void *) = buffers->memory == GLI_BENCH_ALLOC ? gloo_free
                            : buffers->placed ? gli_aligned_free
                                              : free;
  void *images[] = {buffers->in_image, buffers->out_image};
  for (int i = 0; i < 2; i++)
    if (images[i] != NULL) release((char *)images[i] - buffers->offset);
  if (buffers->memory >= GLI_BENCH_CUDA) {
    gli_gpu_free(buffers->in);
    gli_gpu_free(buffers->out);
  }
  *buffers = (gli_bench_buffers){.memory = GLI_BENCH_MALLOC};
}

/* Returns the host's address of the input, c->in_count elements, or NULL if
 * this rank has none. */
static uint8_t *input_of(const gli_bench_case *c,
                         const gli_bench_buffers *buffers) {
  if (c->call.collective == GLI_BARRIER) return NULL;
  if (!gli_case_in_place(c)) return buffers->in_image;
  if (c->call.collective == GLI_BROADCAST && !is_root(c)) return NULL;
  return (uint8_t *)buffers->out_image +
         c->in_at * gloo_dtype_size(c->call.dtype);
}

bool gli_case_fill(const gli_bench_case *c, const gli_bench_buffers *buffers) {
  if (c->call.collective == GLI_BARRIER) return true;
  memset(buffers->out_image, 0xa5, c->out_bytes);
  uint8_t *input = input_of(c, buffers);
  if (input) gli_period_fill(&c->input, input, 0, c->in_count);
  if (buffers->memory < GLI_BENCH_CUDA) return true;
  gloo_error error;
  gloo_status status = gli_gpu_copy_now(buffers->in, buffers->in_image,
                                        c->in_bytes, GLI_GPU_TO_DEVICE, &error);
  if (status == GLOO_OK)
    status = gli_gpu_copy_now(buffers->out, buffers->out_image, c->out_bytes,
                              GLI_GPU_TO_DEVICE, &error);
  return status == GLOO_OK || gpu_complains(c, &error);
}

enum { LINE_BYTES = 64 }; /* in most caches */

void gli_case_produce(const gli_bench_case *c,
                      const gli_bench_buffers *buffers) {
  volatile uint8_t *input = input_of(c, buffers);
  if (!input || buffers->memory >= GLI_BENCH_CUDA) return;
  size_t bytes = c->in_count * gloo_dtype_size(c->call.dtype);
  for (size_t i = 0; i < bytes; i += LINE_BYTES) {
    uint8_t same = input[i];
    input[i] = same;
  }
}

void gli_case_consume(const gli_bench_case *c,
                      const gli_bench_buffers *buffers) {
  if (c->call.collective == GLI_BARRIER) return;
  if (buffers->memory >= GLI_BENCH_CUDA) return;
  const volatile uint8_t *output = buffers->out;
  for (size_t i = 0; i < c->out_bytes; i += LINE_BYTES) (void)output[i];
}

/* ---- the check ----------------------------------------------------------- */

/* Checks that `out` holds elements [first, first + count) of `expected` from
 * element `at` on. */
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

/* Checks that a rank without a result finds its output unchanged. */
static bool check_untouched(const gli_bench_case *c, const void *out,
                            char where[GLI_CASE_WHERE]) {
  const uint8_t *bytes = out;
  if (gli_case_in_place(c)) {
    return check_range(c, &c->input, out, 0, 0, c->count, where);
  }
  for (size_t i = 0; i < c->out_bytes; i++) {
    if (bytes[i] == 0xa5) continue;
    snprintf(where, GLI_CASE_WHERE,
             "byte %zu of the output was written, on a rank without output", i);
    return false;
  }
  return true;
}

/* Checks a block from every rank, one after the other. */
static bool check_gathered(const gli_bench_case *c, const void *out,
                           char where[GLI_CASE_WHERE]) {
  gli_collective collective = c->call.collective;
  bool cut = collective == GLI_ALLTOALL || collective == GLI_ALLTOALLV;
  size_t at = 0;
  gli_period expected;
  for (int r = 0; r < c->ranks; r++) {
    size_t first = cut ? block_at(c, r, c->rank, false) : 0;
    size_t count = block_count(c, r, c->rank);
    gli_period_moved(&expected, c->call.dtype, r);
    if (!check_range(c, &expected, out, at, first, count, where)) return false;
    at += count;
  }
  return true;
}

/* Checks this rank's block of the root's input, or of a reduction. */
static bool check_own(const gli_bench_case *c, const void *out,
                      char where[GLI_CASE_WHERE]) {
  gli_collective collective = c->call.collective;
  bool scatters = collective == GLI_SCATTER || collective == GLI_SCATTERV;
  int from = scatters ? c->call.root : c->rank;
  size_t first = block_at(c, from, c->rank, false);
  size_t count = block_count(c, from, c->rank);
  size_t at = scatters && gli_case_in_place(c) ? first : 0;
  return check_range(c, &c->expected, out, at, first, count, where);
}

/* Returns true if the rank gets a result: only the root, all but rank 0, or
 * all. */
static bool has_result(const gli_bench_case *c) {
  switch (c->call.collective) {
    case GLI_REDUCE:
    case GLI_GATHER:
    case GLI_GATHERV:
      return is_root(c);
    case GLI_EXSCAN:
      return c->rank > 0;
    default:
      return true;
  }
}

bool gli_case_check(const gli_bench_case *c, const gli_bench_buffers *b,
                    char where[GLI_CASE_WHERE]) {
  gloo_error error;
  if (b->memory >= GLI_BENCH_CUDA &&
      gli_gpu_copy_now(b->out, b->out_image, c->out_bytes, GLI_GPU_TO_HOST,
                       &error) != GLOO_OK) {
    snprintf(where, GLI_CASE_WHERE, "%.*s", GLI_CASE_WHERE - 1, error.message);
    return false;
  }
  const void *out = b->out_image;
  if (!has_result(c)) return check_untouched(c, out, where);
  switch (c->call.collective) {
    case GLI_BARRIER:
      return true;
    case GLI_ALLGATHER:
    case GLI_ALLGATHERV:
    case GLI_GATHER:
    case GLI_GATHERV:
    case GLI_ALLTOALL:
    case GLI_ALLTOALLV:
      return check_gathered(c, out, where);
    case GLI_SCATTER:
    case GLI_SCATTERV:
    case GLI_REDUCE_SCATTER:
    case GLI_REDUCE_SCATTERV:
      return check_own(c, out, where);
    case GLI_SENDRECV:
      if (c->partner < 0) return true;
      break;
    default:
      break;
  }
  return check_range(c, &c->expected, out, 0, 0, c->count, where);
}
