/* Words of windows: atomic operations on them, and threads that wait for
 * them. */
#include <stdatomic.h>

#include "engine/rma/rma.h"
#include "engine/state/device.h"

/* ---- atomic operations --------------------------------------------------- */

/* Returns true if atomic operations are lock-free: other processes do not see a
 * lock that the compiler adds. Otherwise only the owner executes them, with the
 * lock of the device held. */
bool gli_rma_atomics_are_shared(void) {
  return ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2;
}

static uint64_t changed_word(unsigned change, uint64_t before,
                             const uint64_t operands[2]) {
  switch (change) {
    case GLOO_ATOMIC_ADD:
      return before + operands[0];
    case GLOO_ATOMIC_AND:
      return before & operands[0];
    case GLOO_ATOMIC_OR:
      return before | operands[0];
    case GLOO_ATOMIC_XOR:
      return before ^ operands[0];
    case GLOO_ATOMIC_SWAP:
      return operands[0];
    default:
      return before == operands[0] ? operands[1] : before;
  }
}

#if ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2
/* Additions have an instruction, which many ranks at one word need. */
static uint64_t change_half(unsigned change, _Atomic uint32_t *word,
                            const uint64_t operands[2]) {
  if (change == GLOO_ATOMIC_ADD)
    return atomic_fetch_add(word, (uint32_t)operands[0]);
  uint32_t before = atomic_load(word);
  while (!atomic_compare_exchange_weak(
      word, &before, (uint32_t)changed_word(change, before, operands)))
    continue;
  return before;
}

uint64_t gli_rma_atomic(unsigned change, uint64_t bytes, void *at,
                        const uint64_t operands[2]) {
  if (bytes == sizeof(uint32_t)) return change_half(change, at, operands);
  _Atomic uint64_t *word = at;
  if (change == GLOO_ATOMIC_ADD) return atomic_fetch_add(word, operands[0]);
  uint64_t before = atomic_load(word);
  while (!atomic_compare_exchange_weak(word, &before,
                                       changed_word(change, before, operands)))
    continue;
  return before;
}

/* The wanted value was stored after the data that it announces, so this load
 * comes before those of the data. */
static uint64_t load_word(const void *word) {
  return atomic_load((_Atomic uint64_t *)(uintptr_t)word);
}
#else
uint64_t gli_rma_atomic(unsigned change, uint64_t bytes, void *at,
                        const uint64_t operands[2]) {
  uint32_t *half = at;
  uint64_t *word = at;
  uint64_t before = bytes == sizeof *half ? *half : *word;
  uint64_t after = changed_word(change, before, operands);
  if (bytes == sizeof *half)
    *half = (uint32_t)after;
  else
    *word = after;
  return before;
}

static uint64_t load_word(const void *word) {
  return *(const uint64_t *)word;
}
#endif

/* ---- threads that wait for words ----------------------------------------- */

bool gli_rma_watch_ends(gli_rma_watch *watch) {
  uint64_t found = load_word(watch->word), value = watch->value;
  watch->found = found;
  switch (watch->compare) {
    case GLOO_COMPARE_EQ:
      return found == value;
    case GLOO_COMPARE_NE:
      return found != value;
    case GLOO_COMPARE_GT:
      return found > value;
    case GLOO_COMPARE_GE:
      return found >= value;
    case GLOO_COMPARE_LT:
      return found < value;
    case GLOO_COMPARE_LE:
      return found <= value;
  }
  return false;
}

void gli_rma_look_at_words(gloo_window *window) {
  for (gli_rma_watch *w = window->watches; w != NULL; w = w->next) {
    if (w->stirred || !gli_rma_watch_ends(w)) continue;
    w->stirred = true;
    window->context->device->completed++;
  }
}

void gli_rma_stir(gloo_window *window) {
  for (gli_rma_watch *w = window->watches; w != NULL; w = w->next) {
    w->stirred = true;
    window->context->device->completed++;
  }
}
