/* The conformance matrix. Usage:
 *
 *   test_matrix TRANSPORT              the core, and a sample
 *   test_matrix TRANSPORT --sample=N   the core, and a sample of N cases
 *   test_matrix TRANSPORT --product --ranks=P --counts=A-B --shard=K/N
 *                                      shard K of N of the full product, for
 *                                      cases with A to B elements;
 *                                      scripts/product runs all shards in turn
 *   test_matrix TRANSPORT --gpus       the core and a sample, with buffers in
 *                                      GPU memory, on up to 4 ranks;
 *                                      --shard=K/N: shard K of N of these
 *   test_matrix --count                the number of cases
 *   test_matrix CASE                   one case, as printed by a failed run
 *
 * GLOO_MATRIX_SEED draws another sample. */
#include <stdio.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>

#include "core/environment.h"
#include "core/oracle.h"
#include "cuda/gpu.h"
#include "kernels/reduce.h"
#include "matrix.h"
#include "ranks/sanitized.h"

enum { SAMPLE = SANITIZED ? 300 : 3000, SOME = 500 };

static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 13, 16};
enum { SIZES = sizeof sizes / sizeof *sizes, SETS = SIZES * MATRIX_SETS };

static struct settings {
  const char *transport;
  uint64_t seed;
  size_t sample;
  bool product, gpus;
  int ranks; /* 0: all */
  size_t shard, shards;
  uint32_t least, most; /* elements */
} settings;

/* ---- coverage ------------------------------------------------------------ */

enum { MOST_ROWS = 512 };
static size_t cells[MOST_ROWS][SIZES], ran, refused, left_out;

static int place_of(int size) {
  for (int i = 0; i < SIZES; i++) {
    if (sizes[i] == size) return i;
  }
  return 0;
}

static void print_cells(void) {
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  print_message("# cases over %s on ... ranks:\n#   %-36s", settings.transport,
                "");
  for (int i = 0; i < SIZES; i++) print_message("%7d", sizes[i]);
  print_message("%8s\n", "all");
  for (size_t row = 0; row < n; row++) {
    char collective[MATRIX_NAME], name[128];
    size_t all = 0;
    snprintf(name, sizeof name, "%s %s",
             matrix_collective(&rows[row], collective),
             matrix_algorithm(&rows[row]));
    print_message("#   %-36s", name);
    for (int i = 0; i < SIZES; i++) {
      print_message("%7zu", cells[row][i]);
      all += cells[row][i];
    }
    print_message("%8zu\n", all);
  }
  print_message(
      "# %zu cases over %s, and %zu calls that were refused; seed "
      "%llu (GLOO_MATRIX_SEED)\n",
      ran, settings.transport, refused, (unsigned long long)settings.seed);
  if (left_out > 0) {
    print_message("# %zu more would need too much memory for their buffers\n",
                  left_out);
  }
}

/* ---- the tests ----------------------------------------------------------- */

/* Returns true if this run covers a part of the cases. */
static bool is_part(void) {
  return settings.product || settings.shards > 1;
}

static bool are_alike(const matrix_case *a, const matrix_case *b) {
  return a->row == b->row && a->dtype == b->dtype && a->op == b->op &&
         a->count == b->count && a->root == b->root;
}

/* Keeps this shard's cases. Cases that share a plan stay together, and each
 * shard has some of every kind. */
static void keep_shard(matrix_cases *cases) {
  size_t kept = 0;
  uint64_t group = 0;
  matrix_case last = {.row = UINT16_MAX};
  for (size_t i = 0; i < cases->n; i++) {
    matrix_case c = cases->list[i];
    if (!are_alike(&c, &last)) group++;
    last = c;
    if (c.count < settings.least || c.count > settings.most) continue;
    if (reference_mix(3, group) % settings.shards != settings.shard) continue;
    cases->list[kept++] = c;
  }
  cases->n = kept;
}

static matrix_cases make_cases(const matrix_ranks *ranks) {
  uint64_t seed = reference_mix(
      settings.seed, (uint64_t)ranks->size << 8 | (unsigned)ranks->hosts);
  matrix_cases cases = {.room = 1024};
  cases.list = calloc(cases.room, sizeof *cases.list);
  assert_non_null(cases.list);
  if (settings.product) {
    if (ranks->hosts == 0) matrix_product(ranks, seed, &cases);
  } else {
    matrix_core(ranks, seed, &cases);
    matrix_sample(ranks, seed, settings.sample / SETS, &cases);
  }
  if (is_part()) keep_shard(&cases);
  return cases;
}

static void cases_give_what_they_must(void **state) {
  const matrix_ranks *ranks = *state;
  matrix_cases cases = make_cases(ranks);
  size_t failed = matrix_run(ranks, cases.list, cases.n);
  for (size_t i = 0; i < cases.n; i++) {
    cells[cases.list[i].row][place_of(ranks->size)]++;
  }
  ran += cases.n;
  left_out += cases.left_out;
  free(cases.list);
  if (failed > 0) fail_msg("%zu of %zu cases failed", failed, cases.n);
}

static void what_must_not_work_is_refused(void **state) {
  (void)state;
  matrix_ranks ranks = {settings.transport, 3, 0};
  refused = matrix_refusals(&ranks);
}

/* Makes cases of every call, with few and with many elements, in every place
 * and form. */
static size_t make_some_of_all(matrix_case *to) {
  static const uint32_t counts[] = {1, 10, 20000};
  static const gloo_dtype types[] = {GLOO_FLOAT32, GLOO_INT8, GLOO_COMPLEX128};
  const matrix_row *rows;
  size_t n = 0, n_rows = matrix_rows(&rows), calls = 0;
  for (size_t row = 0; row < n_rows; row++) {
    gli_collective kind = rows[row].collective;
    if (!matrix_is_first(&rows[row]) || kind == GLI_BARRIER) continue;
    if (calls++ % (SANITIZED ? 4 : 1) != 0) continue;
    for (int i = 0; i < 3 * MATRIX_PLACES; i++, n++) {
      int place = matrix_has_place(&rows[row]) ? i / 3 : 0;
      bool reduces = gli_collective_reduces(kind);
      to[n] = (matrix_case){.seed = reference_mix(settings.seed, n),
                            .row = (uint16_t)row,
                            .count = counts[i % 3],
                            .dtype = (uint8_t)types[(n / 3) % 3],
                            .op = reduces ? GLOO_SUM : REFERENCE_NO_OP,
                            .place = (uint8_t)place,
                            .form = (uint8_t)(n % MATRIX_FORMS)};
      assert_true(n < SOME);
    }
  }
  return n;
}

/* Inserted errors must be found; otherwise the other tests prove nothing. */
static void errors_that_are_put_in_are_found(void **state) {
  (void)state;
  static matrix_case cases[SOME];
  matrix_ranks ranks = {settings.transport, 3, 0};
  size_t n = make_some_of_all(cases);
  for (int spoil = MATRIX_NOTHING + 1; spoil < MATRIX_SPOILS; spoil++) {
    size_t spoiled = matrix_run_spoiled(&ranks, cases, n, (matrix_spoil)spoil);
    assert_true(spoiled >= n / 4);
  }
}

/* Gloo's own tests of collectives have 2441 cases, on two transports. */
static void every_cell_has_cases(void **state) {
  (void)state;
  const matrix_row *rows;
  size_t n = matrix_rows(&rows);
  print_cells();
  if (is_part() || settings.gpus || settings.ranks > 0)
    return; /* only some of the cases ran */
  for (size_t row = 0; row < n; row++) {
    for (int i = 0; i < SIZES; i++) assert_true(cells[row][i] > 0);
  }
  assert_true(ran > 2441);
}

/* The table in gloo_c/types.h lists the same types and operations as the
 * library. */
static void types_and_operations_are_those_documented(void **state) {
  (void)state;
  for (int d = 0; d < GLOO_DTYPE_COUNT; d++) {
    for (int op = 0; op < GLOO_OP_COUNT; op++) {
      gloo_op between = op == GLOO_AVERAGE ? GLOO_SUM : (gloo_op)op;
      bool has = gli_reduce_refusal((gloo_dtype)d, (gloo_op)op) == NULL;
      assert_int_equal(has, oracle_supports((gloo_dtype)d, between));
    }
  }
}

/* ---- other uses ---------------------------------------------------------- */

static int count_product(void) {
  size_t all = 0;
  for (int i = 0; i < SIZES; i++) {
    matrix_ranks ranks = {"inproc", sizes[i], 0};
    matrix_cases cases = {.n = 0};
    matrix_product(&ranks, 1, &cases);
    printf("%2d ranks: %9zu cases over each transport, %zu more too large\n",
           sizes[i], cases.n, cases.left_out);
    all += cases.n;
  }
  printf("together %zu cases over each transport\n", all);
  return 0;
}

static matrix_ranks only_ranks;
static matrix_case only_case;

static void the_case_gives_what_it_must(void **state) {
  (void)state;
  assert_int_equal(matrix_run(&only_ranks, &only_case, 1), 0);
}

static bool read_argument(const char *argument) {
  struct settings *s = &settings;
  if (strcmp(argument, "--product") == 0) {
    s->product = true;
    return true;
  }
  if (strcmp(argument, "--gpus") == 0) {
    s->gpus = true;
    return true;
  }
  if (sscanf(argument, "--sample=%zu", &s->sample) == 1) return true;
  if (sscanf(argument, "--ranks=%d", &s->ranks) == 1) return true;
  if (sscanf(argument, "--counts=%u-%u", &s->least, &s->most) == 2) return true;
  return sscanf(argument, "--shard=%zu/%zu", &s->shard, &s->shards) == 2 &&
         s->shard < s->shards;
}

static int run_all(void) {
  static matrix_ranks sets[SETS];
  static char names[SETS][64];
  static const char *const hosts[] = {"one_host", "two_hosts", "three_hosts",
                                      "one_host_in_a_group"};
  struct CMUnitTest tests[SETS + 4];
  size_t n = 0, set = 0;
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(
      types_and_operations_are_those_documented);
  tests[n++] =
      (struct CMUnitTest)cmocka_unit_test(what_must_not_work_is_refused);
  if (!is_part()) {
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(errors_that_are_put_in_are_found);
  }
  for (int i = 0; i < SIZES; i++) {
    for (int h = 0; h < MATRIX_SETS; h++, set++) {
      bool wanted = settings.ranks == 0 || settings.ranks == sizes[i];
      if (!wanted || (settings.product && h > 0)) continue;
      if (settings.gpus && sizes[i] > 4) continue;
      sets[set] = (matrix_ranks){settings.transport, sizes[i], h};
      snprintf(names[set], sizeof names[set], "%d_ranks_on_%s_over_%s",
               sizes[i], hosts[h], settings.transport);
      tests[n++] = (struct CMUnitTest){.name = names[set],
                                       .test_func = cases_give_what_they_must,
                                       .initial_state = &sets[set]};
    }
  }
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_cell_has_cases);
  return _cmocka_run_group_tests(settings.transport, tests, n, NULL, NULL);
}

/* Page faults of fresh memory would take a tenth of the time of long cases. */
static void keep_memory(void) {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

int main(int argc, char **argv) {
  keep_memory();
  const char *seed = gli_environment_read("GLOO_MATRIX_SEED");
  settings = (struct settings){.transport = argc > 1 ? argv[1] : "inproc",
                               .seed = seed ? strtoull(seed, NULL, 0) : 1,
                               .sample = SAMPLE,
                               .shards = 1,
                               .most = UINT32_MAX};
  if (strcmp(settings.transport, "--count") == 0) return count_product();
  for (int i = 2; i < argc; i++) {
    if (read_argument(argv[i])) continue;
    fprintf(stderr, "unknown argument: %s\n", argv[i]);
    return 2;
  }
  const char *why;
  if (settings.gpus && !gpu_open(&why)) {
    printf("1..0 # SKIP %s\n", why);
    return 0;
  }
  if (settings.gpus) matrix_use_gpus();
  if (strchr(settings.transport, ':')) {
    const struct CMUnitTest one[] = {
        cmocka_unit_test(the_case_gives_what_it_must)};
    if (!matrix_parse(settings.transport, &only_ranks, &only_case)) {
      fprintf(stderr, "no such case: %s\n", settings.transport);
      return 2;
    }
    return cmocka_run_group_tests(one, NULL, NULL);
  }
  return run_all();
}
