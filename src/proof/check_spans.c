/* Cuts the memory of a rank at the ends of its steps' ranges. */
#include <stdlib.h>

#include "proof/check_internal.h"

void gli_check_spans_free(check_spans *s) {
  free(s->ends[0]);
  free(s->ends[1]);
  *s = (check_spans){0};
}

static bool add_end(check_spans *s, int map, uint64_t x) {
  size_t n = s->n[map];
  if (n > 0 && s->ends[map][n - 1] == x) return true;
  if (n == s->capacity[map]) {
    size_t capacity = n == 0 ? 256 : n * 2;
    uint64_t *ends = realloc(s->ends[map], capacity * sizeof *ends);
    if (ends == NULL) return false;
    s->ends[map] = ends;
    s->capacity[map] = capacity;
  }
  s->ends[map][s->n[map]++] = x;
  return true;
}

static bool add_range(check_spans *s, uint8_t buffer, uint64_t at,
                      uint64_t bytes) {
  if (buffer != GLI_OUT && buffer != GLI_SCRATCH) return true;
  int map = buffer == GLI_SCRATCH;
  return add_end(s, map, at) && add_end(s, map, at + bytes);
}

static bool add_step(check_spans *s, const gli_step *t) {
  uint32_t blocks = gli_step_has_blocks(t)       ? t->n
                    : t->kind == GLI_STEP_REDUCE ? 1
                                                 : 0;
  for (uint32_t k = 0; k < blocks; k++) {
    if (!add_range(s, t->b_buffer, t->b + k * t->stride, t->bytes)) {
      return false;
    }
  }
  return add_range(s, t->a_buffer, t->a, t->bytes) &&
         add_range(s, t->dst_buffer, t->dst, t->bytes);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

bool gli_check_spans_make(check_spans *s, const gli_step *steps, uint32_t n) {
  *s = (check_spans){0};
  for (uint32_t i = 0; i < n; i++) {
    if (add_step(s, &steps[i])) continue;
    gli_check_spans_free(s);
    return false;
  }
  for (int map = 0; map < 2; map++) {
    if (s->n[map] == 0) continue;
    qsort(s->ends[map], s->n[map], sizeof(uint64_t), by_value);
    size_t unique = 1;
    for (size_t i = 1; i < s->n[map]; i++) {
      if (s->ends[map][i] == s->ends[map][unique - 1]) continue;
      s->ends[map][unique++] = s->ends[map][i];
    }
    s->n[map] = unique;
  }
  return true;
}

static size_t check_spans_find(const check_spans *s, int map, uint64_t x) {
  size_t low = 0, high = s->n[map];
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (s->ends[map][middle] < x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return map == 0 ? low : s->n[0] + low;
}

void gli_check_spans_of(const check_spans *s, const check_touch *t,
                        size_t *from, size_t *to) {
  *from = *to = 0;
  if (t->buffer != GLI_OUT && t->buffer != GLI_SCRATCH) return;
  int map = t->buffer == GLI_SCRATCH;
  *from = check_spans_find(s, map, t->at);
  *to = check_spans_find(s, map, t->at + t->bytes);
}
