/* Every many-operand kernel of every variant against the oracle, and copies
 * around the caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "kernels/reduce_kernel.h"
#include "values.h"

#define MOST ((size_t)9)      /* number of sources and of destinations */
#define LENGTH ((size_t)2600) /* elements: more than one block of any type */
#define GUARD_BYTES ((size_t)64)
#define GUARD 0xa5
#define AREA_BYTES (LENGTH * 16 + 3 * GUARD_BYTES)

/* Layout of sources and destinations: an area each, at any alignment; a
 * destination may coincide with a source. */
typedef struct layout {
  size_t n_srcs, n_dsts, count;
  size_t shift;     /* offset of the first area; the others follow at odd
                       distances */
  bool in_place;    /* destination k is source k, if that exists */
  bool same_source; /* all sources are the same */
} layout;

typedef struct arena {
  uint8_t *srcs[MOST], *dsts[MOST], *expected;
} arena;

static arena make_arena(void) {
  arena a = {.expected = malloc(AREA_BYTES)};
  assert_non_null(a.expected);
  for (size_t i = 0; i < MOST; i++) {
    a.srcs[i] = malloc(AREA_BYTES);
    a.dsts[i] = malloc(AREA_BYTES);
    assert_true(a.srcs[i] != NULL && a.dsts[i] != NULL);
  }
  return a;
}

static void free_arena(arena *a) {
  free(a->expected);
  for (size_t i = 0; i < MOST; i++) {
    free(a->srcs[i]);
    free(a->dsts[i]);
  }
}

static void fill(const arena *a, const layout *l, gloo_dtype dtype, gloo_op op,
                 uint8_t *srcs[]) {
  size_t bytes = gloo_dtype_size(dtype);
  uint64_t seed = 99194853094755497u + l->count * 31 + l->n_srcs;
  for (size_t s = 0; s < l->n_srcs; s++) {
    uint8_t *area = a->srcs[l->same_source ? 0 : s];
    memset(area, GUARD, AREA_BYTES);
    srcs[s] = area + GUARD_BYTES + (l->shift + 3 * s) % GUARD_BYTES;
    if (l->same_source) srcs[s] = srcs[0];
  }
  for (size_t i = 0; i < l->count; i++) {
    oracle_value operands[MOST];
    for (size_t s = 0; s < l->n_srcs; s++) {
      operands[s] = value_any(dtype, &seed);
      if (l->same_source) operands[s] = operands[0];
      value_put(srcs[s] + i * bytes, dtype, operands[s]);
    }
    value_put(a->expected + i * bytes, dtype,
              oracle_combine(dtype, op, operands, l->n_srcs));
  }
}

static void check(const uint8_t *at, const uint8_t *expected, size_t bytes) {
  assert_memory_equal(at, expected, bytes);
  for (size_t i = 1; i <= GUARD_BYTES / 2; i++) {
    assert_int_equal(at[-(ptrdiff_t)i], GUARD);
    assert_int_equal(at[bytes + i - 1], GUARD);
  }
}

static void run(const arena *a, const layout *l, gloo_dtype dtype, gloo_op op,
                gli_combine_fn fn, uint64_t streamed) {
  uint8_t *srcs[MOST], *dsts[MOST];
  size_t bytes = l->count * gloo_dtype_size(dtype);
  fill(a, l, dtype, op, srcs);
  for (size_t d = 0; d < l->n_dsts; d++) {
    memset(a->dsts[d], GUARD, AREA_BYTES);
    dsts[d] = a->dsts[d] + GUARD_BYTES + (l->shift + 5 * d) % GUARD_BYTES;
    if (l->in_place && d < l->n_srcs) dsts[d] = srcs[d];
  }
  fn((void *const *)dsts, l->n_dsts, (const void *const *)srcs, l->n_srcs,
     l->count, streamed);
  for (size_t d = 0; d < l->n_dsts; d++) check(dsts[d], a->expected, bytes);
}

/* All, none, the first, the others. */
static const uint64_t STREAMED[] = {GLI_STREAM_ALL, 0, 1, ~UINT64_C(1)};
#if defined(EMULATED)
enum { WAYS = 1 };
#else
enum { WAYS = sizeof STREAMED / sizeof STREAMED[0] };
#endif

static void run_all_ways(const arena *a, layout l, gloo_dtype dtype, gloo_op op,
                         gli_combine_fn fn) {
  for (int in_place = 0; in_place < 2; in_place++) {
    l.in_place = in_place != 0;
    for (int way = 0; way < WAYS; way++)
      run(a, &l, dtype, op, fn, STREAMED[way]);
  }
}

static void all_shapes(const arena *a, gloo_dtype dtype, gloo_op op,
                       gli_combine_fn fn) {
  for (size_t s = 1; s <= MOST; s++) {
    for (size_t d = 1; d <= MOST; d++) {
      layout l = {.n_srcs = s, .n_dsts = d, .count = 67 + d, .shift = s * d};
      run_all_ways(a, l, dtype, op, fn);
    }
  }
}

static void all_tails(const arena *a, gloo_dtype dtype, gloo_op op,
                      gli_combine_fn fn) {
  for (size_t count = 0; count <= 70; count++) {
    for (size_t s = 1; s <= 4; s++) {
      layout l = {.n_srcs = s, .n_dsts = 1 + count % 3, .count = count};
      l.shift = (count * 5 + s) % GUARD_BYTES;
      run_all_ways(a, l, dtype, op, fn);
    }
  }
}

static void several_blocks(const arena *a, gloo_dtype dtype, gloo_op op,
                           gli_combine_fn fn) {
  static const size_t sources[] = {1, 2, 3, 8};
  for (size_t i = 0; i < 4; i++) {
    layout l = {.n_srcs = sources[i], .n_dsts = 1 + i % 2, .count = LENGTH - i};
    l.shift = i * 4;
    run_all_ways(a, l, dtype, op, fn);
  }
}

static void one_source_many_times(const arena *a, gloo_dtype dtype, gloo_op op,
                                  gli_combine_fn fn) {
  for (size_t s = 2; s <= 4; s++) {
    layout l = {.n_srcs = s, .n_dsts = 2, .count = 77, .same_source = true};
    for (int way = 0; way < WAYS; way++)
      run(a, &l, dtype, op, fn, STREAMED[way]);
  }
}

static void combining_matches_the_oracle(void **state) {
  gloo_dtype dtype = (gloo_dtype)(uintptr_t)*state;
  arena a = make_arena();
  for (size_t v = 0; v < gli_reduce_variant_count; v++) {
    const gli_reduce_variant *variant = &gli_reduce_variants[v];
    if (!variant->usable()) continue;
    for (int i = 0; i < GLOO_OP_COUNT; i++) {
      gloo_op op = (gloo_op)i;
      gli_combine_fn fn = gli_reduce_variant_combine(variant, dtype, op);
      assert_int_equal(fn != NULL, oracle_supports(dtype, op));
      if (fn == NULL) continue;
      all_shapes(&a, dtype, op, fn);
      all_tails(&a, dtype, op, fn);
      several_blocks(&a, dtype, op, fn);
      one_source_many_times(&a, dtype, op, fn);
    }
  }
  free_arena(&a);
}

/* Long vectors are cut into different blocks than short ones; the result must
 * be the same. */
static void check_long(gloo_dtype dtype, gloo_op op, uint64_t streamed) {
  enum { SRCS = 5, DSTS = 2, PIECE = 1001 };
  size_t elem = gloo_dtype_size(dtype);
  size_t count = ((size_t)9 << 20) / (SRCS + DSTS) / elem + 333;
  gli_combine_fn fn = gli_combine_kernel(dtype, op);
  uint8_t *srcs[SRCS], *dsts[DSTS], *expected = malloc(count * elem);
  uint64_t seed = 1181783497276652981u;
  assert_non_null(expected);
  for (size_t s = 0; s < SRCS; s++) {
    srcs[s] = malloc(count * elem);
    assert_non_null(srcs[s]);
    for (size_t i = 0; i < count; i++) {
      value_put(srcs[s] + i * elem, dtype, value_any(dtype, &seed));
    }
  }
  for (size_t done = 0; done < count; done += PIECE) {
    const void *at[SRCS];
    void *to = expected + done * elem;
    size_t n = count - done < PIECE ? count - done : PIECE;
    for (size_t s = 0; s < SRCS; s++) at[s] = srcs[s] + done * elem;
    fn(&to, 1, at, SRCS, n, 0);
  }
  dsts[0] = srcs[3];
  dsts[1] = malloc(count * elem);
  assert_non_null(dsts[1]);
  fn((void *const *)dsts, DSTS, (const void *const *)srcs, SRCS, count,
     streamed);
  assert_memory_equal(dsts[0], expected, count * elem);
  assert_memory_equal(dsts[1], expected, count * elem);
  for (size_t s = 0; s < SRCS; s++) free(srcs[s]);
  free(dsts[1]);
  free(expected);
}

static void long_vectors_combine_like_short_ones(void **state) {
  (void)state;
  for (int way = 0; way < WAYS; way++) {
    check_long(GLOO_FLOAT32, GLOO_SUM, STREAMED[way]);
    check_long(GLOO_BFLOAT16, GLOO_SUM, STREAMED[way]);
    check_long(GLOO_FLOAT16, GLOO_PRODUCT, STREAMED[way]);
    check_long(GLOO_FLOAT8_E5M2, GLOO_SUM, STREAMED[way]);
    check_long(GLOO_FLOAT8_E5M2, GLOO_AVERAGE, STREAMED[way]);
    check_long(GLOO_BFLOAT16, GLOO_AVERAGE, STREAMED[way]);
    check_long(GLOO_FLOAT32, GLOO_AVERAGE, STREAMED[way]);
    check_long(GLOO_COMPLEX128, GLOO_AVERAGE, STREAMED[way]);
    check_long(GLOO_COMPLEX128, GLOO_PRODUCT, STREAMED[way]);
  }
}

static void many_destinations_are_all_written(void **state) {
  enum { DSTS = 130, COUNT = 333 };
  static float a[COUNT], b[COUNT], out[DSTS][COUNT];
  gli_combine_fn fn = gli_combine_kernel(GLOO_FLOAT32, GLOO_SUM);
  const void *srcs[] = {a, b, a};
  void *dsts[DSTS];
  (void)state;
  for (size_t i = 0; i < COUNT; i++) a[i] = (float)i, b[i] = (float)(3 * i);
  for (size_t d = 0; d < DSTS; d++) dsts[d] = out[d];
  for (size_t n_srcs = 1; n_srcs <= 3; n_srcs++) {
    for (int way = 0; way < WAYS; way++) {
      memset(out, GUARD, sizeof out);
      fn(dsts, DSTS, srcs, n_srcs, COUNT, STREAMED[way]);
      for (size_t d = 0; d < DSTS; d++) {
        for (size_t i = 0; i < COUNT; i++) {
          size_t times = n_srcs == 1 ? 1 : n_srcs + 2;
          assert_true(out[d][i] == (float)(times * i));
        }
      }
    }
  }
}

static void what_cannot_be_reduced_cannot_be_combined(void **state) {
  (void)state;
  for (int d = -1; d <= GLOO_DTYPE_COUNT; d++) {
    for (int o = -1; o <= GLOO_OP_COUNT; o++) {
      gloo_dtype dtype = (gloo_dtype)d;
      gloo_op op = (gloo_op)o;
      assert_int_equal(gli_combine_kernel(dtype, op) != NULL,
                       gli_reduce_kernel(dtype, op) != NULL);
    }
  }
}

static void streams_copy_every_byte(void **state) {
  static uint8_t from[4096 + 128], to[4096 + 128];
  (void)state;
  for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 7 + i / 256);
  for (size_t shift = 0; shift < 64; shift++) {
    for (size_t bytes = 0; bytes <= 300; bytes += 1 + bytes / 130) {
      uint8_t *dst = to + GUARD_BYTES + shift;
      memset(to, GUARD, bytes + 3 * GUARD_BYTES);
      gli_copy_nontemporal(dst, from + shift * 3 % 61, bytes);
      check(dst, from + shift * 3 % 61, bytes);
    }
  }
  memset(to, GUARD, sizeof to);
  gli_copy_nontemporal(to + 70, from + 1, 3900);
  check(to + 70, from + 1, 3900);
  gli_copy_nontemporal(to + 70, to + 70, 3900);
  check(to + 70, from + 1, 3900);
}

int main(void) {
  static char names[GLOO_DTYPE_COUNT][64];
  struct CMUnitTest tests[GLOO_DTYPE_COUNT + 4] = {
      [GLOO_DTYPE_COUNT] =
          cmocka_unit_test(what_cannot_be_reduced_cannot_be_combined),
      [GLOO_DTYPE_COUNT + 1] = cmocka_unit_test(streams_copy_every_byte),
      [GLOO_DTYPE_COUNT + 2] =
          cmocka_unit_test(long_vectors_combine_like_short_ones),
      [GLOO_DTYPE_COUNT + 3] =
          cmocka_unit_test(many_destinations_are_all_written),
  };
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    snprintf(names[d], sizeof names[d], "%s_combining_matches_the_oracle",
             gloo_dtype_name((gloo_dtype)d));
    tests[d].name = names[d];
    tests[d].test_func = combining_matches_the_oracle;
    tests[d].initial_state = (void *)(uintptr_t)d;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
