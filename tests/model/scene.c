/* The arena and its contents. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

model_scene model_the;

static _Alignas(4096) uint8_t arena[MODEL_ARENA_BYTES];
/* Use of each byte. 0: none, above 0: location + 1, below 0: -(word + 1). */
static int16_t meaning[MODEL_ARENA_BYTES];

void model_begin(void) {
  memset(&model_the, 0, sizeof model_the);
  memset(arena, 0, sizeof arena);
  memset(meaning, 0, sizeof meaning);
}

/* Ends the program if a scene is invalid, since it would prove nothing. */
static void need(bool fine, const char *what) {
  if (fine) return;
  printf("Bail out! the scene is not possible: %s\n", what);
  exit(1);
}

void *model_alloc(size_t bytes) {
  uint8_t *at = arena + model_the.used;
  need(bytes <= sizeof arena - model_the.used, "the arena is too small");
  model_the.used += (bytes + 4095) / 4096 * 4096;
  return at;
}

bool model_is_shared(const volatile void *at) {
  uintptr_t offset = (uintptr_t)at - (uintptr_t)arena;
  return offset < sizeof arena;
}

static int16_t meaning_of(const volatile void *at) {
  if (!model_is_shared(at)) return 0;
  return meaning[(uintptr_t)at - (uintptr_t)arena];
}

int model_location_of(const volatile void *at) {
  int16_t m = meaning_of(at);
  return m > 0 ? m - 1 : -1;
}

int model_word_of(const volatile void *at) {
  int16_t m = meaning_of(at);
  return m < 0 ? -m - 1 : -1;
}

static int16_t *cell_of(const volatile void *at) {
  need(model_is_shared(at), "an address is outside the arena");
  return &meaning[(uintptr_t)at - (uintptr_t)arena];
}

static model_place *add_place(volatile void *at, size_t bytes, const char *name,
                              int kind) {
  need(model_the.n_places < MODEL_LOCATIONS, "too many atomic locations");
  int16_t *cell = cell_of(at);
  for (size_t i = 0; i < bytes; i++)
    cell[i] = (int16_t)(model_the.n_places + 1);
  model_place *place = &model_the.places[model_the.n_places++];
  *place = (model_place){
      .name = name, .at = at, .bytes = (uint8_t)bytes, .kind = kind};
  return place;
}

void model_atomic(volatile void *at, size_t bytes, const char *name, int kind) {
  (void)add_place(at, bytes, name, kind);
}

void model_owned(volatile void *at, size_t bytes, const char *name, int kind) {
  add_place(at, bytes, name, kind)->owned = true;
}

void model_counter(volatile void *at, size_t bytes, const char *name,
                   int kind) {
  model_place *place = add_place(at, bytes, name, kind);
  place->counter = place->owned = true;
}

void model_plain(void *at, size_t bytes, const char *name) {
  need(model_the.n_segments < MODEL_SEGMENTS, "too many plain segments");
  need(bytes % 4 == 0 && (uintptr_t)at % 4 == 0, "memory is not in words");
  size_t words = bytes / 4;
  need(model_the.n_words + words <= MODEL_WORDS, "too much plain memory");
  model_segment *segment = &model_the.segments[model_the.n_segments++];
  *segment = (model_segment){name, at, model_the.n_words, words};
  int16_t *cell = cell_of(at);
  for (size_t i = 0; i < bytes; i++)
    if (cell[i] == 0)
      cell[i] = (int16_t)(-(int)(model_the.n_words + i / 4) - 1);
  model_the.n_words += words;
}

void model_thread(const char *name, int process, bool (*turn)(void *self),
                  void *self, size_t self_bytes) {
  need(model_the.n_threads < MODEL_THREADS, "too many threads");
  need(self_bytes <= MODEL_SELF_BYTES, "a thread keeps too much");
  model_the.threads[model_the.n_threads++] =
      (model_code){name, process, turn, self, self_bytes};
}

static uint64_t value_at(const model_place *place) {
  uint8_t b1;
  uint32_t b4;
  uint64_t b8;
  const void *at = (const void *)place->at;
  switch (place->bytes) {
    case 1:
      memcpy(&b1, at, 1);
      return b1;
    case 4:
      memcpy(&b4, at, 4);
      return b4;
    default:
      memcpy(&b8, at, 8);
      return b8;
  }
}

/* Makes the present contents of the arena the start of every schedule. Thread i
 * has seen all of it; its own time begins at 1. */
void model_initial(model_state *state) {
  memset(state, 0, sizeof *state);
  for (int i = 0; i < model_the.n_places; i++) {
    state->locations[i].n = 1;
    state->locations[i].messages[0].value = value_at(&model_the.places[i]);
  }
  for (int i = 0; i < model_the.n_segments; i++) {
    const model_segment *s = &model_the.segments[i];
    memcpy(state->plain + s->first * 4, s->at, s->words * 4);
  }
  for (int i = 0; i < model_the.n_threads; i++) {
    const model_code *code = &model_the.threads[i];
    state->runs[i].seen.at[MODEL_LOCATIONS + i] = 1;
    state->runs[i].acquirable = state->runs[i].seen;
    memcpy(state->self[i], code->self, code->self_bytes);
  }
  for (int i = model_the.n_threads; i < MODEL_THREADS; i++)
    state->runs[i].fate = MODEL_ENDED;
}

void model_fail(model_fault fault, const char *format, ...) {
  if (model_the.fault != MODEL_FINE) return;
  model_the.fault = fault;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(model_the.what, sizeof model_the.what, format, arguments);
  va_end(arguments);
}
