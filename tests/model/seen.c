/* Visited states. */
#include "seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the parts of a state that are in use -------------------------------- */

enum { PARTS_MAX = 4 + MODEL_LOCATIONS + 2 * MODEL_THREADS };

typedef struct part {
  size_t at, bytes;
} part;

static int parts_of(const model_state *s, part parts[PARTS_MAX]) {
  int n = 0;
  parts[n++] = (part){0, offsetof(model_state, words)};
  parts[n++] = (part){offsetof(model_state, words),
                      model_the.n_words * sizeof(model_word)};
  parts[n++] = (part){offsetof(model_state, plain), model_the.n_words * 4};
  for (int i = 0; i < model_the.n_places; i++) {
    size_t at =
        offsetof(model_state, locations) + (size_t)i * sizeof(model_location);
    size_t used = (size_t)s->locations[i].n * sizeof(model_message);
    parts[n++] = (part){at, offsetof(model_location, messages) + used};
  }
  for (int i = 0; i < model_the.n_threads; i++) {
    size_t k = (size_t)i;
    if (s->runs[i].fate != MODEL_ALIVE) continue;
    parts[n++] = (part){offsetof(model_state, self) + k * MODEL_SELF_BYTES,
                        model_the.threads[i].self_bytes};
    parts[n++] = (part){offsetof(model_state, log) + k * MODEL_LOG_BYTES,
                        s->runs[i].log_bytes};
  }
  return n;
}

void model_copy(model_state *to, const model_state *from) {
  part parts[PARTS_MAX];
  int n = parts_of(from, parts);
  for (int i = 0; i < n; i++)
    memcpy((uint8_t *)to + parts[i].at, (const uint8_t *)from + parts[i].at,
           parts[i].bytes);
}

/* ---- visited states ------------------------------------------------------ */

static uint64_t mixed(
    uint64_t h) { /* the finisher of splitmix64, Steele 2014 */
  h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
  return h ^ (h >> 31);
}

static void take_word(model_key *k, uint64_t word) {
  k->a = (k->a ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  k->a ^= k->a >> 29;
  k->b = (k->b + word) * UINT64_C(0xd6e8feb86659fd93);
  k->b ^= k->b >> 32;
}

static model_key key_of(const model_state *state) {
  model_key k = {1, 2};
  part parts[PARTS_MAX];
  int n = parts_of(state, parts);
  for (int i = 0; i < n; i++) {
    const uint8_t *at = (const uint8_t *)state + parts[i].at;
    size_t left = parts[i].bytes;
    take_word(&k, left);
    for (; left >= 8; left -= 8, at += 8) {
      uint64_t word;
      memcpy(&word, at, 8);
      take_word(&k, word);
    }
    uint64_t rest = 0;
    memcpy(&rest, at, left);
    take_word(&k, rest);
  }
  return (model_key){mixed(k.a) | 1, mixed(k.b)};
}

static bool add_key(model_seen *set, model_key k) {
  size_t mask = set->capacity - 1;
  for (size_t i = (size_t)k.b & mask;; i = (i + 1) & mask) {
    model_key *at = &set->keys[i];
    if (at->a == k.a && at->b == k.b) return false;
    if (at->a != 0) continue;
    *at = k;
    set->n++;
    return true;
  }
}

void *model_needed(void *memory) {
  if (memory != NULL) return memory;
  printf("Bail out! no memory for the explorer\n");
  exit(1);
}

static void grow(model_seen *set) {
  model_seen more = {.capacity = set->capacity == 0 ? 4096 : set->capacity * 2};
  more.keys = model_needed(calloc(more.capacity, sizeof *more.keys));
  for (size_t i = 0; i < set->capacity; i++)
    if (set->keys[i].a != 0) (void)add_key(&more, set->keys[i]);
  free(set->keys);
  *set = more;
}

/* Returns true if the state is new. */
bool model_seen_add(model_seen *set, const model_state *state) {
  if (set->n >= set->capacity / 4 * 3) grow(set);
  return add_key(set, key_of(state));
}
