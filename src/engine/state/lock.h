/* A lock that costs two atomic instructions when no other thread wants it.
 *
 * `state` is 0 when it is free, 1 when it is held, 2 when it is held and a
 * thread may wait. A thread that finds it held stores 2 and, if it still was,
 * waits; one that finds 2 on leaving wakes one that waits. Both do so under
 * `mutex`, so a waiter is either seen or not yet waiting, and then finds the
 * lock free. */
#ifndef GLI_ENGINE_STATE_LOCK_H
#define GLI_ENGINE_STATE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

typedef struct gli_lock {
  atomic_uint state;
  uv_mutex_t mutex;
  uv_cond_t freed;
} gli_lock;

/* False: out of memory or locks. */
bool gli_lock_init(gli_lock *lock);
void gli_lock_destroy(gli_lock *lock);
/* In a forked child: held, with no thread that waits, whatever it was. */
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

#endif
