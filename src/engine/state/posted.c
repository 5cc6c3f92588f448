/* A sequence lock, with words that are atomic each, so that reading them while
 * they change is no race. After Boehm, "Can seqlocks get along with programming
 * language memory models?", MSPC 2012. */
#include "engine/state/posted.h"

#include <string.h>

#include "core/cpu.h"

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
