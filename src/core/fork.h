/* Forked children.
 *
 * A child has a copy of its parent's memory and descriptors, but none of its
 * threads, and the kernel objects behind the descriptors and shared mappings
 * still belong to the parent. So an object belongs to the process that made it:
 * in a child all calls on it end with GLOO_ERR_FORKED, and destroying it frees
 * memory and closes descriptors without a message to any peer.
 *
 * Objects with locks or descriptors are watched. Before a fork the library
 * holds every watched object, so that the child finds it consistent: no thread
 * is in the middle of a change, and the forking thread owns its locks. An
 * object that cannot be held within the patience is torn in the child, which
 * then does not access it, and leaks it. This happens if the forking thread
 * itself holds the object: in a signal handler, a log sink or a custom
 * operation.
 *
 * See docs/adr/0028-fork.md. */
#ifndef GLI_CORE_FORK_H
#define GLI_CORE_FORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* ---- owners -------------------------------------------------------------- */

/* Identity of the process that made an object. */
typedef struct gli_birth {
  uint64_t generation; /* number of forks since the first process */
  int64_t pid;
} gli_birth;

gli_birth gli_birth_here(void);
/* Returns true if this process is a forked child of the object's maker. */
bool gli_forked(const gli_birth *birth);
/* Returns GLOO_ERR_FORKED, naming both processes. `what`: "the context". */
gloo_status gli_fork_refuse(const gli_birth *birth, const char *what,
                            gloo_error *error);

/* ---- initialisation ------------------------------------------------------- */

/* Runs `init` if `done` is false, and sets `done`. Other threads, and forks, wait
 * until it has run. With pthread_once, a child forked while `init` runs deadlocks
 * (musl) or repeats it (glibc). `init` may begin watches. It must not take a lock
 * that another thread holds while that thread begins a watch. */
void gli_once(atomic_bool *done, void (*init)(void));

/* ---- watched objects ----------------------------------------------------- */

/* Order in which a fork holds objects. A thread that holds an object takes none
 * of an earlier kind. */
typedef enum gli_fork_order {
  GLI_FORK_OBSERVER, /* the list of contexts, which looks into all of them */
  GLI_FORK_OBJECTS,  /* devices, stores */
  GLI_FORK_TABLES, /* tables of end points, and end points, which devices use */
  GLI_FORK_SLABS,  /* slabs of gloo_alloc */
  GLI_FORK_MEMORY, /* table of regions, which all kinds above use, and the
                      registrations of regions */
  GLI_FORK_KEYS,   /* keys of security/, which connections make */
  GLI_FORK_ORDERS
} gli_fork_order;

typedef struct gli_fork_patience gli_fork_patience;
/* Waits a moment. Returns false if the patience is exhausted. */
bool gli_fork_wait(gli_fork_patience *patience);
/* Locks the mutex. Returns false if the patience is exhausted. */
bool gli_fork_lock(pthread_mutex_t *mutex, gli_fork_patience *patience);
/* Reinitialise a mutex or a condition in the child, where no thread waits for
 * it. `held`: the forking thread holds the mutex, which is then unlocked first.
 * Unlocking alone is not enough, because threads that waited for a condition
 * still count as users of its mutex. */
void gli_fork_mutex(pthread_mutex_t *mutex, bool held);
void gli_fork_condition(pthread_cond_t *condition);

/* Callbacks, which must not allocate or free memory. `child` is called whether
 * `hold` succeeded or not, `release` (in the parent) only if it did. */
typedef struct gli_fork_care {
  bool (*hold)(void *object, gli_fork_patience *patience);
  void (*release)(void *object);
  void (*child)(void *object, bool held);
} gli_fork_care;

typedef struct gli_fork_watch {
  const gli_fork_care *care;
  void *object;
  bool held;
  struct gli_fork_watch *next, **link;
} gli_fork_watch;

/* Returns false if out of memory. */
bool gli_fork_watch_begin(gli_fork_watch *watch, gli_fork_order order,
                          const gli_fork_care *care, void *object);
/* Begins a static watch, whose link is NULL, if it has not begun yet. Any
 * thread, any number of times. */
bool gli_fork_watch_once(gli_fork_watch *watch, gli_fork_order order,
                         const gli_fork_care *care, void *object);
void gli_fork_watch_end(gli_fork_watch *watch);

/* Object with one mutex and perhaps a condition; a fork holds the mutex. */
typedef struct gli_fork_guard {
  gli_fork_watch watch;
  pthread_mutex_t *mutex;
  pthread_cond_t *condition; /* NULL if the object has none */
  bool torn; /* in the child: the mutex could not be locked, so a thread may
                have been changing the object */
} gli_fork_guard;

/* Returns false if out of memory. */
bool gli_fork_guard_begin(gli_fork_guard *guard, gli_fork_order order,
                          pthread_mutex_t *mutex, pthread_cond_t *condition);
void gli_fork_guard_end(gli_fork_guard *guard);

#endif
