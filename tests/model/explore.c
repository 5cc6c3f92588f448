/* Depth-first search of all schedules that visits no state twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"

typedef struct frame {
  model_state *state;
  model_step step; /* the step being tried */
  int thread;      /* the next thread to try */
  unsigned way;
  bool crashes; /* tried last */
} frame;

typedef struct search {
  frame *frames;
  unsigned depth, room;
  model_seen seen;
  model_result *result;
  const model_options *options;
} search;

static frame *push(search *s) {
  if (s->depth == s->room) {
    unsigned room = s->room * 2 + 64;
    s->frames = model_needed(realloc(s->frames, room * sizeof *s->frames));
    memset(s->frames + s->room, 0, (room - s->room) * sizeof *s->frames);
    s->room = room;
  }
  frame *f = &s->frames[s->depth++];
  if (f->state == NULL) f->state = model_needed(calloc(1, sizeof *f->state));
  f->thread = 0;
  f->way = 0;
  f->crashes = false;
  if (s->depth > s->result->depth) s->result->depth = s->depth;
  return f;
}

/* Ends a process abruptly. */
static void crash(model_state *state, int thread) {
  int process = model_the.threads[thread].process;
  for (int i = 0; i < model_the.n_threads; i++)
    if (model_the.threads[i].process == process &&
        state->runs[i].fate == MODEL_ALIVE)
      model_end(state, i, MODEL_CRASHED);
  state->crashes_left--;
}

static bool next_crash(frame *f) {
  if (f->state->crashes_left == 0) return false;
  for (; f->thread < model_the.n_threads; f->thread++) {
    int i = f->thread;
    if (f->state->runs[i].fate != MODEL_ALIVE) continue;
    f->step = (model_step){.thread = i, .crash = true};
    f->thread++;
    return true;
  }
  return false;
}

static bool step_of(frame *f, int thread, unsigned way) {
  f->step = (model_step){
      .op = f->state->runs[thread].pending, .thread = thread, .way = way};
  return true;
}

/* Finds the next step. Returns false if all were tried. If one thread can go
 * first without loss, only its step and crashes are tried. */
static bool next_step(frame *f) {
  if (f->crashes) return next_crash(f);
  if (f->thread == 0 && f->way == 0) {
    for (int i = 0; i < model_the.n_threads; i++) {
      if (!model_eager(f->state, i)) continue;
      f->crashes = true;
      return step_of(f, i, 0);
    }
  }
  for (; f->thread < model_the.n_threads; f->thread++, f->way = 0)
    if (f->way < model_ways(f->state, f->thread))
      return step_of(f, f->thread, f->way++);
  f->crashes = true;
  f->thread = 0;
  return next_crash(f);
}

static void take_step(model_state *state, model_step *step) {
  if (step->crash) {
    crash(state, step->thread);
  } else {
    step->result = model_perform(state, step->thread, step->way);
    if (model_the.fault != MODEL_FINE || model_the.cut_off) return;
    model_log(state, step->thread, step->result);
    model_advance(state, step->thread);
  }
  if (model_the.fault == MODEL_FINE) model_tidy(state);
}

/* Checks a state without a next step: a thread that has not ended is stuck. */
static void check_end(const model_state *state) {
  bool crashed = false, stuck = false, on_memory = false;
  const char *who = "";
  for (int i = 0; i < model_the.n_threads; i++) {
    const model_run *run = &state->runs[i];
    if (run->fate == MODEL_CRASHED) crashed = true;
    if (run->fate != MODEL_ALIVE) continue;
    if (model_ways(state, i) > 0) return;
    stuck = true;
    if (run->pending.action == MODEL_AWAIT)
      on_memory = true;
    else
      who = model_the.threads[i].name;
  }
  if (!stuck || (crashed && model_the.calm && *who == 0)) return;
  model_fail(MODEL_STUCK, "%s waits for ever",
             *who != 0 || !on_memory ? who : "a reader of memory");
}

static void explore_from_start(search *s) {
  frame *first = push(s);
  model_initial(first->state);
  first->state->crashes_left = s->options->crashes;
  for (int i = 0; i < model_the.n_threads; i++) model_advance(first->state, i);
  (void)model_seen_add(&s->seen, first->state);
  check_end(first->state);
  while (s->depth > 0 && model_the.fault == MODEL_FINE) {
    if (!next_step(&s->frames[s->depth - 1])) {
      s->depth--;
      continue;
    }
    frame *to = push(s), *from = to - 1;
    model_copy(to->state, from->state);
    s->result->steps++;
    model_the.cut_off = false;
    take_step(to->state, &from->step);
    if (model_the.cut_off) {
      s->result->cut_off++;
      s->depth--;
      continue;
    }
    if (model_the.fault == MODEL_FINE && !model_seen_add(&s->seen, to->state)) {
      s->depth--;
      continue;
    }
    if (model_the.fault == MODEL_FINE) check_end(to->state);
    if (s->seen.n > s->options->states_max)
      model_fail(MODEL_TOO_LARGE, "there are too many states");
  }
}

void model_explore(const model_options *options, bool show,
                   model_result *result) {
  *result = (model_result){.fault = MODEL_FINE};
  search s = {.result = result, .options = options};
  model_the.plants = options->plants;
  model_the.calm = options->calm;
  model_the.values_max = options->values_max;
  explore_from_start(&s);
  result->fault = model_the.fault;
  memcpy(result->what, model_the.what, sizeof result->what);
  result->states = s.seen.n;
  if (show && result->fault != MODEL_FINE) {
    printf("# %s; this schedule leads there:\n", result->what);
    for (unsigned i = 0; i + 1 < s.depth; i++)
      model_print_step(i + 1, &s.frames[i].step);
  }
  for (unsigned i = 0; i < s.room; i++) free(s.frames[i].state);
  free(s.frames);
  free(s.seen.keys);
}
