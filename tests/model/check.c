#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void say(const char *name, const model_result *result) {
  printf("# %s: %" PRIu64 " states, %" PRIu64 " steps, depth %u%s%s%s\n", name,
         result->states, result->steps, result->depth,
         result->cut_off == 0 ? "" : ", bounded",
         result->fault == MODEL_FINE ? "" : ": ", result->what);
}

void check_fine(const char *name, const model_result *result) {
  say(name, result);
  assert_int_equal(result->fault, MODEL_FINE);
}

void check_fault(const char *name, const model_result *result,
                 model_fault fault) {
  say(name, result);
  assert_int_equal(result->fault, fault);
}

bool check_deep(int argc, char **argv) {
  return argc > 1 && strcmp(argv[1], "deep") == 0;
}
