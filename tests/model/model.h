/* An exhaustive explorer of schedules for code that must be correct on weakly
 * ordered machines, and its interface to test programs.
 *
 * Code under test. The real sources,
 * src/transport_shm/{ring,send,receive,poll,wait,pair}.c, are compiled for
 * ThreadSanitizer but linked with runtime.c in place of its runtime, so that
 * every memory access and every atomic operation, with its memory order, is a
 * call to the explorer. Only sizes are changed: 2 or 4 slots, a few lines of
 * data. kernel.c stands for the operating system: bells (eventfd), events, the
 * liveness socket, locks, and a clock that stands still, so that no timeout
 * hides a lost wakeup. Addresses outside the arena are not tracked.
 *
 * Search. In each state the explorer tries every possible step of every thread:
 * each order of steps, each old value that a load may still return, each place
 * of a store in the modification order, and, if requested, the end of a process
 * between any two steps. Visited states are not followed again, and neither are
 * orders of steps that cannot make a difference (model_eager).
 *
 * Detected faults. Unordered accesses to plain memory (a record or chunk that
 * is torn, stale, or overwritten before it was taken); failed checks of a scene
 * (order, contents, nothing lost); a counter that goes back; a thread that is
 * never woken; atomic operations that the model does not cover, among them
 * compare-exchange. The protocol uses none, so spurious failures need no model;
 * if one is added, these tests fail.
 *
 * Limits.
 * - Loads that see stores which come later in the program order of a cycle of
 *   threads (load buffering), and values out of thin air, are not explored.
 *   Code that relies on read-modify-writes keeping later stores behind them
 *   (gli_shm_revoke) is therefore not verified here.
 * - seq_cst is that of C11: one order of all such operations that agrees with
 *   happens-before. C++20 guarantees a little less if seq_cst and weaker
 *   operations on one location are mixed along a chain of three threads. The
 *   protocol relies on no such chain: each pair of a store and the load after
 *   it is matched by another pair in one other thread.
 * - A crash is tried between operations on atomics, bells and locks. Crashes
 *   between plain stores need no test, because no thread can observe the
 *   difference in race-free code.
 * - Peers that write nonsense are not modelled (tests/transport_shm covers
 *   them).
 * - A poll may take back a wake that was called before it (transport.h), even
 *   if a thread is about to wait for that wake; the scenes avoid this.
 * - The scenes are small. Instructions are those at the compiler's
 *   instrumentation pass; later passes are trusted not to break race-free
 *   programs. */
#ifndef GLI_TESTS_MODEL_MODEL_H
#define GLI_TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- describing a scene -------------------------------------------------- */

/* model_begin resets everything. model_alloc returns `bytes` of the arena,
 * zeroed and aligned to a page. */
void model_begin(void);
void *model_alloc(size_t bytes);

/* Atomic locations have kinds; a planted fault applies to all of one kind. An
 * owned location is only stored to by one thread, or with lock 0 held. A
 * counter is owned, and must never go back. */
void model_atomic(volatile void *at, size_t bytes, const char *name, int kind);
void model_owned(volatile void *at, size_t bytes, const char *name, int kind);
void model_counter(volatile void *at, size_t bytes, const char *name, int kind);
/* Declares the part that is not atomic. */
void model_plain(void *at, size_t bytes, const char *name);

/* Adds a thread that calls `turn` until it returns false. The thread keeps its
 * state between calls in `self`, and depends only on `self`, on the arena and
 * on the results of the calls below. Threads of a process crash together. */
void model_thread(const char *name, int process, bool (*turn)(void *self),
                  void *self, size_t self_bytes);

/* ---- for threads --------------------------------------------------------- */

/* Blocks until one of two locations (the second may be NULL) has a newer value
 * than this thread has seen. */
void model_await(const volatile void *a, const volatile void *b);
/* Returns each of 0 .. n - 1 in some schedule. */
unsigned model_choose(unsigned n);
/* Bells and locks are kernel objects with numbers. A bell stays rung until it
 * is quieted. Bell 2 + n is a note on the liveness socket of process n; a look
 * at bell n or a wait for it covers that note too. A wait ends by the bell, the
 * note, or the crash of another process. */
void model_bell_ring(int bell);
void model_bell_quiet(int bell);
enum { MODEL_RUNG = 1, MODEL_HUNG_UP = 2, MODEL_NOTED = 4, MODEL_NOTES = 2 };
unsigned model_look(int bell); /* the events that would end a wait */
void model_wait(int bell, bool for_hang_up);
void model_hang_up(void); /* other processes see it as a crash */
void model_lock(int lock);
void model_unlock(int lock);

bool model_is_shared(const volatile void *at); /* in the arena */
/* model_self returns the `self` of the running thread; model_is_gone returns
 * true if the process has crashed or hung up. */
void *model_self(void);
bool model_is_gone(int process);
/* Returns the last value in modification order, whichever threads can see
 * it. */
uint64_t model_newest(const volatile void *at);

typedef enum model_fault {
  MODEL_FINE,
  MODEL_RACE,     /* plain memory is accessed without order */
  MODEL_STUCK,    /* a thread waits, and nothing will wake it */
  MODEL_WRONG,    /* a check of a scene failed: model_check */
  MODEL_BACK,     /* a counter went back */
  MODEL_UNKNOWN,  /* an access that the model does not cover */
  MODEL_TOO_LARGE /* the scene exceeds the limits of the explorer */
} model_fault;

/* Ends the thread and the exploration unless `fine`. */
void model_check(bool fine, const char *what);

/* ---- planted faults ------------------------------------------------------ */

typedef enum model_plant_how {
  MODEL_PLANT_NONE,
  MODEL_PLANT_ORDER, /* the operation gets the memory order `order` */
  MODEL_PLANT_AFTER, /* the store is done after the next store to `other` */
  MODEL_PLANT_LATE   /* copies to plain memory are done after a store to it */
} model_plant_how;

typedef enum model_access { MODEL_ANY, MODEL_READS, MODEL_WRITES } model_access;

/* A fault at all locations of a kind, and accesses of a kind; a
 * read-modify-write counts as either. */
typedef struct model_plant {
  model_plant_how how;
  int kind;
  model_access access;
  int order; /* memory_order */
  int other;
} model_plant;

/* ---- exploring ----------------------------------------------------------- */

typedef struct model_options {
  unsigned crashes; /* 1: one process may end at any time */
  bool calm;        /* waiting for memory that a dead process would write is
                       no fault: for scenes without a bell */
  const model_plant *plants; /* the last one has how 0; may be NULL */
  uint64_t states_max;
  /* Limit of the values of one location that some thread has not seen; 0: the
   * most that can be kept. Schedules beyond it are counted in `cut_off`, and
   * not followed. */
  size_t values_max;
} model_options;

typedef struct model_result {
  model_fault fault;
  char what[200];
  uint64_t states, steps, cut_off;
  unsigned depth;
} model_result;

/* Explores all schedules of the scene. If one has a fault and `show` is set,
 * prints its steps as comments. */
void model_explore(const model_options *options, bool show,
                   model_result *result);

#endif
