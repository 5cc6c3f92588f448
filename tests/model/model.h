/* An exhaustive explorer of schedules, for code that must be right on weakly
 * ordered machines: what it is, and what test programs see of it.
 *
 * What is run. The real code, not a copy: src/transport_shm/{ring,send,receive,
 * poll,wait,pair}.c, compiled for ThreadSanitizer but linked with runtime.c in
 * place of its runtime, so that every access to memory and every atomic
 * operation, with its memory order, is a call to the explorer. Only sizes are
 * changed: 2 or 4 slots, a few lines of data. kernel.c stands for the operating
 * system: bells (eventfd), events, the liveness socket, locks, a clock that
 * stands still: no time-out hides a lost wake-up. Addresses outside the arena
 * are left alone.
 *
 * What is tried. From each state all that any thread could do next: each order
 * of steps, each old value that a load may still return, each place in the
 * modification order where a store may come, and, where asked for, the end of a
 * process between any two steps. States that were seen before are not followed
 * again, and neither are orders of steps that cannot make a difference
 * (model_eager).
 *
 * What is noticed. Plain memory that is accessed without order (a torn or stale
 * record or chunk, one that is written before it was taken); what a scene
 * checks (order, contents, nothing lost); a counter that goes back; a thread
 * that nothing will wake; atomic operations that the model does not cover:
 * compare-exchange among them. The protocol uses none, so that there is none
 * that could fail spuriously; should one be added, these tests fail.
 *
 * What is not covered.
 * - Loads that see stores which come later in the program order of a cycle of
 *   threads (load buffering), and values out of thin air. What relies on
 *   read-modify-writes keeping later stores behind them (gli_shm_revoke) is
 *   therefore not shown here.
 * - seq_cst is that of C11: one order of all such operations that agrees with
 *   what happens before what. C++20 allows a little less to be relied on, where
 *   seq_cst and weaker operations on one location are mixed along a chain of
 *   three threads; the protocol relies on no such chain: each pair of a store
 *   and the load after it is matched by another pair in one other thread.
 * - A crash is tried between operations on atomics, bells and locks. Between
 *   plain stores nobody could tell the difference, for there are no races.
 * - Peers that write nonsense (tests/transport_shm does that).
 * - A poll may take back a wake that was called before it (transport.h), also
 *   one that a thread is about to wait for; scenes keep clear of that.
 * - The scenes are small; they are what they are. Instructions are the
 *   compiler's as far as it had come when it instrumented the code; that it
 * does not break race-free programs later is trusted. */
#ifndef GLI_TESTS_MODEL_MODEL_H
#define GLI_TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- describing a scene -------------------------------------------------- */

/* Forget everything; `bytes` of the arena, zeroed and aligned to a page. */
void model_begin(void);
void *model_alloc(size_t bytes);

/* Atomic locations have kinds, so that a fault can be planted at all of one.
 * Those that are owned are only stored to by one thread, or with lock 0. A
 * counter is owned, and must never go back. */
void model_atomic(volatile void *at, size_t bytes, const char *name, int kind);
void model_owned(volatile void *at, size_t bytes, const char *name, int kind);
void model_counter(volatile void *at, size_t bytes, const char *name, int kind);
/* What is not atomic in it. */
void model_plain(void *at, size_t bytes, const char *name);

/* A thread calls `turn` until it returns false. All that it keeps from one call
 * to the next is in `self`, and depends on nothing but what it reads there, in
 * the arena and from the calls below. Threads of a process crash together. */
void model_thread(const char *name, int process, bool (*turn)(void *self),
                  void *self, size_t self_bytes);

/* ---- for threads --------------------------------------------------------- */

/* Blocks until one of two locations (the second may be NULL) has a newer value
 * than this thread has seen. */
void model_await(const volatile void *a, const volatile void *b);
/* All of 0 .. n - 1 will be tried. */
unsigned model_choose(unsigned n);
/* Bells and locks are the kernel's, and have numbers. A bell stays rung until
 * it is quieted. Bell 2 + n is a note that lies on the liveness socket of
 * process n. Looking at bell n, and waiting for it, is for that note as well.
 * Waiting ends by the bell, the note, or the crash of another process. */
void model_bell_ring(int bell);
void model_bell_quiet(int bell);
enum { MODEL_RUNG = 1, MODEL_HUNG_UP = 2, MODEL_NOTED = 4, MODEL_NOTES = 2 };
unsigned model_look(int bell); /* what would end a wait */
void model_wait(int bell, bool for_hang_up);
void model_hang_up(void); /* others see it as they would see a crash */
void model_lock(int lock);
void model_unlock(int lock);

bool model_is_shared(const volatile void *at); /* in the arena */
/* Of the thread that runs; and has that process crashed, or hung up? */
void *model_self(void);
bool model_is_gone(int process);
/* What the last store in modification order left, whoever may see it. */
uint64_t model_newest(const volatile void *at);

typedef enum model_fault {
  MODEL_FINE,
  MODEL_RACE,     /* plain memory is accessed without order */
  MODEL_STUCK,    /* somebody waits, and nothing will end that */
  MODEL_WRONG,    /* a scene saw what must not be: model_check */
  MODEL_BACK,     /* a counter went back */
  MODEL_UNKNOWN,  /* an access that the model does not cover */
  MODEL_TOO_LARGE /* beyond the limits of the explorer */
} model_fault;

/* The thread, and the exploration, end here unless `fine`. */
void model_check(bool fine, const char *what);

/* ---- planted faults ------------------------------------------------------ */

typedef enum model_plant_how {
  MODEL_PLANT_NONE,
  MODEL_PLANT_ORDER, /* the operation gets the memory order `order` */
  MODEL_PLANT_AFTER, /* the store is done after the next store to `other` */
  MODEL_PLANT_LATE   /* copies to plain memory are done after a store to it */
} model_plant_how;

typedef enum model_access { MODEL_ANY, MODEL_READS, MODEL_WRITES } model_access;

/* By kind of location, and of access; a read-modify-write counts as either. */
typedef struct model_plant {
  model_plant_how how;
  int kind;
  model_access access;
  int order; /* memory_order */
  int other;
} model_plant;

/* ---- exploring ----------------------------------------------------------- */

typedef struct model_options {
  unsigned crashes; /* 1: one process may end at any moment */
  bool calm;        /* waiting for memory that a dead process would write is
                       no fault: for scenes without a bell */
  const model_plant *plants; /* the last one has how 0; may be NULL */
  uint64_t states_max;
  /* Of one location, that somebody has not seen; 0: as many as can be kept.
   * Schedules with more are not followed, and counted. */
  size_t values_max;
} model_options;

typedef struct model_result {
  model_fault fault;
  char what[200];
  uint64_t states, steps, cut_off;
  unsigned depth;
} model_result;

/* All schedules of the scene. With a fault, the schedule that led to it is
 * printed as comments when `show`. */
void model_explore(const model_options *options, bool show,
                   model_result *result);

#endif
