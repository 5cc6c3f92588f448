/* Checks of the result of an exploration. */
#ifndef GLI_TESTS_MODEL_CHECK_H
#define GLI_TESTS_MODEL_CHECK_H

/* cmocka.h needs the first four. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "model.h"

enum { STATES_MAX = 12 * 1000 * 1000 };

void check_fine(const char *name, const model_result *result);
void check_fault(const char *name, const model_result *result,
                 model_fault fault);

/* Returns true if the program was called with the argument "deep": it then runs
 * fewer tests, with larger scenes. */
bool check_deep(int argc, char **argv);

#endif
