#include "engine/state/lock.h"

#include <string.h>

#include "core/cpu.h"
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

/* Takes the lock in state 2, because other threads may wait. */
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

/* ---- a bell -------------------------------------------------------------- */

bool gli_bell_init(gli_bell *bell) {
  bell->rang = false;
  if (uv_mutex_init(&bell->lock) != 0) return false;
  if (uv_cond_init(&bell->ringing) == 0) return true;
  uv_mutex_destroy(&bell->lock);
  return false;
}

void gli_bell_destroy(gli_bell *bell) {
  uv_cond_destroy(&bell->ringing);
  uv_mutex_destroy(&bell->lock);
}

void gli_bell_ring(gli_bell *bell) {
  uv_mutex_lock(&bell->lock);
  bell->rang = true;
  uv_cond_signal(&bell->ringing);
  uv_mutex_unlock(&bell->lock);
}

void gli_bell_wait(gli_bell *bell, uint64_t limit_ns) {
  uv_mutex_lock(&bell->lock);
  if (!bell->rang)
    (void)uv_cond_timedwait(&bell->ringing, &bell->lock, limit_ns);
  bell->rang = false;
  uv_mutex_unlock(&bell->lock);
}

/* ---- an error that is read without a lock -------------------------------- */

/* A sequence lock, with words that are atomic each, so that reading them while
 * they change is no race. After Boehm, "Can seqlocks get along with programming
 * language memory models?", MSPC 2012. */

void gli_posted_put(gli_posted *posted, const gloo_error *error) {
  uint32_t words[GLI_POSTED_WORDS];
  memcpy(words, error, sizeof words);
  unsigned turn = atomic_load_explicit(&posted->turn, memory_order_relaxed);
  atomic_store_explicit(&posted->turn, turn + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  for (int i = 0; i < GLI_POSTED_WORDS; i++)
    atomic_store_explicit(&posted->words[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&posted->turn, turn + 2, memory_order_release);
}

void gli_posted_get(const gli_posted *posted, gloo_error *error) {
  uint32_t words[GLI_POSTED_WORDS] = {0};
  unsigned before, after;
  do {
    before = atomic_load_explicit(&posted->turn, memory_order_acquire);
    for (int i = 0; i < GLI_POSTED_WORDS; i++)
      words[i] = atomic_load_explicit(&posted->words[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    after = atomic_load_explicit(&posted->turn, memory_order_relaxed);
    if (before % 2 != 0 || before != after) gli_cpu_yield();
  } while (before % 2 != 0 || before != after);
  memcpy(error, words, sizeof words);
}
