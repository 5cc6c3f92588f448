/* Printed plans, letter by letter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cmocka_all.h"
#include "plan/print.h"

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

static void plan_prints_as_a_table(void **state) {
  (void)state;
  gli_plan_params p = {.collective = GLI_ALLREDUCE,
                       .rank = 1,
                       .size = 3,
                       .count = 10,
                       .elem_bytes = 4};
  gli_plan *plan;
  gloo_error error;
  assert_int_equal(gli_plan_make(build_all_kinds, &p, &plan, &error), GLOO_OK);
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_true(gli_print_plan(plan, file));
  gli_plan_free(plan);
  char text[4096];
  rewind(file);
  size_t n = fread(text, 1, sizeof(text) - 1, file);
  text[n] = '\0';
  fclose(file);
  assert_string_equal(text, golden);
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
