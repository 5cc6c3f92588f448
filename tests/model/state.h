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
  MODEL_BELLS = 4, /* of each process, and notes for each */
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

/* What a thread is about to do. `place`: location, bell or lock. */
typedef struct model_op {
  uint8_t action, order, place, bytes;
  uint32_t zero;
  uint64_t value;
} model_op;

/* What is known to have happened: how far in each location's order, and how far
 * in each thread's time. */
typedef struct model_view {
  uint8_t at[MODEL_LOCATIONS + MODEL_THREADS];
} model_view;

/* One value that a location had, has or will have, and what who reads it with
 * acquire order comes to know. */
typedef struct model_message {
  uint64_t value;
  model_view view;
  uint64_t updates; /* it replaced just the one before it: read-modify-write */
} model_message;

typedef struct model_location {
  uint64_t n;
  model_message messages[MODEL_MESSAGES];
} model_location;

/* Four bytes of plain memory: when they were last accessed. */
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
  /* what it knows; what it would after an acquire fence; what it passes on with
   * relaxed stores, since a release fence */
  model_view seen, acquirable, fenced;
} model_run;

typedef struct model_state {
  model_run runs[MODEL_THREADS];
  model_view sc; /* how far sequentially consistent operations have come */
  model_object bells[MODEL_BELLS], locks[MODEL_LOCKS];
  model_object exits[MODEL_THREADS]; /* of processes */
  uint64_t crashes_left;
  model_word words[MODEL_WORDS];
  uint8_t plain[MODEL_WORDS * 4];
  model_location locations[MODEL_LOCATIONS];
  uint8_t self[MODEL_THREADS][MODEL_SELF_BYTES]; /* when the turn began */
  uint8_t log[MODEL_THREADS][MODEL_LOG_BYTES];   /* what it has read since */
} model_state;

/* ---- what does not change in an exploration ------------------------------ */

typedef struct model_place {
  const char *name;
  volatile void *at;
  uint8_t bytes;
  bool counter;
  bool owned; /* one thread stores there, or who holds lock 0 */
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
  bool cut_off; /* the last step went beyond that */
  model_fault fault;
  char what[200];
} model_scene;

extern model_scene model_the;

/* Remember a fault; the first counts. */
void model_fail(model_fault fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* scene.c: the arena. Locations and words from 0; -1: neither, or outside. */
int model_location_of(const volatile void *at);
int model_word_of(const volatile void *at);
void model_initial(model_state *state);

/* memory.c: the operations. A pending one can be done in so many ways; 0: it
 * has to wait. */
unsigned model_ways(const model_state *state, int thread);
uint64_t model_perform(model_state *state, int thread, unsigned way);
/* Whatever the others do meanwhile, and whenever: they could as well do it
 * after this. */
bool model_eager(const model_state *state, int thread);
void model_end(model_state *state, int thread, model_fate fate);
void model_plain_read(model_state *state, int thread, int word);
void model_plain_write(model_state *state, int thread, int word);
/* Drop what nobody can see any more, so that equal states look equal. */
void model_tidy(model_state *state);

/* runtime.c: run a thread until it is about to do something that others may
 * notice, or ends. */
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
