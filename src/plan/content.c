/* Symbolic content of buffers: pieces, and series of pieces. */
#include "plan/content.h"

#include <stdlib.h>
#include <string.h>

void gli_content_free(gli_content *c) {
  free(c->pieces);
  *c = (gli_content){0};
}

static bool content_reserve(gli_content *c, size_t n) {
  if (n <= c->capacity) return true;
  size_t capacity = c->capacity == 0 ? 4 : c->capacity * 2;
  if (capacity < n) capacity = n;
  gli_piece *pieces = realloc(c->pieces, capacity * sizeof *pieces);
  if (pieces == NULL) return false;
  c->pieces = pieces;
  c->capacity = capacity;
  return true;
}

/* ---- pieces -------------------------------------------------------------- */

static uint64_t content_length(const gli_piece *p) {
  return p->end - p->start;
}

uint64_t gli_piece_blocks(const gli_piece *p) {
  return p->stride == 0 ? 1 : content_length(p) / p->stride;
}

gli_piece gli_piece_block(const gli_piece *p, uint32_t size, uint64_t j) {
  if (p->stride == 0) return *p;
  gli_piece block = {.start = p->start + j * p->stride,
                     .source = p->source + j * p->source_step,
                     .ranks = p->ranks,
                     .order = p->order,
                     .adds = p->adds + (uint32_t)j * p->adds_step,
                     .stores = p->stores + (uint32_t)j * p->stores_step};
  block.end = block.start + p->stride;
  block.ranks.first = (uint32_t)((p->ranks.first + j * p->first_step) % size);
  block.ranks.n += (uint32_t)j * p->n_step;
  return block;
}

/* Returns blocks [from, to) of a series, as a piece. */
static gli_piece content_blocks(const gli_piece *p, uint32_t size,
                                uint64_t from, uint64_t to) {
  gli_piece first = gli_piece_block(p, size, from);
  if (to - from == 1) return first;
  gli_piece part = *p;
  part.start = first.start;
  part.end = first.start + (to - from) * p->stride;
  part.source = first.source;
  part.ranks = first.ranks;
  part.adds = first.adds;
  part.stores = first.stores;
  return part;
}

/* Returns [a, b) of a piece without blocks. */
static gli_piece plain_part(gli_piece p, uint64_t a, uint64_t b) {
  if (a > p.start) {
    p.source += a - p.start;
    p.start = a;
  }
  if (b < p.end) p.end = b;
  return p;
}

/* Returns [a, b) of a piece: at most a partial block, whole blocks, and
 * another. */
static int content_cut(const gli_piece *p, uint32_t size, uint64_t a,
                       uint64_t b, gli_piece out[3]) {
  if (a < p->start) a = p->start;
  if (b > p->end) b = p->end;
  if (a >= b) return 0;
  if (p->stride == 0) {
    out[0] = plain_part(*p, a, b);
    return 1;
  }
  uint64_t from = (a - p->start) / p->stride;
  uint64_t last = (b - 1 - p->start) / p->stride;
  gli_piece head = gli_piece_block(p, size, from);
  gli_piece tail = gli_piece_block(p, size, last);
  if (from == last) {
    out[0] = plain_part(head, a, b);
    return 1;
  }
  int n = 0;
  if (head.start != a) out[n++] = plain_part(head, a, b);
  uint64_t whole_from = head.start == a ? from : from + 1;
  uint64_t whole_to = tail.end == b ? last + 1 : last;
  if (whole_from < whole_to)
    out[n++] = content_blocks(p, size, whole_from, whole_to);
  if (tail.end != b) out[n++] = plain_part(tail, a, b);
  return n;
}

/* ---- joining ------------------------------------------------------------- */

static bool content_continues(const gli_piece *a, const gli_piece *b) {
  return gli_ranks_equal(a->ranks, b->ranks) && a->adds == b->adds &&
         a->stores == b->stores && a->source + content_length(a) == b->source;
}

/* Sets the differences between block a and block b. */
static void set_steps(gli_piece *series, uint32_t size, const gli_piece *a,
                      const gli_piece *b) {
  series->source_step = b->source - a->source;
  series->first_step = b->ranks.first >= a->ranks.first
                           ? b->ranks.first - a->ranks.first
                           : b->ranks.first + (size - a->ranks.first);
  series->n_step = b->ranks.n - a->ranks.n;
  series->adds_step = b->adds - a->adds;
  series->stores_step = b->stores - a->stores;
}

static bool same_steps(const gli_piece *a, const gli_piece *b) {
  return a->source_step == b->source_step && a->first_step == b->first_step &&
         a->n_step == b->n_step && a->adds_step == b->adds_step &&
         a->stores_step == b->stores_step;
}

static bool content_simple(const gli_piece *p) {
  return p->ranks.n != GLI_RANKS_LISTED;
}

/* Joins two pieces, b right behind a. Returns false if they do not form one. */
static bool content_join(gli_piece *a, uint32_t size, const gli_piece *b) {
  if (a->end != b->start || a->order != b->order) return false;
  if (a->stride == 0 && b->stride == 0 && content_continues(a, b)) {
    a->end = b->end;
    return true;
  }
  uint64_t stride = a->stride != 0 ? a->stride : content_length(a);
  uint64_t b_stride = b->stride != 0 ? b->stride : content_length(b);
  if (stride != b_stride || !content_simple(a) || !content_simple(b))
    return false;
  gli_piece a_last = gli_piece_block(a, size, gli_piece_blocks(a) - 1);
  gli_piece b_first = gli_piece_block(b, size, 0);
  gli_piece step = {0};
  set_steps(&step, size, &a_last, &b_first);
  if (a->stride != 0 && !same_steps(a, &step)) return false;
  if (b->stride != 0 && !same_steps(b, &step)) return false;
  if (a->stride == 0) {
    a->stride = stride;
    set_steps(a, size, &a_last, &b_first);
  }
  a->end = b->end;
  return true;
}

bool gli_content_append(gli_content *c, uint32_t size, gli_piece piece) {
  while (c->n > 0) {
    gli_piece joined = c->pieces[c->n - 1];
    if (!content_join(&joined, size, &piece)) break;
    piece = joined;
    c->n--;
  }
  if (!content_reserve(c, c->n + 1)) return false;
  c->pieces[c->n++] = piece;
  return true;
}

/* ---- reading and writing ------------------------------------------------- */

/* Returns the first piece that ends behind x. */
static size_t content_find(const gli_content *c, uint64_t x) {
  size_t low = 0, high = c->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c->pieces[middle].end > x) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

bool gli_content_read(const gli_content *c, uint32_t size, uint64_t offset,
                      uint64_t bytes, gli_content *out) {
  uint64_t end = offset + bytes;
  out->n = 0;
  for (size_t i = content_find(c, offset); i < c->n && c->pieces[i].start < end;
       i++) {
    gli_piece parts[3];
    int n = content_cut(&c->pieces[i], size, offset, end, parts);
    for (int j = 0; j < n; j++) {
      parts[j].start -= offset;
      parts[j].end -= offset;
      if (!gli_content_append(out, size, parts[j])) return false;
    }
  }
  return true;
}

uint64_t gli_content_first_gap(const gli_content *c, uint64_t bytes) {
  uint64_t at = 0;
  for (size_t i = 0; i < c->n && at < bytes; i++) {
    if (c->pieces[i].start > at) return at;
    at = c->pieces[i].end;
  }
  return at < bytes ? at : bytes;
}

/* Replaces pieces [from, to) by the pieces of `by`. */
static bool content_splice(gli_content *c, size_t from, size_t to,
                           const gli_content *by) {
  if (!content_reserve(c, c->n - (to - from) + by->n)) return false;
  memmove(&c->pieces[from + by->n], &c->pieces[to],
          (c->n - to) * sizeof(gli_piece));
  memcpy(&c->pieces[from], by->pieces, by->n * sizeof(gli_piece));
  c->n = c->n - (to - from) + by->n;
  return true;
}

/* Builds the replacement of pieces [from, to): their content outside of the
 * range, and the new content in between. The neighbours are included, so that
 * all can be joined. */
static bool content_compose(const gli_content *c, uint32_t size, size_t from,
                            size_t to, uint64_t offset, uint64_t end,
                            const gli_content *in, gli_content *by) {
  gli_piece parts[3];
  for (size_t i = from; i < to; i++) {
    int n = content_cut(&c->pieces[i], size, 0, offset, parts);
    for (int j = 0; j < n; j++) {
      if (!gli_content_append(by, size, parts[j])) return false;
    }
  }
  for (size_t i = 0; i < in->n; i++) {
    gli_piece piece = in->pieces[i];
    piece.start += offset;
    piece.end += offset;
    if (!gli_content_append(by, size, piece)) return false;
  }
  for (size_t i = from; i < to; i++) {
    int n = content_cut(&c->pieces[i], size, end, UINT64_MAX, parts);
    for (int j = 0; j < n; j++) {
      if (!gli_content_append(by, size, parts[j])) return false;
    }
  }
  return true;
}

bool gli_content_write(gli_content *c, uint32_t size, uint64_t offset,
                       uint64_t bytes, const gli_content *in) {
  uint64_t end = offset + bytes;
  size_t from = content_find(c, offset), to = from;
  while (to < c->n && c->pieces[to].start < end) to++;
  if (from > 0) from--;
  if (to < c->n) to++;
  gli_piece few[16];
  gli_content by = {few, 0, 16};
  gli_content grown = {0};
  bool fits = in->n + 3 * (to - from) <= 16;
  gli_content *used = fits ? &by : &grown;
  bool ok = content_compose(c, size, from, to, offset, end, in, used) &&
            content_splice(c, from, to, used);
  gli_content_free(&grown);
  return ok;
}
