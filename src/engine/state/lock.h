/* A lock, a bell for sleeping threads, and an error that is read without a lock.
 *
 * The lock costs two atomic instructions when no other thread wants it.
 * `state` is 0 if it is free, 1 if it is held, and 2 if it is held and a thread
 * may wait. A thread that finds it held stores 2, and waits if it still was
 * held; a thread that releases it and finds 2 wakes a waiter. Both do so under
 * `mutex`, so a waiter is either seen, or does not wait yet and then finds the
 * lock free. */
#ifndef GLI_ENGINE_STATE_LOCK_H
#define GLI_ENGINE_STATE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "gloo_c/status.h"

typedef struct gli_lock {
  atomic_uint state;
  uv_mutex_t mutex;
  uv_cond_t freed;
} gli_lock;

/* Returns false if out of memory or locks. */
bool gli_lock_init(gli_lock *lock);
void gli_lock_destroy(gli_lock *lock);
/* Reinitializes the lock in a forked child: held, and without waiters. */
void gli_lock_held_alone(gli_lock *lock);

void gli_lock_wait(gli_lock *lock);
void gli_lock_wake(gli_lock *lock);

static inline bool gli_lock_try(gli_lock *lock) {
  unsigned is_free = 0;
  return atomic_compare_exchange_strong_explicit(
      &lock->state, &is_free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void gli_lock_leave(gli_lock *lock) {
  if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
    gli_lock_wake(lock);
}

/* ---- a bell -------------------------------------------------------------- */

/* A thread sleeps on it until one of several requests has ended, on devices
 * with a lock each. */
typedef struct gli_bell {
  uv_mutex_t lock;
  uv_cond_t ringing;
  bool rang;
} gli_bell;

/* Returns false if out of memory or locks. */
bool gli_bell_init(gli_bell *bell);
void gli_bell_destroy(gli_bell *bell);
void gli_bell_ring(gli_bell *bell);
/* Waits until the bell rings, or has rung since the last wait, for at most the
 * limit. */
void gli_bell_wait(gli_bell *bell, uint64_t limit_ns);

/* ---- an error that is read without a lock -------------------------------- */

enum { GLI_POSTED_WORDS = sizeof(gloo_error) / sizeof(uint32_t) };
_Static_assert(sizeof(gloo_error) % sizeof(uint32_t) == 0, "whole words");

/* One thread at a time posts it, and any thread reads it. Zeros: none, with
 * status GLOO_OK. `turn` is odd while it changes. */
typedef struct gli_posted {
  atomic_uint turn;
  _Atomic uint32_t words[GLI_POSTED_WORDS];
} gli_posted;

void gli_posted_put(gli_posted *posted, const gloo_error *error);
/* Reads the error. Waits for a thread that was stopped only if that was
 * posting. */
void gli_posted_get(const gli_posted *posted, gloo_error *error);

#endif
