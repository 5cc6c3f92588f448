/* Inputs whose results are exact in every type and in every order of
 * combination, with the expected results.
 *
 * Element i of rank r's input depends on r and on i modulo a prime, so that a
 * block that is misplaced, missing, or counted twice is detected. One period is
 * computed; longer vectors repeat it. */
#ifndef GLI_TOOLS_BENCH_VALUES_H
#define GLI_TOOLS_BENCH_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/types.h"

enum { GLI_VALUES_PERIOD = 1021, GLI_VALUES_MAX_ELEMENT = 16 };

typedef struct gli_period {
  size_t elem_bytes;
  uint8_t data[GLI_VALUES_PERIOD * GLI_VALUES_MAX_ELEMENT];
} gli_period;

/* Sets the input of rank `rank` of `ranks` for a reduction. */
void gli_period_input(gli_period *period, gloo_dtype dtype, gloo_op op,
                      int ranks, int rank);
/* Sets the result of the reduction over ranks 0 ... n - 1; n = 0 has none. */
void gli_period_reduced(gli_period *period, gloo_dtype dtype, gloo_op op,
                        int ranks, int n);
/* Sets arbitrary bits, for collectives that only move data. */
void gli_period_moved(gli_period *period, gloo_dtype dtype, int rank);

/* Writes elements [first, first + count) of the repeated period to `to`. */
void gli_period_fill(const gli_period *period, void *to, size_t first,
                     size_t count);

/* Returns the first i of `count` elements at `data` that differs from element
 * first + i, or `count` if all are equal. */
size_t gli_period_mismatch(const gli_period *period, const void *data,
                           size_t first, size_t count);

/* Formats one element: a number, or the bits of a 16-bit or 8-bit float. */
#define GLI_ELEMENT_TEXT 64
const char *gli_element_text(gloo_dtype dtype, const void *element,
                             char text[GLI_ELEMENT_TEXT]);
/* Returns the address of element i of the repeated period. */
const void *gli_period_at(const gli_period *period, size_t i);

#endif
