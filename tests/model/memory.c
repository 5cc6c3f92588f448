/* C11's memory orders as a machine. See model.h for what it covers.
 *
 * Each location has a list of the values that it takes, in modification order.
 * A thread's view says for each location up to where it has seen that list: it
 * may read what it saw last, or anything later. A release store carries the
 * view of its thread, and an acquire load takes over what it carries. Every
 * thread has a time as well, part of views, so that a view also tells which
 * accesses to plain memory have happened before. (Kang, Hur, Lahav, Vafeiadis,
 * Dreyer: A promising semantics for relaxed-memory concurrency, 2017, without
 * promises; the rules for seq_cst follow C++20: they go no further back than
 * the last seq_cst operation on that location, in the order in which they are
 * done here.) */
#include <stdatomic.h>
#include <string.h>

#include "state.h"

static void join(model_view *into, const model_view *from) {
  for (size_t i = 0; i < sizeof into->at; i++)
    if (from->at[i] > into->at[i]) into->at[i] = from->at[i];
}

static void raise_to(uint8_t *at, size_t value) {
  if (value > *at) *at = (uint8_t)value;
}

static bool acquires(uint8_t order) {
  return order == memory_order_acquire || order == memory_order_consume ||
         order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static bool releases(uint8_t order) {
  return order == memory_order_release || order == memory_order_acq_rel ||
         order == memory_order_seq_cst;
}

/* ---- possible choices ---------------------------------------------------- */

static size_t floor_of(const model_state *state, int thread) {
  const model_run *run = &state->runs[thread];
  uint8_t place = run->pending.place;
  size_t seen = run->seen.at[place];
  size_t sc = state->sc.at[place];
  return run->pending.order == memory_order_seq_cst && sc > seen ? sc : seen;
}

/* Returns true if a message can follow directly after the one at `i`. */
static bool may_follow(const model_location *l, size_t i) {
  return i + 1 == l->n || l->messages[i + 1].updates == 0;
}

/* Returns the index of the message that is read, or that the new one follows,
 * in choice `way`; 0 is the latest. Returns SIZE_MAX if that choice does not
 * exist. */
static size_t base_of(const model_state *state, int thread, unsigned way) {
  const model_op *op = &state->runs[thread].pending;
  const model_location *l = &state->locations[op->place];
  size_t floor = floor_of(state, thread);
  for (size_t i = (size_t)l->n; i-- > floor;) {
    if (op->action != MODEL_LOAD && !may_follow(l, i)) continue;
    if (way-- == 0) return i;
  }
  return SIZE_MAX;
}

static unsigned ways_at_location(const model_state *state, int thread) {
  unsigned ways = 0;
  while (base_of(state, thread, ways) != SIZE_MAX) ways++;
  return ways;
}

static bool newer(const model_state *state, int thread, size_t place) {
  return state->runs[thread].seen.at[place] + 1u < state->locations[place].n;
}

static int other_exit(const model_state *state, int thread) {
  int mine = model_the.threads[thread].process;
  for (int i = 0; i < MODEL_THREADS; i++)
    if (i != mine && state->exits[i].on) return i;
  return -1;
}

unsigned model_ways(const model_state *state, int thread) {
  const model_run *run = &state->runs[thread];
  const model_op *op = &run->pending;
  if (run->fate != MODEL_ALIVE) return 0;
  switch ((model_action)op->action) {
    case MODEL_LOAD:
    case MODEL_STORE:
    case MODEL_EXCHANGE:
    case MODEL_ADD:
    case MODEL_OR:
      return ways_at_location(state, thread);
    case MODEL_AWAIT:
      return newer(state, thread, op->place) ||
             newer(state, thread, (size_t)op->value);
    case MODEL_CHOOSE:
      return (unsigned)op->value;
    case MODEL_WAIT:
      return state->bells[op->place].on ||
             state->bells[op->place + MODEL_NOTES].on ||
             (op->value != 0 && other_exit(state, thread) >= 0);
    case MODEL_LOCK:
      return !state->locks[op->place].on;
    case MODEL_DONE:
    case MODEL_FENCE:
    case MODEL_BELL_RING:
    case MODEL_BELL_QUIET:
    case MODEL_LOOK:
    case MODEL_UNLOCK:
    case MODEL_HANG_UP:
      break;
  }
  return 1;
}

/* Returns true if the thread's step can go first without loss. A store that is
 * not seq_cst leaves the others' choices as they were and adds one; in an owned
 * location it has a single place. A value loaded by the owner is changed by no
 * other thread. An unlock only enables others. */
bool model_eager(const model_state *state, int thread) {
  const model_run *run = &state->runs[thread];
  const model_op *op = &run->pending;
  if (run->fate != MODEL_ALIVE) return false;
  if (op->action == MODEL_UNLOCK) return true;
  if (op->action != MODEL_STORE && op->action != MODEL_LOAD) return false;
  if (op->order == memory_order_seq_cst) return false;
  if (!model_the.places[op->place].owned) return false;
  if (op->action == MODEL_LOAD && state->locks[0].on != thread + 1)
    return false;
  return ways_at_location(state, thread) == 1;
}

/* ---- atomic operations --------------------------------------------------- */

static void tick(model_run *run, int thread) {
  uint8_t *time = &run->seen.at[MODEL_LOCATIONS + thread];
  if (*time == UINT8_MAX) {
    model_fail(MODEL_TOO_LARGE, "a thread's time runs over");
    return;
  }
  ++*time;
  raise_to(&run->acquirable.at[MODEL_LOCATIONS + thread], *time);
}

static void read_from(model_state *state, int thread, const model_message *m,
                      size_t index) {
  model_run *run = &state->runs[thread];
  const model_op *op = &run->pending;
  raise_to(&run->seen.at[op->place], index);
  raise_to(&run->acquirable.at[op->place], index);
  join(&run->acquirable, &m->view);
  if (acquires(op->order)) join(&run->seen, &m->view);
  if (op->order == memory_order_seq_cst)
    raise_to(&state->sc.at[op->place], index);
}

/* Moves the messages at `index` and later up by one. */
static void make_room(model_state *state, size_t place, size_t index) {
  model_location *l = &state->locations[place];
  memmove(&l->messages[index + 1], &l->messages[index],
          (size_t)(l->n - index) * sizeof l->messages[0]);
  l->n++;
  model_view *views[MODEL_THREADS * 4 + MODEL_BELLS + MODEL_LOCKS + 1];
  size_t n = 0;
  for (int i = 0; i < MODEL_THREADS; i++) {
    views[n++] = &state->runs[i].seen;
    views[n++] = &state->runs[i].acquirable;
    views[n++] = &state->runs[i].fenced;
    views[n++] = &state->exits[i].view;
  }
  for (int i = 0; i < MODEL_BELLS; i++) views[n++] = &state->bells[i].view;
  for (int i = 0; i < MODEL_LOCKS; i++) views[n++] = &state->locks[i].view;
  views[n++] = &state->sc;
  for (size_t i = 0; i < n; i++)
    if (views[i]->at[place] >= index) views[i]->at[place]++;
  for (int i = 0; i < model_the.n_places; i++)
    for (size_t k = 0; k < state->locations[i].n; k++) {
      uint8_t *at = &state->locations[i].messages[k].view.at[place];
      if (*at >= index) ++*at;
    }
}

static bool went_back(const model_place *place, uint64_t from, uint64_t to) {
  if (place->bytes == 4) return (uint32_t)(to - from) > UINT32_MAX / 2;
  return to - from > UINT64_MAX / 2;
}

/* Adds a message after the one at `base`. */
static void write_after(model_state *state, int thread, size_t base,
                        uint64_t value, const model_view *inherited) {
  model_run *run = &state->runs[thread];
  const model_op *op = &run->pending;
  model_location *l = &state->locations[op->place];
  const model_place *place = &model_the.places[op->place];
  if (place->owned && base + 1 < l->n)
    model_fail(MODEL_UNKNOWN, "%s is not owned", place->name);
  if (model_the.values_max > 0 && l->n == model_the.values_max) {
    model_the.cut_off = true;
    return;
  }
  if (l->n == MODEL_MESSAGES) {
    model_fail(MODEL_TOO_LARGE, "%s has too many values", place->name);
    return;
  }
  if (place->counter && went_back(place, l->messages[base].value, value))
    model_fail(MODEL_BACK, "%s goes back from %llu to %llu", place->name,
               (unsigned long long)l->messages[base].value,
               (unsigned long long)value);
  size_t index = base + 1;
  model_message made = {.value = value};
  if (inherited != NULL) {
    made.view = *inherited;
    made.updates = 1;
  }
  if (index < l->n)
    make_room(state, op->place, index);
  else
    l->n++;
  raise_to(&run->seen.at[op->place], index);
  raise_to(&run->acquirable.at[op->place], index);
  join(&made.view, releases(op->order) ? &run->seen : &run->fenced);
  raise_to(&made.view.at[op->place], index);
  l->messages[index] = made;
  if (op->order == memory_order_seq_cst)
    raise_to(&state->sc.at[op->place], index);
  if (releases(op->order)) tick(run, thread);
}

static uint64_t update(model_state *state, int thread, size_t base) {
  const model_op *op = &state->runs[thread].pending;
  const model_message from = state->locations[op->place].messages[base];
  uint64_t value = op->value;
  if (op->action == MODEL_ADD) value += from.value;
  if (op->action == MODEL_OR) value |= from.value;
  if (op->bytes < 8) value &= (UINT64_C(1) << op->bytes * 8) - 1;
  read_from(state, thread, &from, base);
  write_after(state, thread, base, value, &from.view);
  return from.value;
}

static void fence(model_state *state, int thread) {
  model_run *run = &state->runs[thread];
  uint8_t order = run->pending.order;
  if (acquires(order)) join(&run->seen, &run->acquirable);
  if (order == memory_order_seq_cst) {
    for (size_t i = 0; i < MODEL_LOCATIONS; i++) {
      raise_to(&state->sc.at[i], run->seen.at[i]);
      raise_to(&run->seen.at[i], state->sc.at[i]);
    }
    join(&run->acquirable, &run->seen);
  }
  if (!releases(order)) return;
  run->fenced = run->seen;
  tick(run, thread);
}

/* ---- kernel objects ------------------------------------------------------ */

static void take_over(model_run *run, const model_view *view) {
  join(&run->seen, view);
  join(&run->acquirable, view);
}

static void hand_on(model_run *run, int thread, model_object *object) {
  join(&object->view, &run->seen);
  tick(run, thread);
}

static uint64_t look(model_state *state, int thread) {
  model_run *run = &state->runs[thread];
  const model_object *bell = &state->bells[run->pending.place];
  uint64_t found = 0;
  if (bell->on) {
    take_over(run, &bell->view);
    found |= MODEL_RUNG;
  }
  const model_object *note = bell + MODEL_NOTES;
  if (note->on) {
    take_over(run, &note->view);
    found |= MODEL_NOTED;
  }
  int ended = other_exit(state, thread);
  if (ended >= 0) {
    take_over(run, &state->exits[ended].view);
    found |= MODEL_HUNG_UP;
  }
  return found;
}

static uint64_t at_kernel(model_state *state, int thread) {
  model_run *run = &state->runs[thread];
  model_object *bell = &state->bells[run->pending.place];
  model_object *lock = &state->locks[run->pending.place];
  model_object *object;
  switch ((model_action)run->pending.action) {
    case MODEL_BELL_RING:
      bell->on = 1;
      hand_on(run, thread, bell);
      return 0;
    case MODEL_BELL_QUIET:
      if (bell->on) take_over(run, &bell->view);
      bell->on = 0;
      return 0;
    case MODEL_LOCK:
      lock->on = (uint8_t)(thread + 1);
      take_over(run, &lock->view);
      return 0;
    case MODEL_UNLOCK:
      lock->on = 0;
      hand_on(run, thread, lock);
      return 0;
    case MODEL_HANG_UP:
      object = &state->exits[model_the.threads[thread].process];
      object->on = 1;
      hand_on(run, thread, object);
      return 0;
    default:
      return look(state, thread);
  }
}

uint64_t model_perform(model_state *state, int thread, unsigned way) {
  const model_op *op = &state->runs[thread].pending;
  const model_location *l = &state->locations[op->place];
  size_t base;
  switch ((model_action)op->action) {
    case MODEL_LOAD:
      base = base_of(state, thread, way);
      read_from(state, thread, &l->messages[base], base);
      return l->messages[base].value;
    case MODEL_STORE:
      write_after(state, thread, base_of(state, thread, way), op->value, NULL);
      return 0;
    case MODEL_EXCHANGE:
    case MODEL_ADD:
    case MODEL_OR:
      return update(state, thread, base_of(state, thread, way));
    case MODEL_FENCE:
      fence(state, thread);
      return 0;
    case MODEL_CHOOSE:
      return way;
    case MODEL_DONE:
    case MODEL_AWAIT:
      return 0;
    default:
      return at_kernel(state, thread);
  }
}

/* Ends a thread. A thread that sees the crash of a process also sees all that
 * the process did before. */
void model_end(model_state *state, int thread, model_fate fate) {
  model_run *run = &state->runs[thread];
  run->fate = fate;
  run->pending = (model_op){.action = MODEL_DONE};
  run->log_bytes = 0;
  if (fate != MODEL_CRASHED) return;
  model_object *exit = &state->exits[model_the.threads[thread].process];
  join(&exit->view, &run->seen);
  exit->on = 1;
}
