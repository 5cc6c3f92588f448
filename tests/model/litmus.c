/* Litmus tests with known outcomes: they show that the model allows exactly
 * what C11 allows. Each thread keeps the values that it has read; the last
 * thread to end compares them. The programs are compiled as the tested code
 * is. */
#include "litmus.h"

#include <stdatomic.h>
#include <string.h>

#include "model.h"

enum { X, Y, Z, LOCATIONS, READS = 4, THREADS_MAX = 3 };

/* Values that the threads read, in arena memory that is only written under a
 * lock. */
typedef struct outcome {
  uint32_t ended;
  uint32_t read[THREADS_MAX][READS];
} outcome;

typedef struct self {
  int index;
  const litmus_test *test;
  uint32_t read[READS];
} self;

static atomic_uint *places[LOCATIONS];
static outcome *all;
static self selves[THREADS_MAX];

static uint32_t load(int place, litmus_order order) {
  switch (order) {
    case LITMUS_RELAXED:
      return atomic_load_explicit(places[place], memory_order_relaxed);
    case LITMUS_ACQ_REL:
      return atomic_load_explicit(places[place], memory_order_acquire);
    case LITMUS_SEQ_CST:
      break;
  }
  return atomic_load(places[place]);
}

static void store(int place, uint32_t value, litmus_order order) {
  switch (order) {
    case LITMUS_RELAXED:
      atomic_store_explicit(places[place], value, memory_order_relaxed);
      return;
    case LITMUS_ACQ_REL:
      atomic_store_explicit(places[place], value, memory_order_release);
      return;
    case LITMUS_SEQ_CST:
      atomic_store(places[place], value);
      return;
  }
}

/* Steps of a thread, as text: "Wx1" stores 1 to x, "Rx" loads it, "F" is a
 * seq_cst fence, "Ex2" exchanges, "C" is a compare-exchange; after each the
 * order: '.' relaxed, ':' release or acquire, '!' seq_cst. */
static void run_steps(self *me, const char *at) {
  int reads = 0;
  while (*at != 0) {
    char what = *at++;
    int place = X;
    uint32_t value = 0;
    if (what != 'F') place = *at++ - 'x';
    if (what == 'W' || what == 'E') value = (uint32_t)(*at++ - '0');
    litmus_order order = *at == '.'   ? LITMUS_RELAXED
                         : *at == ':' ? LITMUS_ACQ_REL
                                      : LITMUS_SEQ_CST;
    at++;
    if (what == 'W') store(place, value, order);
    if (what == 'R') me->read[reads++] = load(place, order);
    if (what == 'E')
      me->read[reads++] =
          atomic_exchange_explicit(places[place], value, memory_order_relaxed);
    if (what == 'F') atomic_thread_fence(memory_order_seq_cst);
    if (what == 'C') {
      uint32_t expected = 0;
      (void)atomic_compare_exchange_weak(places[place], &expected, 1);
    }
  }
}

static bool is_outcome(const litmus_test *test) {
  int k = 0;
  for (int i = 0; i < test->threads; i++)
    for (const char *c = test->steps[i]; *c != 0; c++)
      if (*c == 'R' || *c == 'E') k++;
  const char *want = test->outcome;
  for (int i = 0; i < test->threads && k > 0; i++) {
    int reads = 0;
    for (const char *c = test->steps[i]; *c != 0; c++)
      if (*c == 'R' || *c == 'E')
        if (all->read[i][reads++] != (uint32_t)(*want++ - '0')) return false;
  }
  for (int i = X; i < LOCATIONS && *want != 0; i++, want++)
    if (model_newest(places[i]) != (uint64_t)(*want - '0')) return false;
  return true;
}

static bool turn(void *argument) {
  self *me = argument;
  run_steps(me, me->test->steps[me->index]);
  model_lock(0);
  for (int i = 0; i < READS; i++) all->read[me->index][i] = me->read[i];
  uint32_t ended = ++all->ended;
  bool is_it = ended == (uint32_t)me->test->threads && is_outcome(me->test);
  model_check(!is_it, "the outcome is reached");
  model_unlock(0);
  return false;
}

void litmus_set_up(const litmus_test *test) {
  static const char *const names[] = {"x", "y", "z"};
  static const char *const who[] = {"first", "second", "third"};
  model_begin();
  for (int i = 0; i < LOCATIONS; i++) {
    places[i] = model_alloc(sizeof *places[i]);
    model_atomic(places[i], sizeof *places[i], names[i], i + 1);
  }
  all = model_alloc(sizeof *all);
  model_plain(all, sizeof *all, "outcome");
  memset(selves, 0, sizeof selves);
  for (int i = 0; i < test->threads; i++) {
    selves[i].index = i;
    selves[i].test = test;
    model_thread(who[i], i, turn, &selves[i], sizeof selves[i]);
  }
}
