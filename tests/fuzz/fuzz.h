/* What all fuzz targets share. A target is one file with a function that takes
 * an input, has the library read it, and leaves nothing behind. The same input
 * always does the same: random numbers are not (fuzz.c takes the place of
 * core/random.c), and nothing depends on how long something takes. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* The target: libFuzzer calls it with inputs that it makes up, and replay.c
 * with those of the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Before the first input: log lines are made, and dropped. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What must hold does not: end here, and say what. */
void fuzz_check(bool holds, const char *what);

/* What a function returned, and its error: a failure has a sentence. */
void fuzz_check_error(gloo_status status, const gloo_error *error);

/* ---- taking an input apart ----------------------------------------------- */

/* What is left of it. Beyond its end are zeros. */
typedef struct fuzz_input {
  const uint8_t *at;
  size_t left;
} fuzz_input;

uint8_t fuzz_take_u8(fuzz_input *input);
uint16_t fuzz_take_u16(fuzz_input *input);
uint64_t fuzz_take_u64(fuzz_input *input);

/* A byte or two say how many there are; fewer where the input ends. */
fuzz_input fuzz_take_piece(fuzz_input *input);
fuzz_input fuzz_take_long_piece(fuzz_input *input);

/* So many bytes; zeros behind the end. */
void fuzz_take_bytes(fuzz_input *input, void *to, size_t bytes);

/* What is left, or a piece, in memory of just that size, for free(). */
uint8_t *fuzz_copy(const fuzz_input *input);
/* The same as a string, up to the first 0. */
char *fuzz_text(const fuzz_input *input);

/* A line, or all that is left, for free(); NULL at the end. */
char *fuzz_take_line(fuzz_input *input);

#endif
