/* Errors that a call might make, to test the matrix itself. */
#include <string.h>

#include "player.h"

/* Returns a nonempty block of the last output, and its length in *n, or
 * NULL. */
static uint8_t *find_block(const player *p, size_t *n) {
  const matrix_list *l = &p->shape.out;
  for (size_t b = 0; b < l->blocks; b++) {
    *n = l->count[b];
    size_t first = l->first[b] + (l->buffers - 1) * l->step;
    if (*n > 0) return p->out.at + first * p->element;
  }
  return NULL;
}

/* Swaps the middle element with a different one. */
static bool exchange(const player *p, uint8_t *at, size_t n) {
  uint8_t kept[REFERENCE_MOST_BYTES], *one = at + n / 2 * p->element;
  for (size_t i = n / 2 + 1; i < n; i++) {
    uint8_t *other = at + i * p->element;
    if (memcmp(one, other, p->element) == 0) continue;
    memcpy(kept, one, p->element);
    memcpy(one, other, p->element);
    memcpy(other, kept, p->element);
    return true;
  }
  return false;
}

/* Flips a lowest bit. If rounding leaves a choice that is an error only if all
 * ranks must get the same result. */
static bool flip_lowest(const player *p, uint8_t *at) {
  const matrix_row *rows;
  matrix_rows(&rows);
  bool same = matrix_is_same(rows[p->c->row].collective);
  if (player_is_loose(p) && !same) return false;
  *at ^= 1;
  return true;
}

/* Restores the filler, as if the bytes had never been written. */
static bool leave_out(uint8_t *at, size_t bytes) {
  bool changed = false;
  for (size_t i = 0; i < bytes; i++) {
    changed = changed || at[i] != FILLER;
    at[i] = FILLER;
  }
  return changed;
}

static bool spoil_result(const player *p, matrix_spoil spoil) {
  size_t n;
  uint8_t *at = find_block(p, &n);
  if (at == NULL) return false;
  uint8_t *middle = at + n / 2 * p->element, *last = at + (n - 1) * p->element;
  switch (spoil) {
    case MATRIX_FIRST_ELEMENT:
      for (size_t i = 0; i < p->element; i++) at[i] ^= 0xff;
      return true;
    case MATRIX_LAST_ELEMENT:
      for (size_t i = 0; i < p->element; i++) last[i] ^= 0xff;
      return true;
    case MATRIX_LOWEST_BIT:
      return flip_lowest(p, middle);
    case MATRIX_MOVED:
      return !player_is_loose(p) && exchange(p, at, n);
    default:
      return leave_out(middle, (size_t)(last - middle) + p->element);
  }
}

void player_spoil(player *p) {
  scene *s = p->scene;
  bool done = false;
  if (s->spoil == MATRIX_NOTHING || p->env->rank != 0) return;
  switch (s->spoil) {
    case MATRIX_BEFORE:
      p->out.at[-1] ^= 1;
      done = true;
      break;
    case MATRIX_BEHIND:
      p->out.at[p->out.bytes] ^= 1;
      done = true;
      break;
    case MATRIX_INPUT:
      done = p->in.bytes > 0;
      if (done) p->in.at[p->in.bytes / 2] ^= 1;
      break;
    default:
      done = spoil_result(p, s->spoil);
  }
  if (done) atomic_store(&s->spoiled[p->index], 1);
}
