/* Calls, inputs and expected outputs of simulated jobs. */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "kernels/reduce.h"

uint64_t script_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* ---- drawing calls ------------------------------------------------------- */

static uint64_t draw(uint64_t *r, uint64_t n) {
  return script_random(r) % n;
}

static uint64_t draw_count(const script *s, uint64_t *r) {
  uint64_t ranks = s->ranks;
  if (s->heavy && draw(r, 4)) return 10000 + draw(r, 60000);
  switch (draw(r, 12)) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return ranks - 1;
    case 3:
      return ranks;
    case 4:
      return ranks + 1;
    case 5:
    case 6:
      return 200 + draw(r, 3000);
    default:
      return draw(r, 100);
  }
}

static const char *draw_algorithm(uint64_t *r, gli_collective collective) {
  const char *found = NULL;
  uint64_t n = 0;
  if (draw(r, 4) == 0) return NULL;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective != collective) continue;
    if (draw(r, ++n) == 0) found = gli_algorithms[i].name;
  }
  return found;
}

/* Returns true for 8-bit floats, whose sums are rounded and so depend on the
 * order of ranks. */
static bool is_coarse(gloo_dtype dtype) {
  return dtype == GLOO_FLOAT8_E4M3FN || dtype == GLOO_FLOAT8_E5M2;
}

/* Makes the message receivable by any receive: all such messages are alike. */
static void take_from_any(const script *s, script_call *c) {
  c->any = true;
  c->tag = SCRIPT_ANY_TAG;
  c->dtype = GLOO_UINT8;
  c->count = 100 + s->seed % 50 * (s->heavy ? 20000 : 40) + c->to;
}

static void draw_call(script *s, int index, uint64_t *r) {
  script_call *c = &s->calls[index];
  *c = (script_call){.again_of = -1};
  do {
    c->collective = (gli_collective)draw(r, GLI_COLLECTIVES);
  } while (gli_collective_counted(c->collective));
  c->count = draw_count(s, r);
  do {
    c->dtype = (gloo_dtype)draw(r, GLOO_DTYPE_COUNT);
    c->op = (gloo_op)draw(r, GLOO_OP_COUNT);
  } while (c->op == GLOO_AVERAGE || is_coarse(c->dtype) ||
           gli_reduce_kernel(c->dtype, c->op) == NULL);
  c->root = (uint32_t)draw(r, s->ranks);
  c->tag = (uint32_t)draw(r, 3);
  bool at_root = c->collective == GLI_GATHER || c->collective == GLI_SCATTER;
  c->in_place = draw(r, 3) == 0 && !at_root;
  if (c->collective == GLI_SENDRECV) {
    c->from = (uint32_t)draw(r, s->ranks);
    c->to = (uint32_t)draw(r, s->ranks);
    c->in_place = false;
    c->any = draw(r, 3) == 0;
    if (c->any) take_from_any(s, c);
    return;
  }
  c->algorithm = draw_algorithm(r, c->collective);
}

void script_make(script *s, uint64_t seed) {
  uint64_t r = seed * 2 + 1;
  *s = (script){.seed = seed};
  s->ranks = 1 + (uint32_t)draw(&r, SCRIPT_RANKS_MAX);
  s->heavy = draw(&r, 24) == 0;
  if (s->heavy) s->ranks = 2 + (uint32_t)draw(&r, 2);
  s->n_calls = 1 + (int)draw(&r, SCRIPT_CALLS_MAX);
  for (int i = 0; i < s->n_calls; i++) {
    int old = (int)draw(&r, 4 * (uint64_t)i + 4);
    if (old < i && s->calls[old].again_of < 0 && !s->calls[old].any) {
      s->calls[i] = s->calls[old];
      s->calls[i].again_of = old;
    } else {
      draw_call(s, i, &r);
    }
  }
}

void script_have_one_message(script *s, uint32_t from, uint32_t to) {
  s->n_calls = 1;
  s->calls[0] = (script_call){
      .again_of = -1, .collective = GLI_SENDRECV, .from = from, .to = to};
  take_from_any(s, &s->calls[0]);
}

void script_free(script *s) {
  for (int i = 0; i < s->n_calls; i++) {
    free(s->calls[i].expected);
    s->calls[i].expected = NULL;
  }
}

/* ---- shapes -------------------------------------------------------------- */

bool script_involves(const script_call *c, uint32_t rank) {
  if (c->collective != GLI_SENDRECV) return true;
  return c->from == rank || c->to == rank;
}

static size_t vector_bytes(const script_call *c) {
  return (size_t)c->count * gloo_dtype_size(c->dtype);
}

size_t script_in_bytes(const script *s, const script_call *c, uint32_t rank) {
  switch (c->collective) {
    case GLI_BARRIER:
      return 0;
    case GLI_BROADCAST:
      return rank == c->root ? vector_bytes(c) : 0;
    case GLI_REDUCE_SCATTER:
    case GLI_ALLTOALL:
      return s->ranks * vector_bytes(c);
    case GLI_SCATTER:
      return rank == c->root ? s->ranks * vector_bytes(c) : 0;
    case GLI_SENDRECV:
      return rank == c->from ? vector_bytes(c) : 0;
    default:
      break;
  }
  return vector_bytes(c);
}

size_t script_out_bytes(const script *s, const script_call *c, uint32_t rank) {
  switch (c->collective) {
    case GLI_BARRIER:
      return 0;
    case GLI_ALLGATHER:
    case GLI_ALLTOALL:
      return s->ranks * vector_bytes(c);
    case GLI_REDUCE_SCATTER:
      return c->in_place ? s->ranks * vector_bytes(c) : vector_bytes(c);
    case GLI_GATHER:
      return rank == c->root ? s->ranks * vector_bytes(c) : 0;
    case GLI_REDUCE:
      return rank == c->root || c->in_place ? vector_bytes(c) : 0;
    case GLI_SENDRECV:
      return rank == c->to ? vector_bytes(c) : 0;
    default:
      break;
  }
  return vector_bytes(c);
}

size_t script_in_place_offset(const script_call *c, uint32_t rank) {
  return c->collective == GLI_ALLGATHER ? rank * vector_bytes(c) : 0;
}

/* ---- contents ------------------------------------------------------------ */

/* Small whole numbers, so that every order of additions gives the same bits. */
static void put_small(uint8_t *at, gloo_dtype dtype, unsigned value) {
  static const uint16_t halves[] = {0x0000, 0x3c00, 0x4000, 0x4200};
  static const uint16_t brains[] = {0x0000, 0x3f80, 0x4000, 0x4040};
  size_t bytes = gloo_dtype_size(dtype);
  uint64_t whole = value;
  float single = (float)value;
  double twice = value;
  float single_complex[2] = {single, 0};
  double twice_complex[2] = {twice, 0};
  const void *from = &whole;
  uint8_t v8 = (uint8_t)value;
  uint16_t v16 = (uint16_t)value;
  uint32_t v32 = value;
  if (bytes == 1) from = &v8;
  if (bytes == 2) from = &v16;
  if (bytes == 4) from = &v32;
  if (dtype == GLOO_FLOAT16) from = &halves[value];
  if (dtype == GLOO_BFLOAT16) from = &brains[value];
  if (dtype == GLOO_FLOAT32) from = &single;
  if (dtype == GLOO_FLOAT64) from = &twice;
  if (dtype == GLOO_COMPLEX64) from = single_complex;
  if (dtype == GLOO_COMPLEX128) from = twice_complex;
  memcpy(at, from, bytes);
}

void script_input(const script *s, int call, uint32_t rank, void *data) {
  const script_call *c = &s->calls[call];
  uint8_t *at = data;
  size_t bytes = script_in_bytes(s, c, rank);
  uint64_t r = s->seed * 1000003 + (uint64_t)call * 1009 + rank;
  if (!gli_collective_reduces(c->collective)) {
    for (size_t i = 0; i < bytes; i++) {
      if (i % 8 == 0) script_random(&r);
      at[i] = (uint8_t)(r >> (i % 8 * 8));
    }
    return;
  }
  size_t elem = gloo_dtype_size(c->dtype);
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes / elem; i++) {
    if (i % 32 == 0) bits = script_random(&r);
    unsigned value = (unsigned)(bits & 3);
    bits >>= 2;
    if (c->op == GLOO_PRODUCT) value = 1 + (value & 1);
    put_small(at + i * elem, c->dtype, value);
  }
}

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes + 1);
  if (memory == NULL) abort();
  return memory;
}

static uint8_t *reduced(const script *s, int call) {
  const script_call *c = &s->calls[call];
  size_t bytes = script_in_bytes(s, c, 0);
  uint8_t *sum = allocate(bytes), *next = allocate(bytes);
  gli_reduce_fn fn = gli_reduce_kernel(c->dtype, c->op);
  script_input(s, call, 0, sum);
  for (uint32_t rank = 1; rank < s->ranks; rank++) {
    script_input(s, call, rank, next);
    fn(sum, sum, next, bytes / gloo_dtype_size(c->dtype));
  }
  free(next);
  return sum;
}

/* Returns the sums of the inputs up to rank 0, up to rank 1, ... */
static uint8_t *scanned(const script *s, int call) {
  const script_call *c = &s->calls[call];
  size_t each = vector_bytes(c);
  uint8_t *sums = allocate(each * s->ranks), *next = allocate(each);
  gli_reduce_fn fn = gli_reduce_kernel(c->dtype, c->op);
  script_input(s, call, 0, sums);
  for (uint32_t rank = 1; rank < s->ranks; rank++) {
    script_input(s, call, rank, next);
    fn(sums + rank * each, sums + (rank - 1) * each, next,
       each / gloo_dtype_size(c->dtype));
  }
  free(next);
  return sums;
}

static uint8_t *gathered(const script *s, int call) {
  size_t each = vector_bytes(&s->calls[call]);
  uint8_t *all = allocate(each * s->ranks);
  for (uint32_t rank = 0; rank < s->ranks; rank++) {
    script_input(s, call, rank, all + rank * each);
  }
  return all;
}

/* Returns all ranks' blocks for rank 0, then those for rank 1, ... */
static uint8_t *transposed(const script *s, int call) {
  size_t each = vector_bytes(&s->calls[call]), row = each * s->ranks;
  uint8_t *all = allocate(row * s->ranks), *input = allocate(row);
  for (uint32_t rank = 0; rank < s->ranks; rank++) {
    script_input(s, call, rank, input);
    for (uint32_t to = 0; to < s->ranks; to++) {
      memcpy(all + to * row + rank * each, input + to * each, each);
    }
  }
  free(input);
  return all;
}

static uint8_t *sent_by(const script *s, int call, uint32_t rank) {
  uint8_t *data = allocate(script_in_bytes(s, &s->calls[call], rank));
  script_input(s, call, rank, data);
  return data;
}

static uint8_t *compute(const script *s, int call) {
  const script_call *c = &s->calls[call];
  switch (c->collective) {
    case GLI_ALLREDUCE:
    case GLI_REDUCE:
    case GLI_REDUCE_SCATTER:
      return reduced(s, call);
    case GLI_SCAN:
    case GLI_EXSCAN:
      return scanned(s, call);
    case GLI_ALLGATHER:
    case GLI_GATHER:
      return gathered(s, call);
    case GLI_ALLTOALL:
      return transposed(s, call);
    case GLI_BROADCAST:
    case GLI_SCATTER:
      return sent_by(s, call, c->root);
    case GLI_SENDRECV:
      return sent_by(s, call, c->from);
    default:
      break;
  }
  return allocate(0);
}

const uint8_t *script_expected(script *s, int call, uint32_t rank,
                               size_t *bytes) {
  script_call *c = &s->calls[call];
  if (c->expected == NULL) c->expected = compute(s, call);
  *bytes = script_out_bytes(s, c, rank);
  bool none = (c->collective == GLI_REDUCE && rank != c->root) ||
              (c->collective == GLI_EXSCAN && rank == 0);
  if (none) *bytes = 0;
  if (none) return c->expected;
  switch (c->collective) {
    case GLI_ALLTOALL:
    case GLI_SCATTER:
    case GLI_SCAN:
      return c->expected + rank * *bytes;
    case GLI_EXSCAN:
      return c->expected + (rank - 1) * *bytes;
    case GLI_REDUCE_SCATTER:
      break;
    default:
      return c->expected;
  }
  *bytes = vector_bytes(c); /* the rest is undefined when in place */
  return c->expected + rank * *bytes;
}

int script_nth_any(const script *s, uint32_t from, uint32_t to, int k) {
  for (int i = 0; i < s->n_calls; i++) {
    const script_call *c = &s->calls[i];
    if (!c->any || c->from != from || c->to != to) continue;
    if (k-- == 0) return i;
  }
  return -1;
}

void script_describe(const script *s, int call, char text[160]) {
  const script_call *c = &s->calls[call];
  snprintf(
      text, 160,
      "call %d of %d (%s, %s, %llu x %s, %s, tag %u, root %u, %u to %u%s%s)",
      call, s->n_calls, gli_collective_name(c->collective),
      c->algorithm ? c->algorithm : "-", (unsigned long long)c->count,
      gloo_dtype_name(c->dtype), gloo_op_name(c->op), c->tag, c->root, c->from,
      c->to, c->in_place ? ", in place" : "",
      c->again_of >= 0 ? ", again" : "");
}
