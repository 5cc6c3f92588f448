#include "engine/state/lock.h"

#include "core/fork.h"

bool gli_lock_init(gli_lock *lock) {
  atomic_init(&lock->state, 0);
  if (uv_mutex_init(&lock->mutex) != 0) return false;
  if (uv_cond_init(&lock->freed) == 0) return true;
  uv_mutex_destroy(&lock->mutex);
  return false;
}

void gli_lock_destroy(gli_lock *lock) {
  uv_cond_destroy(&lock->freed);
  uv_mutex_destroy(&lock->mutex);
}

void gli_lock_held_alone(gli_lock *lock) {
  gli_fork_mutex(&lock->mutex, false);
  gli_fork_condition(&lock->freed);
  atomic_store(&lock->state, 1);
}

/* Takes it in state 2, for other threads may wait. */
void gli_lock_wait(gli_lock *lock) {
  uv_mutex_lock(&lock->mutex);
  while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
    uv_cond_wait(&lock->freed, &lock->mutex);
  uv_mutex_unlock(&lock->mutex);
}

void gli_lock_wake(gli_lock *lock) {
  uv_mutex_lock(&lock->mutex);
  uv_cond_signal(&lock->freed);
  uv_mutex_unlock(&lock->mutex);
}
