/* Inside the explorer: the state of a scene between two steps. It is copied,
 * compared and hashed as bytes, so it holds no padding that could differ. */
#ifndef GLI_TESTS_MODEL_STATE_H
#define GLI_TESTS_MODEL_STATE_H

#include <setjmp.h>

#include "model.h"

enum {
  MODEL_THREADS = 3,
  MODEL_LOCATIONS = 37,
  MODEL_MESSAGES = 14,
  MODEL_BELLS = 4, /* one bell and one note per process */
  MODEL_LOCKS = 4,
  MODEL_SEGMENTS = 24,
  MODEL_WORDS = 2048,
  MODEL_LOG_BYTES = 6144,
  MODEL_SELF_BYTES = 8192,
  MODEL_ARENA_BYTES = 96 * 1024
};

typedef enum model_action {
  MODEL_DONE,
  MODEL_LOAD,
  MODEL_STORE,
  MODEL_EXCHANGE,
  MODEL_ADD,
  MODEL_OR,
  MODEL_FENCE,
  MODEL_AWAIT,
  MODEL_CHOOSE,
  MODEL_BELL_RING,
  MODEL_BELL_QUIET,
  MODEL_LOOK,
  MODEL_WAIT,
  MODEL_HANG_UP,
  MODEL_LOCK,
  MODEL_UNLOCK
} model_action;

/* The next operation of a thread. `place`: location, bell or lock. */
typedef struct model_op {
  uint8_t action, order, place, bytes;
  uint32_t zero;
  uint64_t value;
} model_op;

/* A view: how far a thread has seen each location's order, and each thread's
 * time. */
typedef struct model_view {
  uint8_t at[MODEL_LOCATIONS + MODEL_THREADS];
} model_view;

/* One value in a location's modification order, and the view that an acquire
 * load of it gains. */
typedef struct model_message {
  uint64_t value;
  model_view view;
  uint64_t updates; /* read-modify-write: nothing may come between it and the
                       message before */
} model_message;

typedef struct model_location {
  uint64_t n;
  model_message messages[MODEL_MESSAGES];
} model_location;

/* Four bytes of plain memory, with the times of the last accesses. */
typedef struct model_word {
  uint8_t writer, written, read[MODEL_THREADS];
} model_word;

typedef struct model_object { /* a bell or a lock */
  uint8_t on, zero[7];
  model_view view;
} model_object;

typedef enum model_fate { MODEL_ALIVE, MODEL_ENDED, MODEL_CRASHED } model_fate;

typedef struct model_run {
  model_op pending;
  uint32_t fate, log_bytes;
  /* Views: of the thread; after an acquire fence; passed on with relaxed stores
   * since a release fence. */
  model_view seen, acquirable, fenced;
} model_run;

typedef struct model_state {
  model_run runs[MODEL_THREADS];
  model_view sc; /* view of the seq_cst operations */
  model_object bells[MODEL_BELLS], locks[MODEL_LOCKS];
  model_object exits[MODEL_THREADS]; /* of processes */
  uint64_t crashes_left;
  model_word words[MODEL_WORDS];
  uint8_t plain[MODEL_WORDS * 4];
  model_location locations[MODEL_LOCATIONS];
  uint8_t self[MODEL_THREADS][MODEL_SELF_BYTES]; /* at the start of the turn */
  uint8_t log[MODEL_THREADS][MODEL_LOG_BYTES];   /* values read since */
} model_state;

/* ---- constants of an exploration ----------------------------------------- */

typedef struct model_place {
  const char *name;
  volatile void *at;
  uint8_t bytes;
  bool counter;
  bool owned; /* stored to by one thread, or with lock 0 held */
  int kind;
} model_place;

typedef struct model_segment { /* of plain memory */
  const char *name;
  uint8_t *at;
  size_t first, words;
} model_segment;

typedef struct model_code {
  const char *name;
  int process;
  bool (*turn)(void *);
  void *self;
  size_t self_bytes;
} model_code;

typedef struct model_scene {
  model_place places[MODEL_LOCATIONS];
  model_segment segments[MODEL_SEGMENTS];
  model_code threads[MODEL_THREADS];
  int n_places, n_segments, n_threads;
  size_t n_words, used;
  const model_plant *plants;
  bool calm;
  size_t values_max;
  bool cut_off; /* the last step exceeded values_max */
  model_fault fault;
  char what[200];
} model_scene;

extern model_scene model_the;

/* Records a fault; the first one counts. */
void model_fail(model_fault fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* scene.c: the arena. Return a location or word from 0, or -1 if the address is
 * neither. */
int model_location_of(const volatile void *at);
int model_word_of(const volatile void *at);
void model_initial(model_state *state);

/* memory.c: the operations. model_ways returns the number of ways in which the
 * pending one can be done; 0: it must wait. */
unsigned model_ways(const model_state *state, int thread);
uint64_t model_perform(model_state *state, int thread, unsigned way);
/* Returns true if the step can go first: any steps of other threads could as
 * well come after it. */
bool model_eager(const model_state *state, int thread);
void model_end(model_state *state, int thread, model_fate fate);
void model_plain_read(model_state *state, int thread, int word);
void model_plain_write(model_state *state, int thread, int word);
/* Drops values that no thread can see any more, so that equal states look
 * equal. */
void model_tidy(model_state *state);

/* runtime.c: runs a thread until its next visible operation, or its end. */
void model_log(model_state *state, int thread, uint64_t value);
void model_advance(model_state *state, int thread);

/* trace.c */
typedef struct model_step {
  model_op op;
  int thread;
  unsigned way;
  bool crash;
  uint64_t result;
} model_step;
void model_print_step(unsigned number, const model_step *step);

#endif
