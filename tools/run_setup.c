/* The payload of GLI_RUN_SETUP: numbers, strings, and lists of strings. */
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/random.h"
#include "tools/run_frame.h"
#include "tools/run_hostlist.h"

enum { SETUP_NUMBERS = 8, SETUP_STRINGS = 5, WORDS_MAX = 1 << 17 };

static void setup_numbers(gli_run_setup *s, uint32_t *numbers[SETUP_NUMBERS]) {
  uint32_t *const all[SETUP_NUMBERS] = {&s->world,    &s->first,  &s->here,
                                        &s->port,     &s->bind,   &s->lines,
                                        &s->grace_ms, &s->lost_ms};
  memcpy(numbers, all, sizeof all);
}

static void setup_strings(gli_run_setup *s, char **strings[SETUP_STRINGS]) {
  char **const all[SETUP_STRINGS] = {&s->directory, &s->chosen, &s->master,
                                     &s->job, &s->secret};
  memcpy(strings, all, sizeof all);
}

/* ---- writing ------------------------------------------------------------- */

typedef struct setup_writer {
  uint8_t *data;
  size_t used, capacity;
} setup_writer;

static bool put_bytes(setup_writer *w, const void *bytes, size_t n) {
  if (n > GLI_RUN_SETUP_MAX - w->used) return false;
  if (w->capacity - w->used < n) {
    size_t capacity = 2 * w->capacity + n + 4096;
    uint8_t *data = malloc(capacity);
    if (data == NULL) return false;
    if (w->data != NULL) memcpy(data, w->data, w->used);
    if (w->data != NULL) gli_wipe(w->data, w->used);
    free(w->data);
    w->data = data;
    w->capacity = capacity;
  }
  memcpy(w->data + w->used, bytes, n);
  w->used += n;
  return true;
}

static bool put_number(setup_writer *w, uint32_t number) {
  uint8_t bytes[4];
  gli_put_u32(bytes, number);
  return put_bytes(w, bytes, sizeof bytes);
}

static bool put_string(setup_writer *w, const char *text) {
  size_t bytes = strlen(text);
  return bytes <= GLI_RUN_SETUP_MAX && put_number(w, (uint32_t)bytes) &&
         put_bytes(w, text, bytes);
}

static bool put_list(setup_writer *w, char *const *list) {
  uint32_t n = 0;
  while (list[n] != NULL) n++;
  bool good = n <= WORDS_MAX && put_number(w, n);
  for (uint32_t i = 0; i < n && good; i++) good = put_string(w, list[i]);
  return good;
}

uint8_t *gli_run_setup_write(const gli_run_setup *setup, size_t *bytes) {
  gli_run_setup copy = *setup;
  uint32_t *numbers[SETUP_NUMBERS];
  char **strings[SETUP_STRINGS];
  setup_writer w = {NULL, 0, 0};
  bool good = true;
  setup_numbers(&copy, numbers);
  setup_strings(&copy, strings);
  for (int i = 0; i < SETUP_NUMBERS && good; i++)
    good = put_number(&w, *numbers[i]);
  for (int i = 0; i < SETUP_STRINGS && good; i++)
    good = put_string(&w, *strings[i]);
  good =
      good && put_list(&w, setup->arguments) && put_list(&w, setup->variables);
  if (good) {
    *bytes = w.used;
    return w.data;
  }
  if (w.data != NULL) gli_wipe(w.data, w.used);
  free(w.data);
  return NULL;
}

/* ---- reading ------------------------------------------------------------- */

typedef struct setup_reader {
  const uint8_t *at;
  size_t left;
} setup_reader;

static bool take_number(setup_reader *r, uint32_t *number) {
  if (r->left < 4) return false;
  *number = gli_get_u32(r->at);
  r->at += 4;
  r->left -= 4;
  return true;
}

static bool take_string(setup_reader *r, char **text) {
  uint32_t bytes;
  if (!take_number(r, &bytes) || bytes > r->left) return false;
  if (memchr(r->at, 0, bytes) != NULL) return false;
  *text = malloc((size_t)bytes + 1);
  if (*text == NULL) return false;
  memcpy(*text, r->at, bytes);
  (*text)[bytes] = '\0';
  r->at += bytes;
  r->left -= bytes;
  return true;
}

static bool take_list(setup_reader *r, char ***list) {
  uint32_t n;
  if (!take_number(r, &n) || n > r->left / 4) return false;
  *list = calloc((size_t)n + 1, sizeof **list);
  if (*list == NULL) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!take_string(r, &(*list)[i])) return false;
  return true;
}

/* Returns true if the values of a complete setup are possible. */
static bool is_possible(const gli_run_setup *s) {
  for (char **at = s->variables; *at != NULL; at++)
    if (strchr(*at, '=') == NULL || **at == '=') return false;
  return s->world >= 1 && s->world <= GLI_RUN_RANKS_MAX && s->here >= 1 &&
         s->here <= s->world && s->first <= s->world - s->here &&
         s->port <= 65535 && s->grace_ms <= 3600000 && s->lost_ms >= 1 &&
         s->lost_ms <= 3600000 && strlen(s->job) <= 32 &&
         strlen(s->secret) <= 128 && s->arguments[0] != NULL;
}

bool gli_run_setup_read(const uint8_t *data, size_t bytes, gli_run_setup *setup,
                        gloo_error *error) {
  uint32_t *numbers[SETUP_NUMBERS];
  char **strings[SETUP_STRINGS];
  setup_reader r = {data, bytes};
  bool good = true;
  memset(setup, 0, sizeof *setup);
  setup_numbers(setup, numbers);
  setup_strings(setup, strings);
  for (int i = 0; i < SETUP_NUMBERS && good; i++)
    good = take_number(&r, numbers[i]);
  for (int i = 0; i < SETUP_STRINGS && good; i++)
    good = take_string(&r, strings[i]);
  good = good && take_list(&r, &setup->arguments) &&
         take_list(&r, &setup->variables) && r.left == 0 && is_possible(setup);
  if (good) return true;
  gli_run_setup_free(setup);
  gli_fail(error, GLOO_ERR_INVALID, -1, "gloo run sent a malformed setup");
  return false;
}

bool gli_run_setup_ranks(const gli_run_frame *frame, uint32_t *first,
                         uint32_t *here) {
  setup_reader r = {frame->data, frame->bytes};
  uint32_t world;
  return take_number(&r, &world) && take_number(&r, first) &&
         take_number(&r, here) && world <= GLI_RUN_RANKS_MAX &&
         *here <= world && *first <= world - *here;
}

static void wipe_string(char *text) {
  if (text != NULL) gli_wipe(text, strlen(text));
  free(text);
}

static void wipe_list(char **list) {
  for (size_t i = 0; list != NULL && list[i] != NULL; i++) wipe_string(list[i]);
  free(list);
}

void gli_run_setup_free(gli_run_setup *setup) {
  char **strings[SETUP_STRINGS];
  setup_strings(setup, strings);
  for (int i = 0; i < SETUP_STRINGS; i++) wipe_string(*strings[i]);
  wipe_list(setup->arguments);
  wipe_list(setup->variables);
  memset(setup, 0, sizeof *setup);
}
