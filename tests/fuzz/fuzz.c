#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "gloo_c/log.h"

static void drop_line(gloo_log_level level, const char *line, void *user) {
  (void)level;
  (void)user;
  fuzz_check(strlen(line) > 0, "a log line says something");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  gloo_log_set_level(GLOO_LOG_DEBUG);
  gloo_log_set_sink(drop_line, NULL);
  return 0;
}

void fuzz_check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "this does not hold: %s\n", what);
  abort();
}

void fuzz_check_error(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fuzz_check(memchr(error->message, 0, sizeof error->message) != NULL,
             "the sentence of an error ends");
  fuzz_check(error->status == status, "an error has the status that came");
  fuzz_check(error->message[0] != '\0', "an error has a sentence");
  for (const char *at = error->message; *at != '\0'; at++)
    fuzz_check((unsigned char)*at >= ' ' && *at != 0x7f,
               "that can be shown to a person");
}

/* ---- in place of core/random.c ------------------------------------------- */

int gli_random(void *to, size_t bytes, const char **what) {
  (void)what;
  memset(to, 0x5a, bytes);
  return 0;
}

gloo_status gli_random_draw(void *to, size_t bytes, gloo_error *error) {
  (void)error;
  memset(to, 0x5a, bytes);
  return GLOO_OK;
}

/* ---- taking an input apart ----------------------------------------------- */

void fuzz_take_bytes(fuzz_input *input, void *to, size_t bytes) {
  size_t n = bytes < input->left ? bytes : input->left;
  if (n > 0) memcpy(to, input->at, n);
  memset((uint8_t *)to + n, 0, bytes - n);
  input->at += n;
  input->left -= n;
}

uint8_t fuzz_take_u8(fuzz_input *input) {
  uint8_t value;
  fuzz_take_bytes(input, &value, sizeof value);
  return value;
}

uint16_t fuzz_take_u16(fuzz_input *input) {
  uint8_t b[2];
  fuzz_take_bytes(input, b, sizeof b);
  return (uint16_t)(b[0] | b[1] << 8);
}

uint64_t fuzz_take_u64(fuzz_input *input) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value |= (uint64_t)fuzz_take_u8(input) << 8 * i;
  return value;
}

static fuzz_input fuzz_split(fuzz_input *input, size_t bytes) {
  if (bytes > input->left) bytes = input->left;
  fuzz_input piece = {input->at, bytes};
  input->at += bytes;
  input->left -= bytes;
  return piece;
}

fuzz_input fuzz_take_piece(fuzz_input *input) {
  return fuzz_split(input, fuzz_take_u8(input));
}

fuzz_input fuzz_take_long_piece(fuzz_input *input) {
  return fuzz_split(input, fuzz_take_u16(input));
}

uint8_t *fuzz_copy(const fuzz_input *input) {
  uint8_t *copy = malloc(input->left > 0 ? input->left : 1);
  fuzz_check(copy != NULL, "there is memory");
  if (input->left > 0) memcpy(copy, input->at, input->left);
  return copy;
}

char *fuzz_text(const fuzz_input *input) {
  size_t bytes = 0;
  while (bytes < input->left && input->at[bytes] != 0) bytes++;
  char *text = malloc(bytes + 1);
  fuzz_check(text != NULL, "there is memory");
  if (bytes > 0) memcpy(text, input->at, bytes);
  text[bytes] = '\0';
  return text;
}

char *fuzz_take_line(fuzz_input *input) {
  if (input->left == 0) return NULL;
  const uint8_t *end = memchr(input->at, '\n', input->left);
  size_t bytes = end != NULL ? (size_t)(end - input->at) : input->left;
  fuzz_input line = fuzz_split(input, bytes);
  (void)fuzz_split(input, 1);
  return fuzz_text(&line);
}
