#include "plan/params.h"

#include <string.h>

enum { ARRAYS = 4 };

static void arrays_of(const gli_counts *c, const uint64_t *arrays[ARRAYS]) {
  arrays[0] = c->in;
  arrays[1] = c->in_first;
  arrays[2] = c->out;
  arrays[3] = c->out_first;
}

static bool counts_same(const uint64_t *a, const uint64_t *b, uint32_t size) {
  if (a == b) return true;
  if (a == NULL || b == NULL) return false;
  return memcmp(a, b, size * sizeof *a) == 0;
}

bool gli_counts_equal(const gli_counts *a, const gli_counts *b, uint32_t size) {
  if (a == NULL || b == NULL) return a == b;
  if (a->own != b->own || a->packed != b->packed) return false;
  const uint64_t *of_a[ARRAYS], *of_b[ARRAYS];
  arrays_of(a, of_a);
  arrays_of(b, of_b);
  for (int i = 0; i < ARRAYS; i++) {
    if (!counts_same(of_a[i], of_b[i], size)) return false;
  }
  return true;
}

uint64_t gli_counts_hash(const gli_counts *c, uint32_t size) {
  if (c == NULL) return 0;
  uint64_t hash = c->own;
  const uint64_t *arrays[ARRAYS];
  arrays_of(c, arrays);
  for (int i = 0; i < ARRAYS; i++) {
    for (uint32_t k = 0; arrays[i] != NULL && k < size; k++) {
      hash = (hash ^ arrays[i][k]) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

size_t gli_counts_numbers(const gli_counts *c, uint32_t size) {
  if (c == NULL) return 0;
  const uint64_t *arrays[ARRAYS];
  arrays_of(c, arrays);
  size_t n = 0;
  for (int i = 0; i < ARRAYS; i++) n += arrays[i] != NULL ? size : 0;
  return n;
}

static const uint64_t *copy_array(const uint64_t *from, uint32_t size,
                                  uint64_t **numbers) {
  if (from == NULL) return NULL;
  uint64_t *to = *numbers;
  memcpy(to, from, size * sizeof *to);
  *numbers += size;
  return to;
}

void gli_counts_copy(const gli_counts *c, uint32_t size, gli_counts *copy,
                     uint64_t *numbers) {
  *copy = *c;
  copy->in = copy_array(c->in, size, &numbers);
  copy->in_first = copy_array(c->in_first, size, &numbers);
  copy->out = copy_array(c->out, size, &numbers);
  copy->out_first = copy_array(c->out_first, size, &numbers);
}
