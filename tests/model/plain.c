/* Plain memory and state reduction. Two accesses to plain memory are a fault if
 * one of them writes and neither happens before the other, whatever values they
 * would see. (C11 gives such programs no meaning; in programs without a race
 * any schedule shows the values.) */
#include <string.h>

#include "state.h"

static void race(int word, int thread, const char *now, int other,
                 const char *before) {
  for (int i = 0; i < model_the.n_segments; i++) {
    const model_segment *s = &model_the.segments[i];
    if ((size_t)word < s->first || (size_t)word >= s->first + s->words)
      continue;
    model_fail(MODEL_RACE, "%s %s %s + %zu, which %s %s without any order",
               model_the.threads[thread].name, now, s->name,
               ((size_t)word - s->first) * 4, model_the.threads[other].name,
               before);
  }
}

static uint8_t known(const model_state *state, int thread, int other) {
  return state->runs[thread].seen.at[MODEL_LOCATIONS + other];
}

void model_plain_read(model_state *state, int thread, int word) {
  model_word *w = &state->words[word];
  if (w->writer != thread && w->written > known(state, thread, w->writer))
    race(word, thread, "reads", w->writer, "writes");
  w->read[thread] = known(state, thread, thread);
}

void model_plain_write(model_state *state, int thread, int word) {
  model_word *w = &state->words[word];
  if (w->writer != thread && w->written > known(state, thread, w->writer))
    race(word, thread, "writes", w->writer, "writes");
  for (int i = 0; i < model_the.n_threads; i++)
    if (i != thread && w->read[i] > known(state, thread, i))
      race(word, thread, "writes", i, "reads");
  w->writer = (uint8_t)thread;
  w->written = known(state, thread, thread);
}

/* ---- state reduction ----------------------------------------------------- */

static uint8_t above(uint8_t value, uint8_t base) {
  return value > base ? (uint8_t)(value - base) : 0;
}

static void lower(model_view *view, const model_view *base) {
  for (size_t i = 0; i < sizeof view->at; i++)
    view->at[i] = above(view->at[i], base->at[i]);
}

/* Sets the view that all running threads share. Returns false if no thread
 * runs. */
static bool seen_by_all(const model_state *state, model_view *base) {
  bool any = false;
  memset(base, UINT8_MAX, sizeof *base);
  for (int i = 0; i < model_the.n_threads; i++) {
    if (state->runs[i].fate != MODEL_ALIVE) continue;
    any = true;
    const model_view *seen = &state->runs[i].seen;
    for (size_t k = 0; k < sizeof base->at; k++)
      if (seen->at[k] < base->at[k]) base->at[k] = seen->at[k];
  }
  return any;
}

static void lower_words(model_state *state, const model_view *base) {
  const uint8_t *times = base->at + MODEL_LOCATIONS;
  for (size_t i = 0; i < model_the.n_words; i++) {
    model_word *w = &state->words[i];
    w->written = above(w->written, times[w->writer]);
    if (w->written == 0) w->writer = 0;
    for (int k = 0; k < model_the.n_threads; k++)
      w->read[k] = above(w->read[k], times[k]);
  }
}

static void lower_locations(model_state *state, const model_view *base) {
  for (int i = 0; i < model_the.n_places; i++) {
    model_location *l = &state->locations[i];
    size_t gone = base->at[i];
    l->n -= gone;
    memmove(l->messages, l->messages + gone,
            (size_t)l->n * sizeof l->messages[0]);
    l->messages[0].updates = 0;
    for (size_t k = 0; k < l->n; k++) lower(&l->messages[k].view, base);
  }
}

void model_tidy(model_state *state) {
  model_view base;
  if (!seen_by_all(state, &base)) return;
  for (size_t i = 0; i < sizeof base.at; i++)
    if (base.at[i] != 0) goto something;
  return;
something:
  for (int i = 0; i < MODEL_THREADS; i++) {
    lower(&state->runs[i].seen, &base);
    lower(&state->runs[i].acquirable, &base);
    lower(&state->runs[i].fenced, &base);
    lower(&state->exits[i].view, &base);
  }
  for (int i = 0; i < MODEL_BELLS; i++) lower(&state->bells[i].view, &base);
  for (int i = 0; i < MODEL_LOCKS; i++) lower(&state->locks[i].view, &base);
  lower(&state->sc, &base);
  lower_words(state, &base);
  lower_locations(state, &base);
}
