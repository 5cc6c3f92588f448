/* The bits of results: all ranks get the same bits for any input. Algorithms
 * that keep the order of ranks give the bits of adding one input after the
 * other. Results that must not depend on the order do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/registry.h"
#include "executor.h"
#include "kernels/reduce.h"

/* ---- inputs -------------------------------------------------------------- */

typedef enum inputs {
  ANY_BITS, /* NaNs with any payload, infinities, subnormal numbers, zeros */
  SPECIAL,  /* few values: zeros of both signs, ones, NaNs, infinities */
  WILD,     /* very different magnitudes */
  KINDS
} inputs;

/* The bit fields of a number: sign, exponent, fraction. */
typedef struct format {
  gloo_dtype dtype;
  unsigned bytes, parts, exponent_bits;
} format;

static const format formats[] = {
    {GLOO_FLOAT16, 2, 1, 5},     {GLOO_BFLOAT16, 2, 1, 8},
    {GLOO_FLOAT32, 4, 1, 8},     {GLOO_FLOAT64, 8, 1, 11},
    {GLOO_COMPLEX64, 4, 2, 8},   {GLOO_COMPLEX128, 8, 2, 11},
    {GLOO_FLOAT8_E5M2, 1, 1, 5}, {GLOO_FLOAT8_E4M3FN, 1, 1, 4}};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

static void put_part(uint8_t *at, const format *f, uint64_t bits) {
  uint64_t wide = bits;
  uint32_t single = (uint32_t)bits;
  uint16_t half = (uint16_t)bits;
  if (f->bytes == 8) memcpy(at, &wide, 8);
  if (f->bytes == 4) memcpy(at, &single, 4);
  if (f->bytes == 2) memcpy(at, &half, 2);
  if (f->bytes == 1) *at = (uint8_t)bits;
}

static uint64_t draw(const format *f, inputs kind, uint64_t *seed) {
  unsigned bits = 8 * f->bytes, fraction = bits - 1 - f->exponent_bits;
  uint64_t random = world_random(seed), top = (uint64_t)1 << (bits - 1);
  uint64_t ones = ((uint64_t)1 << f->exponent_bits) - 1;
  uint64_t mantissa = random >> 8 & (((uint64_t)1 << fraction) - 1);
  uint64_t sign = random & 1 ? top : 0, middle = ones / 2;
  if (kind == ANY_BITS) return random;
  if (kind == SPECIAL) {
    const uint64_t values[] = {0,
                               middle << fraction,
                               ones << fraction,
                               ones << fraction | 1,
                               ones << fraction | (mantissa >> 1) | 1,
                               1};
    return sign |
           values[random >> 1 & 3 ? (random >> 3) % 2 : (random >> 3) % 6];
  }
  /* Exponents around that of 1.0, far enough apart to lose most of a sum. */
  uint64_t spread = middle / 4 > 0 ? middle / 4 : 1;
  uint64_t exponent = middle - spread + (random >> 1) % (2 * spread);
  return sign | exponent << fraction | mantissa;
}

static uint8_t *input_of(const world_rank *r) {
  return r->plan->params.in_place ? r->out : r->in;
}

static void fill(const world *w, const format *f, inputs kind, uint64_t seed) {
  for (uint32_t i = 0; i < w->size; i++) {
    uint64_t parts = w->ranks[i].plan->in_bytes / f->bytes;
    uint8_t *in = input_of(&w->ranks[i]);
    for (uint64_t k = 0; k < parts; k++)
      put_part(in + k * f->bytes, f, draw(f, kind, &seed));
  }
}

/* ---- expected results ---------------------------------------------------- */

typedef struct wanted {
  uint8_t **up_to; /* [size] inputs up to this rank's, added one by one */
  uint8_t *all;    /* all added at once; NULL: as up_to */
} wanted;

static uint8_t *copy_of(const uint8_t *from, uint64_t bytes) {
  uint8_t *copy = malloc((size_t)bytes + 1);
  assert_non_null(copy);
  memcpy(copy, from, (size_t)bytes);
  return copy;
}

static wanted make_wanted(const world *w, gloo_dtype dtype, gloo_op op) {
  gli_reduce_fn reduce = gli_reduce_kernel(dtype, op);
  gli_combine_fn combine = gli_combine_kernel(dtype, op);
  uint64_t bytes = w->ranks[0].plan->in_bytes;
  size_t count = (size_t)(bytes / gloo_dtype_size(dtype));
  wanted want = {calloc(w->size, sizeof(*want.up_to)), NULL};
  const void **in = calloc(w->size, sizeof(*in));
  assert_true(want.up_to != NULL && in != NULL);
  for (uint32_t i = 0; i < w->size; i++) {
    in[i] = input_of(&w->ranks[i]);
    want.up_to[i] = copy_of(in[i], bytes);
    if (i > 0) reduce(want.up_to[i], want.up_to[i - 1], in[i], count);
  }
  want.all = copy_of(in[0], bytes);
  void *dst = want.all;
  combine(&dst, 1, in, w->size, count, 0);
  free(in);
  return want;
}

static void free_wanted(wanted *want, uint32_t size) {
  for (uint32_t i = 0; i < size; i++) free(want->up_to[i]);
  free(want->up_to);
  free(want->all);
}

/* Returns the expected result of the rank; NULL: undefined. */
static const uint8_t *result_of(const wanted *want, const gli_plan_params *p) {
  uint64_t block = p->count * p->elem_bytes;
  switch (p->collective) {
    case GLI_SCAN:
      return want->up_to[p->rank];
    case GLI_EXSCAN:
      return p->rank > 0 ? want->up_to[p->rank - 1] : NULL;
    case GLI_REDUCE_SCATTER:
      return want->all + p->rank * block;
    case GLI_REDUCE:
      return p->rank == p->root ? want->all : NULL;
    default:
      return want->all;
  }
}

/* ---- one case ------------------------------------------------------------ */

typedef struct subject {
  const gli_algorithm *algorithm;
  const format *format;
  gloo_op op;
  inputs kind;
} subject;

static bool all_equal(const world *w, uint64_t bytes) {
  for (uint32_t i = 1; i < w->size; i++) {
    if (memcmp(w->ranks[0].out, w->ranks[i].out, (size_t)bytes) != 0) {
      printf("# ranks 0 and %u have different bits\n", i);
      return false;
    }
  }
  return true;
}

static bool is_right(const world *w, const wanted *want, uint64_t bytes) {
  for (uint32_t i = 0; i < w->size; i++) {
    const uint8_t *result = result_of(want, &w->ranks[i].plan->params);
    if (result == NULL) continue;
    if (memcmp(w->ranks[i].out, result, (size_t)bytes) == 0) continue;
    printf("# rank %u has other bits than in the order of ranks\n", i);
    return false;
  }
  return true;
}

static void run_case(const subject *s, gli_plan_params p, world_layout layout,
                     uint64_t seed) {
  const gli_algorithm *a = s->algorithm;
  uint64_t bytes = p.count * p.elem_bytes;
  world w;
  p.collective = a->collective;
  p.low_precision =
      s->format->bytes * s->format->parts < 4 && gli_op_rounds(s->op);
  assert_true(world_open(&w, a->build, p, layout, seed));
  w.reach = (world_mapping)(seed % 3);
  w.combine = gli_combine_kernel(s->format->dtype, s->op);
  fill(&w, s->format, s->kind, seed);
  wanted want = make_wanted(&w, s->format->dtype, s->op);
  bool exact =
      !gli_op_rounds(s->op) || gli_algorithm_order(a) == GLI_ORDER_FOLD;
  bool right = world_run(&w, gli_reduce_kernel(s->format->dtype, s->op),
                         WORLD_ALL, seed);
  right = right && (a->collective != GLI_ALLREDUCE || all_equal(&w, bytes));
  right = right && (!exact || is_right(&w, &want, bytes));
  free_wanted(&want, w.size);
  world_close(&w);
  if (right) return;
  fail_msg("%s %s of %u ranks, root %u, %s of %s, inputs %d, layout %d",
           gli_collective_name(a->collective), a->name, p.size, p.root,
           gloo_op_name(s->op), gloo_dtype_name(s->format->dtype), (int)s->kind,
           (int)layout);
}

static void run_sizes(const subject *s) {
  static uint64_t seed;
  for (uint32_t size = 2; size <= 8; size++) {
    gli_plan_params p = {.size = size,
                         .root = size / 2,
                         .count = 2 * size + 3,
                         .elem_bytes = s->format->bytes * s->format->parts};
    if (seed % 2 != 0) p.segment_bytes = 3 * p.elem_bytes;
    run_case(s, p, (world_layout)(seed % 3), seed);
    seed++;
  }
}

static void run_format(const format *f, gloo_op op) {
  if (gli_reduce_kernel(f->dtype, op) == NULL) return;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (!gli_collective_reduces(a->collective)) continue;
    if (gli_collective_counted(a->collective)) continue;
    for (int kind = 0; kind < KINDS; kind++) {
      subject s = {a, f, op, (inputs)kind};
      run_sizes(&s);
    }
  }
}

/* ---- all cases ----------------------------------------------------------- */

static void sums_have_the_same_bits_on_all_ranks(void **state) {
  (void)state;
  for (size_t i = 0; i < N_FORMATS; i++) run_format(&formats[i], GLOO_SUM);
}

static void products_have_the_same_bits_on_all_ranks(void **state) {
  (void)state;
  for (size_t i = 0; i < N_FORMATS; i++) run_format(&formats[i], GLOO_PRODUCT);
}

static void no_order_shows_in_min_and_max(void **state) {
  (void)state;
  for (size_t i = 0; i < N_FORMATS; i++) {
    run_format(&formats[i], GLOO_MIN);
    run_format(&formats[i], GLOO_MAX);
  }
}

/* The tests above rely on this: with these inputs the order of additions
 * changes the result, and so does the time of rounding of low-precision
 * floats. */
static void the_inputs_tell_orders_apart(void **state) {
  (void)state;
  const gli_algorithm *ring = gli_algorithm_find(GLI_ALLREDUCE, "ring");
  for (size_t i = 0; i < N_FORMATS; i++) {
    const format *f = &formats[i];
    gli_plan_params p = {.collective = GLI_ALLREDUCE,
                         .size = 5,
                         .count = 200,
                         .elem_bytes = f->bytes * f->parts};
    world w;
    assert_true(world_open(&w, ring->build, p, WORLD_APART, 7));
    fill(&w, f, WILD, 7);
    wanted want = make_wanted(&w, f->dtype, GLOO_SUM);
    size_t bytes = (size_t)(p.count * p.elem_bytes);
    assert_true(
        world_run(&w, gli_reduce_kernel(f->dtype, GLOO_SUM), WORLD_ALL, 7));
    assert_memory_not_equal(w.ranks[0].out, want.up_to[4], bytes);
    if (p.elem_bytes < 4) {
      assert_memory_not_equal(want.all, want.up_to[4], bytes);
    } else {
      assert_memory_equal(want.all, want.up_to[4], bytes);
    }
    free_wanted(&want, w.size);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_have_the_same_bits_on_all_ranks),
      cmocka_unit_test(products_have_the_same_bits_on_all_ranks),
      cmocka_unit_test(no_order_shows_in_min_and_max),
      cmocka_unit_test(the_inputs_tell_orders_apart),
  };
  return cmocka_run_group_tests_name("algorithms/bits", tests, NULL, NULL);
}
