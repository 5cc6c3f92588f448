/* Printed plans, compared character by character. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cmocka_all.h"
#include "proof/print.h"

static void build_all_kinds(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, 4), out = gli_elems(p, GLI_OUT, 0, 4);
  gli_range scratch = gli_scratch(b, 16);
  gli_send(b, 2, in);
  gli_recv(b, 0, scratch);
  gli_recv_reduce(b, 2, in, out, true);
  gli_recv_reduce(b, 2, gli_elems(p, GLI_OUT, 2, 2),
                  gli_elems(p, GLI_OUT, 4, 2), false);
  gli_copy(b, gli_bytes(GLI_OUT, 2, 3), gli_bytes(GLI_OUT, 17, 3));
  gli_reduce(b, out, scratch, out);
  gli_send(b, 0, gli_bytes(GLI_TOKEN, 0, 1));
}

static const char golden[] =
    "allreduce: rank 1 of 3, count 10, 4 bytes each\n"
    "bytes: IN 40, OUT 40, SCRATCH 16\n"
    "peer 0: sends 1 (0 bytes), receives 1 (16 bytes)\n"
    "peer 2: sends 1 (16 bytes), receives 2 (24 bytes)\n"
    "\n"
    " step  what         peer        slot  ranges (elements)"
    "                              waits for\n"
    "    0  SEND         to 2           0  IN[0..4)"
    "                                       -\n"
    "    1  RECV         from 0         0  SCRATCH[0..4)"
    "                                  -\n"
    "    2  RECV_REDUCE  from 2         0  OUT[0..4) = incoming op IN[0..4)"
    "               -\n"
    "    3  RECV_REDUCE  from 2         1  OUT[4..6) = OUT[2..4) op incoming"
    "              2\n"
    "    4  COPY                           OUT[17B..20B) = OUT[2B..5B)"
    "                    2 3\n"
    "    5  REDUCE                         OUT[0..4) = OUT[0..4) op "
    "SCRATCH[0..4)         1 2 3 4\n"
    "    6  SEND         to 0           0  TOKEN[0..1)"
    "                                    -\n";

static void build_one_sided(gli_builder *b, const gli_plan_params *p) {
  gli_range in = gli_elems(p, GLI_IN, 0, 2), out = gli_elems(p, GLI_OUT, 0, 2);
  gli_range scratch = gli_scratch(b, 72);
  scratch.bytes = 8;
  gli_windows(b, 5);
  gli_expose_put(b, 2, gli_elems(p, GLI_OUT, 4, 2));
  gli_expose_get(b, 2, gli_elems(p, GLI_IN, 4, 2));
  gli_recv_window(b, 0, 8, 2);
  gli_recv_window(b, 2, 8, 3);
  gli_recv_get(b, 0, scratch, 0);
  gli_recv_get(b, 2, gli_bytes(GLI_SCRATCH, 64, 8), 1);
  gli_reduction r = {.local = in,
                     .dst = out,
                     .own = 1,
                     .n = 2,
                     .blocks = scratch,
                     .stride = 64,
                     .get = 0,
                     .put = 2,
                     .n_puts = 2};
  gli_reduce_all(b, &r);
  gli_put(b, 2, out, 3);
  gli_recv_put(b, 2, gli_elems(p, GLI_OUT, 4, 2));
  gli_signal(b, 0, out);
  gli_await(b, 0, gli_bytes(GLI_TOKEN, 1, 1));
  gli_recv_reduce_get(b, 2, in, out, false, 4, 1);
}

static const char golden_one_sided[] =
    "allreduce: rank 1 of 3, count 10, 4 bytes each\n"
    "bytes: IN 40, OUT 40, SCRATCH 72\n"
    "peer 0: sends 1 (0 bytes), receives 3 (16 bytes)\n"
    "peer 2: sends 3 (24 bytes), receives 4 (32 bytes)\n"
    "\n"
    " step  what         peer        slot  ranges (elements)"
    "                              waits for\n"
    "    0  EXPOSE_PUT   to 2           0  OUT[4..6)"
    "                                      -\n"
    "    1  EXPOSE_GET   to 2           1  IN[4..6)"
    "                                       -\n"
    "    2  RECV_WINDOW  from 0         0  put 2, 8 bytes "
    "                                -\n"
    "    3  RECV_WINDOW  from 2         0  put 3, 8 bytes "
    "                                -\n"
    "    4  RECV_GET     from 0         1  get 0 or SCRATCH[0..2) "
    "                        -\n"
    "    5  RECV_GET     from 2         1  get 1 or SCRATCH[16..18) "
    "                      -\n"
    "    6  REDUCE_ALL                     OUT[0..2) = get 0 op IN[0..2) op "
    "get 1; puts 2-3 too  2 3 4 5\n"
    "    7  PUT          to 2           2  put 3 = OUT[0..2) "
    "                             3 6\n"
    "    8  RECV_PUT     from 2         2  OUT[4..6)"
    "                                      0\n"
    "    9  SIGNAL       to 0           0  OUT[0..2)"
    "                                      6\n"
    "   10  AWAIT        from 0         2  TOKEN[1..2)"
    "                                    -\n"
    "   11  REDUCE_GET   from 2         3  OUT[0..2) = IN[0..2) op incoming; "
    "put 4 too    7 9\n";

static void expect_printed(gli_build_fn build, const char *golden_text) {
  gli_plan_params p = {.collective = GLI_ALLREDUCE,
                       .rank = 1,
                       .size = 3,
                       .count = 10,
                       .elem_bytes = 4};
  gli_plan *plan;
  gloo_error error;
  assert_int_equal(gli_plan_make(build, &p, &plan, &error), GLOO_OK);
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_true(gli_print_plan(plan, file));
  gli_plan_free(plan);
  char text[4096];
  rewind(file);
  size_t n = fread(text, 1, sizeof(text) - 1, file);
  text[n] = '\0';
  fclose(file);
  assert_string_equal(text, golden_text);
}

static void plan_prints_as_a_table(void **state) {
  (void)state;
  expect_printed(build_all_kinds, golden);
  expect_printed(build_one_sided, golden_one_sided);
}

static void step_prints_as_words(void **state) {
  (void)state;
  gli_plan_params p = {.collective = GLI_ALLREDUCE, .elem_bytes = 4};
  gli_step s = {.kind = GLI_STEP_RECV_REDUCE,
                .a_buffer = GLI_IN,
                .dst_buffer = GLI_OUT,
                .a = 4,
                .dst = 8,
                .bytes = 12,
                .slot = 3};
  char text[100];
  gli_print_step(&p, &s, 7, text, sizeof(text));
  assert_string_equal(
      text, "RECV_REDUCE from 7, slot 3: OUT[2..5) = IN[1..4) op incoming");
  gli_print_step(&p, &s, 7, text, 12);
  assert_string_equal(text, "RECV_REDUCE");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plan_prints_as_a_table),
      cmocka_unit_test(step_prints_as_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
