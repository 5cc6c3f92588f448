/* Forked children.
 *
 * A child has a copy of its parent's memory and descriptors, but none of its
 * threads, and what the descriptors and shared mappings stand for is still the
 * parent's. So an object belongs to the process that made it: in a child all
 * calls on it end with GLOO_ERR_FORKED, and destroying it frees memory and
 * closes descriptors, with no word to any peer.
 *
 * Objects with locks or descriptors are watched. Before a fork every watched
 * object is held, so that the child finds it in one piece: no thread is in the
 * middle of changing it, and its locks are those of the thread that forks. One
 * that is not to be had within the patience (the thread that forks may be the
 * one that holds it: in a signal handler, a log sink, a custom operation) is
 * torn in the child, which then does not look into it, and leaks it.
 *
 * See docs/adr/0028-fork.md. */
#ifndef GLI_CORE_FORK_H
#define GLI_CORE_FORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* ---- whose it is --------------------------------------------------------- */

/* Which process made an object. */
typedef struct gli_birth {
  uint64_t generation; /* forks between the first process and that one */
  int64_t pid;
} gli_birth;

gli_birth gli_birth_here(void);
/* Was it made by a process that this one was forked from? */
bool gli_forked(const gli_birth *birth);
/* GLOO_ERR_FORKED, with both processes. `what`: "the context". */
gloo_status gli_fork_refuse(const gli_birth *birth, const char *what,
                            gloo_error *error);

/* ---- what has to be seen to ---------------------------------------------- */

/* In the order in which they are held: a thread that holds one takes none of an
 * earlier kind. */
typedef enum gli_fork_order {
  GLI_FORK_OBSERVER, /* the list of contexts, which looks into all of them */
  GLI_FORK_OBJECTS,  /* devices, stores */
  GLI_FORK_TABLES,   /* of all end points, and those, for devices use them */
  GLI_FORK_SLABS,    /* of gloo_alloc */
  GLI_FORK_MEMORY, /* the table of regions, which all of these use, and what is
                      registered of them */
  GLI_FORK_KEYS,   /* of security/, which connections make */
  GLI_FORK_ORDERS
} gli_fork_order;

typedef struct gli_fork_patience gli_fork_patience;
/* Wait a moment. False: no longer. */
bool gli_fork_wait(gli_fork_patience *patience);
/* Lock, within the patience. */
bool gli_fork_lock(pthread_mutex_t *mutex, gli_fork_patience *patience);
/* In the child: free, and wanted by no thread. `held`: the thread that forked
 * has locked it. Threads that wait for a condition still count as users of its
 * mutex, so that unlocking it is not enough. */
void gli_fork_mutex(pthread_mutex_t *mutex, bool held);
void gli_fork_condition(pthread_cond_t *condition);

/* Nothing of this may allocate or free memory. `child` is called whether it was
 * held or not, `release` (in the parent) only when it was. */
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

/* False: out of memory. */
bool gli_fork_watch_begin(gli_fork_watch *watch, gli_fork_order order,
                          const gli_fork_care *care, void *object);
void gli_fork_watch_end(gli_fork_watch *watch);

/* An object with one mutex and perhaps a condition: the mutex is held over a
 * fork. */
typedef struct gli_fork_guard {
  gli_fork_watch watch;
  pthread_mutex_t *mutex;
  pthread_cond_t *condition; /* NULL: none */
  bool torn; /* in the child: the mutex was not to be had, so a thread may have
                been in the middle of changing what it guards */
} gli_fork_guard;

/* False: out of memory. */
bool gli_fork_guard_begin(gli_fork_guard *guard, gli_fork_order order,
                          pthread_mutex_t *mutex, pthread_cond_t *condition);
void gli_fork_guard_end(gli_fork_guard *guard);

#endif
