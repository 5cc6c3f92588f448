/* Shared declarations of the fuzz targets. A target is one file with a function
 * that passes an input to the library and frees everything. Runs are
 * reproducible: fuzz.c replaces core/random.c with fixed numbers, and nothing
 * depends on timing. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* The target. libFuzzer calls it with generated inputs, and replay.c with those
 * of the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Runs before the first input. Log lines are formatted, and dropped. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Ends the program with a message if the condition is false. */
void fuzz_check(bool holds, const char *what);

/* Checks a status and its error: a failure has a message. */
void fuzz_check_error(gloo_status status, const gloo_error *error);

/* ---- taking an input apart ----------------------------------------------- */

/* The rest of an input. Reads beyond its end return zeros. */
typedef struct fuzz_input {
  const uint8_t *at;
  size_t left;
} fuzz_input;

uint8_t fuzz_take_u8(fuzz_input *input);
uint16_t fuzz_take_u16(fuzz_input *input);
uint64_t fuzz_take_u64(fuzz_input *input);

/* Returns a piece whose length the next byte or two give; it is shorter if the
 * input ends. */
fuzz_input fuzz_take_piece(fuzz_input *input);
fuzz_input fuzz_take_long_piece(fuzz_input *input);

/* Copies `bytes` bytes, with zeros beyond the end of the input. */
void fuzz_take_bytes(fuzz_input *input, void *to, size_t bytes);

/* Returns a copy of the rest or of a piece, in an allocation of exactly that
 * size. The caller frees it. */
uint8_t *fuzz_copy(const fuzz_input *input);
/* As fuzz_copy, but a string that ends at the first 0. */
char *fuzz_text(const fuzz_input *input);

/* Returns a line, or the rest, or NULL at the end. The caller frees it. */
char *fuzz_take_line(fuzz_input *input);

#endif
