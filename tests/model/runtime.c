/* The functions that the compiler's ThreadSanitizer instrumentation calls, and
 * the execution of one thread from one visible operation to the next.
 *
 * A thread is a function of the values that it reads. To continue it, its
 * memory is reset to the start of the turn and the turn runs again, with the
 * values read since then taken from a log. So no stacks are saved, and a
 * thread's state is plain bytes. Values of plain memory are in the log too.
 * Writes take effect in the run that first makes them; in later runs they only
 * change the arena, from which no other thread reads them. */
#include "runtime.h"

#include <stdatomic.h>
#include <string.h>

#include "state.h"

enum {
  TURNS_MAX = 64,
  HELD_MAX = 8,
  WRITTEN_MAX = 4,
  LOG_VALUE = 1,
  LOG_PLAIN = 2
};

/* A plain copy that a planted fault delays. */
typedef struct held_copy {
  void *to;
  const void *from;
  size_t bytes;
} held_copy;

/* Plain memory being written. The call comes before the store, and for copies
 * of structs the call for the source comes between them. */
typedef struct written {
  uint8_t *at;
  size_t bytes;
  int calls; /* since then */
} written;

static struct {
  bool running;
  int thread;
  model_state *state;
  size_t log_at;
  jmp_buf back;
  written written[WRITTEN_MAX];
  int n_written;
  bool holding; /* a planted fault delays a store */
  model_op held;
  held_copy copies[HELD_MAX];
  int n_copies;
} now;

static _Noreturn void leave(void) {
  now.running = false;
  longjmp(now.back, 1);
}

static bool replaying(void) {
  return now.log_at < now.state->runs[now.thread].log_bytes;
}

/* ---- the log ------------------------------------------------------------- */

static void append(model_state *state, int thread, uint8_t tag,
                   const void *bytes, size_t n) {
  model_run *run = &state->runs[thread];
  if (run->log_bytes + 1 + n > MODEL_LOG_BYTES) {
    model_fail(MODEL_TOO_LARGE, "a turn of %s reads too much",
               model_the.threads[thread].name);
    return;
  }
  uint8_t *at = state->log[thread] + run->log_bytes;
  *at = tag;
  memcpy(at + 1, bytes, n);
  run->log_bytes += (uint32_t)(1 + n);
}

void model_log(model_state *state, int thread, uint64_t value) {
  append(state, thread, LOG_VALUE, &value, sizeof value);
}

static void recall(uint8_t tag, void *bytes, size_t n) {
  const uint8_t *at = now.state->log[now.thread] + now.log_at;
  if (*at != tag) {
    model_fail(MODEL_UNKNOWN, "%s does not do the same again",
               model_the.threads[now.thread].name);
    leave();
  }
  memcpy(bytes, at + 1, n);
  now.log_at += 1 + n;
}

/* ---- plain memory -------------------------------------------------------- */

static uint8_t *truth_of(const uint8_t *at) {
  size_t word = (size_t)model_word_of(at);
  return &now.state->plain[word * 4 + (uintptr_t)at % 4];
}

/* Applies writes to the state; all of them if this is the `last` chance. */
static void settle_writes(bool last) {
  int kept = 0;
  for (int i = 0; i < now.n_written; i++) {
    written w = now.written[i];
    for (size_t k = 0; k < w.bytes; k++) *truth_of(w.at + k) = w.at[k];
    if (!last && ++w.calls < 2) now.written[kept++] = w;
  }
  now.n_written = kept;
}

static _Noreturn void unknown(const char *what, const volatile void *at) {
  int place = model_location_of(at);
  model_fail(
      MODEL_UNKNOWN, "%s %s %s", model_the.threads[now.thread].name, what,
      place < 0 ? "memory that has no name" : model_the.places[place].name);
  leave();
}

static void check_word(uint8_t *at, size_t i, bool writes) {
  int word = model_word_of(at + i);
  if (word < 0)
    unknown(
        writes ? "writes, and not atomically," : "reads, and not atomically,",
        at + i);
  at[i] = *truth_of(at + i);
  if (i != 0 && (uintptr_t)(at + i) % 4 != 0) return;
  if (writes)
    model_plain_write(now.state, now.thread, word);
  else
    model_plain_read(now.state, now.thread, word);
}

void model_read(const volatile void *address, size_t bytes) {
  uint8_t *at = (uint8_t *)(uintptr_t)address;
  if (!now.running || bytes == 0 || !model_is_shared(at)) return;
  settle_writes(false);
  if (replaying()) {
    recall(LOG_PLAIN, at, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i++) check_word(at, i, false);
  append(now.state, now.thread, LOG_PLAIN, at, bytes);
  now.log_at = now.state->runs[now.thread].log_bytes;
  if (model_the.fault != MODEL_FINE) leave();
}

void model_write(const volatile void *address, size_t bytes) {
  uint8_t *at = (uint8_t *)(uintptr_t)address;
  if (!now.running || bytes == 0 || !model_is_shared(at)) return;
  settle_writes(false);
  if (replaying()) return;
  for (size_t i = 0; i < bytes; i++) check_word(at, i, true);
  now.written[now.n_written++] = (written){at, bytes, 0};
  if (model_the.fault != MODEL_FINE) leave();
}

/* ---- visible operations -------------------------------------------------- */

static uint64_t request(model_op op) {
  settle_writes(true);
  uint64_t result;
  if (replaying()) {
    recall(LOG_VALUE, &result, sizeof result);
    return result;
  }
  now.state->runs[now.thread].pending = op;
  leave();
}

static uint64_t request_kernel(model_action action, int object,
                               uint64_t value) {
  return request((model_op){
      .action = (uint8_t)action, .place = (uint8_t)object, .value = value});
}

static bool planted_at(const model_plant *plant, const model_op *op) {
  if (plant->kind != model_the.places[op->place].kind) return false;
  if (plant->access == MODEL_ANY) return true;
  bool writes = plant->access == MODEL_WRITES;
  return op->action == (writes ? MODEL_STORE : MODEL_LOAD) ||
         op->action == MODEL_EXCHANGE || op->action == MODEL_ADD ||
         op->action == MODEL_OR;
}

/* Performs operations that were delayed until a store to this kind of
 * location. */
static void release_held(const model_plant *plant, int kind) {
  if (plant->how == MODEL_PLANT_AFTER && now.holding && plant->other == kind) {
    now.holding = false;
    (void)request(now.held);
  }
  if (plant->how != MODEL_PLANT_LATE || plant->kind != kind) return;
  for (int i = 0; i < now.n_copies; i++) {
    model_write(now.copies[i].to, now.copies[i].bytes);
    memcpy(now.copies[i].to, now.copies[i].from, now.copies[i].bytes);
  }
  now.n_copies = 0;
}

static uint64_t request_at(model_op op) {
  const model_plant *p = model_the.plants;
  for (; p != NULL && p->how != MODEL_PLANT_NONE; p++) {
    if (!planted_at(p, &op)) continue;
    if (p->how == MODEL_PLANT_ORDER) op.order = (uint8_t)p->order;
    if (p->how == MODEL_PLANT_AFTER && !now.holding) {
      now.holding = true;
      now.held = op;
      return 0;
    }
  }
  uint64_t result = request(op);
  if (op.action != MODEL_STORE) return result;
  for (p = model_the.plants; p != NULL && p->how != MODEL_PLANT_NONE; p++)
    release_held(p, model_the.places[op.place].kind);
  return result;
}

/* ---- atomics ------------------------------------------------------------- */

static uint64_t fetch(const volatile void *at, size_t bytes) {
  if (bytes == 1) return *(const volatile uint8_t *)at;
  if (bytes == 2) return *(const volatile uint16_t *)at;
  if (bytes == 4) return *(const volatile uint32_t *)at;
  return *(const volatile uint64_t *)at;
}

static void put(volatile void *at, size_t bytes, uint64_t value) {
  if (bytes == 1)
    *(volatile uint8_t *)at = (uint8_t)value;
  else if (bytes == 2)
    *(volatile uint16_t *)at = (uint16_t)value;
  else if (bytes == 4)
    *(volatile uint32_t *)at = (uint32_t)value;
  else
    *(volatile uint64_t *)at = value;
}

/* Performs an atomic operation outside the arena, which no other thread
 * accesses. */
static uint64_t done_alone(model_action action, volatile void *at, size_t bytes,
                           uint64_t value) {
  uint64_t old = fetch(at, bytes);
  if (action == MODEL_LOAD) return old;
  if (action == MODEL_ADD) value += old;
  if (action == MODEL_OR) value |= old;
  put(at, bytes, value);
  return old;
}

uint64_t model_operate(model_action action, const volatile void *address,
                       size_t bytes, uint64_t value, int order) {
  volatile void *at = (volatile void *)(uintptr_t)address;
  if (!now.running || !model_is_shared(at))
    return done_alone(action, at, bytes, value);
  int place = model_location_of(at);
  if (place < 0) unknown("accesses, atomically,", at);
  if (model_the.places[place].bytes != bytes) unknown("accesses a part of", at);
  return request_at((model_op){.action = (uint8_t)action,
                               .order = (uint8_t)order,
                               .place = (uint8_t)place,
                               .bytes = (uint8_t)bytes,
                               .value = value});
}

/* Reports an operation that the model does not cover. The code under test uses
 * none, in particular no weak compare-exchange, which may fail spuriously. */
_Noreturn void model_not_covered(const char *what) {
  model_fail(MODEL_UNKNOWN, "%s uses %s, which the model does not cover",
             model_the.threads[now.thread].name, what);
  leave();
}

void model_fence(int order) {
  if (!now.running) return;
  (void)request((model_op){.action = MODEL_FENCE, .order = (uint8_t)order});
}

static bool kept_back(void *to, const void *from, size_t bytes) {
  const model_plant *p = model_the.plants;
  for (; now.running && p != NULL && p->how != MODEL_PLANT_NONE; p++) {
    if (p->how != MODEL_PLANT_LATE || !model_is_shared(to)) continue;
    if (now.n_copies == HELD_MAX) return false;
    now.copies[now.n_copies++] = (held_copy){to, from, bytes};
    return true;
  }
  return false;
}

void *model_memcpy(void *to, const void *from, size_t bytes) {
  if (bytes == 0 || kept_back(to, from, bytes)) return to;
  model_read(from, bytes);
  model_write(to, bytes);
  return memcpy(to, from, bytes);
}

/* ---- for scenes ---------------------------------------------------------- */

void model_await(const volatile void *a, const volatile void *b) {
  int first = model_location_of(a);
  int second = b == NULL ? first : model_location_of(b);
  (void)request_kernel(MODEL_AWAIT, first, (uint64_t)second);
}

unsigned model_choose(unsigned n) {
  return (unsigned)request_kernel(MODEL_CHOOSE, 0, n);
}

void model_bell_ring(int bell) {
  (void)request_kernel(MODEL_BELL_RING, bell, 0);
}

void model_bell_quiet(int bell) {
  (void)request_kernel(MODEL_BELL_QUIET, bell, 0);
}

unsigned model_look(int bell) {
  return (unsigned)request_kernel(MODEL_LOOK, bell, 0);
}

void model_wait(int bell, bool for_hang_up) {
  (void)request_kernel(MODEL_WAIT, bell, for_hang_up);
}

void model_hang_up(void) {
  (void)request_kernel(MODEL_HANG_UP, 0, 0);
}

void model_lock(int lock) {
  (void)request_kernel(MODEL_LOCK, lock, 0);
}

void model_unlock(int lock) {
  (void)request_kernel(MODEL_UNLOCK, lock, 0);
}

void *model_self(void) {
  return model_the.threads[now.thread].self;
}

bool model_is_gone(int process) {
  return now.state->exits[process].on != 0;
}

uint64_t model_newest(const volatile void *at) {
  const model_location *l = &now.state->locations[model_location_of(at)];
  return l->messages[l->n - 1].value;
}

void model_check(bool fine, const char *what) {
  if (fine) return;
  model_fail(MODEL_WRONG, "%s: %s", model_the.threads[now.thread].name, what);
  leave();
}

/* ---- running ------------------------------------------------------------- */

static void prepare(void) {
  const model_state *state = now.state;
  const model_code *code = &model_the.threads[now.thread];
  memcpy(code->self, state->self[now.thread], code->self_bytes);
  for (int i = 0; i < model_the.n_segments; i++) {
    const model_segment *s = &model_the.segments[i];
    memcpy(s->at, state->plain + s->first * 4, s->words * 4);
  }
  now.log_at = 0;
  now.n_written = 0;
  now.holding = false;
  now.n_copies = 0;
  now.running = true;
}

void model_advance(model_state *state, int thread) {
  const model_code *code = &model_the.threads[thread];
  now.state = state;
  now.thread = thread;
  for (volatile int turns = 0; turns < TURNS_MAX; turns++) {
    prepare();
    if (setjmp(now.back) != 0) return;
    bool more = code->turn(code->self);
    settle_writes(true);
    now.running = false;
    memcpy(state->self[thread], code->self, code->self_bytes);
    state->runs[thread].log_bytes = 0;
    if (!more) {
      model_end(state, thread, MODEL_ENDED);
      return;
    }
  }
  model_fail(MODEL_UNKNOWN, "%s does nothing that others can see, for ever",
             code->name);
}
