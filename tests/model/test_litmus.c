/* The model against programs with known outcomes under C11. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off */
#include <cmocka.h>
/* clang-format on */
#include <stdio.h>

#include "litmus.h"
#include "model.h"

/* Maranget, Sarkar, Sewell: A tutorial introduction to the ARM and POWER
 * relaxed memory models, 2012, has most of them, and their names. */
static const litmus_test tests[] = {
    {"SB, release", 2, {"Wx1:Ry:", "Wy1:Rx:"}, "00", true},
    {"SB, seq_cst", 2, {"Wx1!Ry!", "Wy1!Rx!"}, "00", false},
    {"SB, one store weaker", 2, {"Wx1!Ry!", "Wy1:Rx!"}, "00", true},
    {"SB, one load weaker", 2, {"Wx1!Ry!", "Wy1!Rx:"}, "00", true},
    {"SB, fences", 2, {"Wx1.F!Ry.", "Wy1.F!Rx."}, "00", false},
    {"SB, fence and seq_cst", 2, {"Wx1.F!Ry.", "Wy1!Rx!"}, "00", false},
    {"MP, relaxed", 2, {"Wx1.Wy1.", "Ry.Rx."}, "10", true},
    {"MP, release only", 2, {"Wx1.Wy1:", "Ry.Rx."}, "10", true},
    {"MP, acquire only", 2, {"Wx1.Wy1.", "Ry:Rx."}, "10", true},
    {"MP, release-acquire", 2, {"Wx1.Wy1:", "Ry:Rx."}, "10", false},
    {"MP, fences", 2, {"Wx1.F!Wy1.", "Ry.F!Rx."}, "10", false},
    {"MP, reading later", 2, {"Wx1.Wy1:", "Ry:Rx."}, "00", true},
    {"coherence of reads", 2, {"Wx1.", "Rx.Rx."}, "10", false},
    {"coherence, two writers", 2, {"Wx1.Rx.", "Wx2.Rx."}, "21", false},
    {"2+2W, relaxed", 2, {"Wx1.Wy2.", "Wy1.Wx2."}, "110", true},
    {"2+2W, seq_cst", 2, {"Wx1!Wy2!", "Wy1!Wx2!"}, "110", false},
    {"WRC, four reads", 3, {"Wx1:Ry:", "Rx:Wy1:", "Ry:Rx:"}, "0110", false},
    {"WRC, relaxed", 3, {"Wx1.", "Rx.Wy1.", "Ry:Rx."}, "110", true},
    {"WRC, read before", 3, {"Wx1.", "Rx.Wy1:", "Ry:Rx."}, "110", false},
    {"WRC, release-acquire", 3, {"Wx1:", "Rx:Wy1:", "Ry:Rx."}, "110", false},
    {"ISA2", 3, {"Wx1.Wy1:", "Ry:Wz1:", "Rz:Rx."}, "110", false},
    {"exchanges are in a row", 2, {"Ex1.", "Ex2."}, "00", false},
    {"exchange, the other first", 2, {"Ex1.", "Ex2."}, "20", true},
    {"release sequence", 3, {"Wx1.Wy1:", "Ey2.", "Ry:Rx."}, "120", false},
    {"load buffering (not covered)", 2, {"Ry.Wx1.", "Rx.Wy1."}, "11", false},
};

static void the_model_allows_what_c11_allows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    litmus_set_up(&tests[i]);
    const model_options options = {.states_max = 1000000};
    model_result result;
    model_explore(&options, false, &result);
    model_fault want = tests[i].allowed ? MODEL_WRONG : MODEL_FINE;
    if (result.fault != want) printf("# %s: %s\n", tests[i].name, result.what);
    assert_int_equal(result.fault, want);
  }
}

static void compare_exchange_is_noticed(void **state) {
  (void)state;
  static const litmus_test uses = {"", 2, {"Cx!", "Wx1."}, "", false};
  litmus_set_up(&uses);
  const model_options options = {.states_max = 1000};
  model_result result;
  model_explore(&options, false, &result);
  assert_int_equal(result.fault, MODEL_UNKNOWN);
}

int main(void) {
  const struct CMUnitTest all[] = {
      cmocka_unit_test(the_model_allows_what_c11_allows),
      cmocka_unit_test(compare_exchange_is_noticed),
  };
  return cmocka_run_group_tests(all, NULL, NULL);
}
