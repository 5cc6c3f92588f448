/* Packs steps as lines. */
#include "plan/pack.h"

#include <stdlib.h>

void gli_pack_free(gli_pack *pack) {
  free(pack->lines);
  *pack = (gli_pack){0};
}

static bool pack_alike(const gli_step *x, const gli_step *y) {
  return x->kind == y->kind && x->role == y->role &&
         x->incoming_first == y->incoming_first && x->a_buffer == y->a_buffer &&
         x->b_buffer == y->b_buffer && x->dst_buffer == y->dst_buffer &&
         x->lane == y->lane && x->peer == y->peer && x->n == y->n &&
         x->own == y->own && x->n_puts == y->n_puts && x->stride == y->stride;
}

static bool pack_same(const gli_step *x, const gli_step *y) {
  return pack_alike(x, y) && x->slot == y->slot && x->window == y->window &&
         x->put == y->put && x->a == y->a && x->b == y->b && x->dst == y->dst &&
         x->bytes == y->bytes;
}

/* Returns the step after x on the line from w through x. */
static gli_step pack_onward(const gli_step *w, const gli_step *x) {
  gli_step s = *x;
  s.slot += x->slot - w->slot;
  s.window += x->window - w->window;
  s.put += x->put - w->put;
  s.a += x->a - w->a;
  s.b += x->b - w->b;
  s.dst += x->dst - w->dst;
  s.bytes += x->bytes - w->bytes;
  return s;
}

/* ---- packing ------------------------------------------------------------- */

/* Returns true if step i is on the line of this period. */
static bool on_line(const gli_step *steps, size_t i, uint32_t period) {
  if (i < 2 * (size_t)period) return false;
  const gli_step *x = &steps[i - period], *w = &steps[i - 2 * period];
  if (!pack_alike(w, x)) return false;
  gli_step told = pack_onward(w, x);
  return pack_same(&told, &steps[i]);
}

/* Extends the last line to step i; returns false if step i is not on it. A line
 * without further steps may still choose its period. */
static bool pack_follow(gli_pack_line *line, const gli_step *steps, size_t i) {
  if (line->follow == UINT32_MAX) return false;
  uint32_t from = line->follow == 0 ? 1 : line->period;
  uint32_t to = line->follow == 0 ? GLI_PACK_PERIODS : line->period;
  for (uint32_t period = from; period <= to; period++) {
    if (!on_line(steps, i, period)) continue;
    line->period = period;
    line->follow++;
    return true;
  }
  return false;
}

bool gli_pack_fill(gli_pack *pack, const gli_step *steps, size_t n) {
  pack->n_lines = pack->line = 0;
  pack->followed = 0;
  pack->n_read = 0;
  for (size_t i = 0; i < n; i++) {
    if (i > 0 && pack_follow(&pack->lines[pack->n_lines - 1], steps, i))
      continue;
    if (pack->n_lines == pack->capacity) {
      size_t capacity = pack->capacity == 0 ? 16 : pack->capacity * 2;
      gli_pack_line *lines = realloc(pack->lines, capacity * sizeof *lines);
      if (lines == NULL) return false;
      pack->lines = lines;
      pack->capacity = capacity;
    }
    pack->lines[pack->n_lines++] = (gli_pack_line){.step = steps[i]};
  }
  return true;
}

/* ---- reading ------------------------------------------------------------- */

static gli_step *pack_recent(gli_pack *pack, uint64_t i) {
  return &pack->last[i % (2 * GLI_PACK_PERIODS)];
}

size_t gli_pack_take(gli_pack *pack, gli_step *steps, size_t n) {
  size_t taken = 0;
  while (taken < n && pack->line < pack->n_lines) {
    const gli_pack_line *line = &pack->lines[pack->line];
    uint64_t i = pack->n_read++;
    gli_step s = line->step;
    if (pack->followed > 0) {
      s = pack_onward(pack_recent(pack, i - 2 * line->period),
                      pack_recent(pack, i - line->period));
    }
    *pack_recent(pack, i) = s;
    steps[taken++] = s;
    if (pack->followed++ == line->follow) {
      pack->line++;
      pack->followed = 0;
    }
  }
  return taken;
}
