/* Dependencies from data, by interval maps.
 *
 * The ends of all ranges of a buffer cut it into pieces that every step covers
 * completely or not at all. Each piece records the last step that wrote it and
 * the steps that have read it since; a step visits the pieces it covers. */
#include "plan/depend.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Readers of a piece form a list of pairs (step, next) in d->readers. */
typedef struct piece {
  uint32_t writer, readers;
} piece;

typedef struct map {
  uint64_t *ends; /* ascending, without duplicates */
  size_t n_ends;
  size_t hint; /* start of the last range: the next is often near */
  piece *pieces;
} map;

typedef struct pass {
  gli_depend *d;
  map maps[GLI_BUFFERS];
  uint8_t first; /* first buffer that orders steps: inputs come first */
  piece lanes[UINT8_MAX + 1]; /* the last send, and the receives since */
  bool has_lanes;
  uint32_t *seen; /* [n_steps] 1 + the step at which the last edge ends */
  bool ok;
} pass;

/* ---- what a step touches ------------------------------------------------- */

static gli_access depend_reads(const gli_step *s, uint8_t buffer,
                               uint64_t offset) {
  return (gli_access){offset, s->bytes, buffer, false};
}

static gli_access depend_writes(const gli_step *s, uint8_t buffer,
                                uint64_t offset) {
  return (gli_access){offset, s->bytes, buffer, true};
}

static gli_access reads_windows(uint32_t first, uint32_t n) {
  return (gli_access){first, n, GLI_WINDOW, false};
}

int gli_depend_accesses(const gli_step *s, gli_access out[GLI_ACCESSES]) {
  int n = 0;
  switch (s->kind) {
    case GLI_STEP_SEND:
      if (s->role == GLI_ROLE_PUT) out[n++] = reads_windows(s->window, 1);
      out[n++] = s->role == GLI_ROLE_EXPOSE_PUT
                     ? depend_writes(s, s->a_buffer, s->a)
                     : depend_reads(s, s->a_buffer, s->a);
      return n;
    case GLI_STEP_RECV:
      out[n++] = depend_writes(s, s->dst_buffer, s->dst);
      if (s->role == GLI_ROLE_EXPOSE_PUT) out[0].bytes = 1;
      return n;
    case GLI_STEP_REDUCE:
      out[n++] = depend_reads(s, s->b_buffer, s->b);
      break;
    case GLI_STEP_COPY_IN:
      out[n++] = depend_writes(s, s->dst_buffer, s->dst);
      return n;
    case GLI_STEP_COPY_OUT: /* a token stands for the caller's memory */
      out[n++] = depend_reads(s, s->a_buffer, s->a);
      if (s->dst_buffer != GLI_TOKEN)
        out[n++] = depend_writes(s, s->dst_buffer, s->dst);
      return n;
    default:
      if (s->n_puts > 0) out[n++] = reads_windows(s->put, s->n_puts);
      break;
  }
  out[n++] = depend_reads(s, s->a_buffer, s->a);
  out[n++] = depend_writes(s, s->dst_buffer, s->dst);
  return n;
}

static uint32_t blocks_of(const gli_step *s) {
  return gli_step_has_blocks(s) ? s->n : 0;
}

static gli_access depend_block_of(const gli_step *s, uint32_t k) {
  return depend_reads(s, s->b_buffer, s->b + k * s->stride);
}

/* ---- sorting ------------------------------------------------------------- */

static void insertion_sort(uint64_t *keys, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint64_t key = keys[i];
    size_t at = i;
    for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
    keys[at] = key;
  }
}

/* Sorts `keys`, least significant byte first; `other` is a buffer. */
static void radix_sort(uint64_t *keys, uint64_t *other, size_t n,
                       uint64_t largest) {
  uint64_t *from = keys, *to = other;
  for (int shift = 0; shift < 64 && (largest >> shift) != 0; shift += 8) {
    size_t starts[257] = {0};
    for (size_t i = 0; i < n; i++) starts[((from[i] >> shift) & 255) + 1]++;
    for (int i = 0; i < 256; i++) starts[i + 1] += starts[i];
    for (size_t i = 0; i < n; i++) {
      to[starts[(from[i] >> shift) & 255]++] = from[i];
    }
    uint64_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != keys) memcpy(keys, from, n * sizeof *keys);
}

static size_t sort_unique(uint64_t *keys, uint64_t *other, size_t n) {
  if (n == 0) return 0;
  if (n <= 48) {
    insertion_sort(keys, n);
  } else {
    uint64_t largest = 0;
    for (size_t i = 0; i < n; i++) largest |= keys[i];
    radix_sort(keys, other, n, largest);
  }
  size_t unique = 1;
  for (size_t i = 1; i < n; i++) {
    if (keys[i] != keys[unique - 1]) keys[unique++] = keys[i];
  }
  return unique;
}

/* ---- the maps ------------------------------------------------------------ */

static void note_end(map *m, uint64_t x) {
  size_t n = m->n_ends;
  if (n >= 1 && m->ends[n - 1] == x) return;
  if (n >= 2 && m->ends[n - 2] == x) return;
  m->ends[m->n_ends++] = x;
}

static void note_access(pass *p, gli_access at) {
  if (at.buffer < p->first) return;
  map *m = &p->maps[at.buffer];
  note_end(m, at.offset);
  note_end(m, at.offset + at.bytes);
}

static void note_ends(pass *p, const gli_step *s) {
  gli_access at[GLI_ACCESSES];
  uint32_t blocks = blocks_of(s);
  for (uint32_t k = 0; k < blocks; k++) note_access(p, depend_block_of(s, k));
  int n = gli_depend_accesses(s, at);
  for (int i = 0; i < n; i++) note_access(p, at[i]);
}

/* Returns the piece that begins at x, which is one of the ends. */
static size_t find_piece(map *m, uint64_t x) {
  size_t h = m->hint;
  if (m->ends[h] == x) return h;
  if (h + 1 < m->n_ends && m->ends[h + 1] == x) return m->hint = h + 1;
  if (h > 0 && m->ends[h - 1] == x) return m->hint = h - 1;
  size_t low = 0, high = m->n_ends;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (m->ends[middle] <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return m->hint = low;
}

/* ---- edges --------------------------------------------------------------- */

static void add_edge(pass *p, uint32_t from, uint32_t to) {
  if (p->seen[from] == to + 1) return;
  p->seen[from] = to + 1;
  gli_depend *d = p->d;
  if (d->n_edges == d->edge_capacity) {
    size_t capacity = d->edge_capacity == 0 ? 256 : d->edge_capacity * 2;
    gli_edge *edges = realloc(d->edges, capacity * sizeof *edges);
    if (edges == NULL) {
      p->ok = false;
      return;
    }
    d->edges = edges;
    d->edge_capacity = capacity;
  }
  d->edges[d->n_edges++] = (gli_edge){from, to};
}

static void add_reader(pass *p, piece *at, uint32_t step) {
  gli_depend *d = p->d;
  if (d->n_readers + 2 > d->reader_capacity) {
    size_t capacity = d->reader_capacity == 0 ? 256 : d->reader_capacity * 2;
    uint32_t *readers = realloc(d->readers, capacity * sizeof *readers);
    if (readers == NULL) {
      p->ok = false;
      return;
    }
    d->readers = readers;
    d->reader_capacity = capacity;
  }
  if (d->n_readers > UINT32_MAX - 2) {
    p->ok = false;
    return;
  }
  d->readers[d->n_readers] = step;
  d->readers[d->n_readers + 1] = at->readers;
  at->readers = (uint32_t)d->n_readers;
  d->n_readers += 2;
}

static void visit_read(pass *p, gli_access r, uint32_t step) {
  if (r.buffer < p->first) return;
  map *m = &p->maps[r.buffer];
  uint64_t end = r.offset + r.bytes;
  for (size_t i = find_piece(m, r.offset); m->ends[i] < end; i++) {
    piece *at = &m->pieces[i];
    if (at->writer != NONE) add_edge(p, at->writer, step);
    add_reader(p, at, step);
  }
}

/* Waiting for the readers is enough, because they waited for the last write.
 * The step itself may be a reader. */
static void visit_write(pass *p, gli_access w, uint32_t step) {
  map *m = &p->maps[w.buffer];
  uint64_t end = w.offset + w.bytes;
  for (size_t i = find_piece(m, w.offset); m->ends[i] < end; i++) {
    piece *at = &m->pieces[i];
    if (at->readers == NONE && at->writer != NONE) {
      add_edge(p, at->writer, step);
    }
    for (uint32_t r = at->readers; r != NONE; r = p->d->readers[r + 1]) {
      if (p->d->readers[r] != step) add_edge(p, p->d->readers[r], step);
    }
    at->writer = step;
    at->readers = NONE;
  }
}

static void depend_visit(pass *p, const gli_step *s, uint32_t step) {
  gli_access at[GLI_ACCESSES];
  uint32_t blocks = blocks_of(s);
  for (uint32_t k = 0; k < blocks; k++)
    visit_read(p, depend_block_of(s, k), step);
  int n = gli_depend_accesses(s, at);
  for (int i = 0; i < n; i++) {
    if (at[i].writes) {
      visit_write(p, at[i], step);
    } else {
      visit_read(p, at[i], step);
    }
  }
}

/* A send waits for all earlier messages of its lane. */
static void visit_lane(pass *p, const gli_step *s, uint32_t step) {
  if (!p->has_lanes) {
    p->has_lanes = true;
    memset(p->lanes, 0xff, sizeof p->lanes); /* all NONE */
  }
  piece *lane = &p->lanes[s->lane];
  if (s->kind != GLI_STEP_SEND) {
    add_reader(p, lane, step);
    return;
  }
  if (lane->writer != NONE) add_edge(p, lane->writer, step);
  for (uint32_t r = lane->readers; r != NONE; r = p->d->readers[r + 1]) {
    add_edge(p, p->d->readers[r], step);
  }
  *lane = (piece){step, NONE};
}

/* ---- the pass ------------------------------------------------------------ */

static bool depend_reserve(gli_depend *d, size_t bytes) {
  if (bytes <= d->arena_bytes) return true;
  void *arena = realloc(d->arena, bytes);
  if (arena == NULL) return false;
  d->arena = arena;
  d->arena_bytes = bytes;
  return true;
}

/* Counts the ends that each map may get. */
static void count_ends(const gli_step *steps, uint32_t n, uint8_t first,
                       size_t counts[GLI_BUFFERS]) {
  for (uint32_t i = 0; i < n; i++) {
    gli_access at[GLI_ACCESSES];
    int k = gli_depend_accesses(&steps[i], at);
    for (int j = 0; j < k; j++) {
      if (at[j].buffer >= first) counts[at[j].buffer] += 2;
    }
    size_t blocks = blocks_of(&steps[i]);
    if (blocks > 0) counts[steps[i].b_buffer] += 2 * blocks;
  }
}

static bool make_maps(pass *p, const gli_step *steps, uint32_t n) {
  size_t counts[GLI_BUFFERS] = {0}, all = 0, most = 0;
  count_ends(steps, n, p->first, counts);
  for (int i = 0; i < GLI_BUFFERS; i++) {
    all += counts[i];
    if (counts[i] > most) most = counts[i];
  }
  if (!depend_reserve(p->d, (all + most) * sizeof(uint64_t) +
                                all * sizeof(piece) + n * sizeof(uint32_t))) {
    return false;
  }
  uint64_t *ends = p->d->arena;
  uint64_t *other = ends + all;
  piece *pieces = (piece *)(other + most);
  p->seen = (uint32_t *)(pieces + all);
  memset(p->seen, 0, n * sizeof(uint32_t));
  for (int i = 0; i < GLI_BUFFERS; i++) {
    p->maps[i] = (map){.ends = ends, .pieces = pieces};
    ends += counts[i];
    pieces += counts[i];
  }
  for (uint32_t i = 0; i < n; i++) note_ends(p, &steps[i]);
  for (int i = 0; i < GLI_BUFFERS; i++) {
    map *m = &p->maps[i];
    m->n_ends = sort_unique(m->ends, other, m->n_ends);
    memset(m->pieces, 0xff, m->n_ends * sizeof(piece)); /* all NONE */
  }
  return true;
}

bool gli_depend_derive(gli_depend *d, const gli_step *steps, uint32_t n,
                       bool copied) {
  d->n_edges = 0;
  d->n_readers = 0;
  if (n == 0) return true;
  pass p;
  p.d = d;
  p.ok = true;
  p.has_lanes = false;
  p.first = copied ? GLI_IN : GLI_OUT;
  if (!make_maps(&p, steps, n)) return false;
  for (uint32_t i = 0; i < n && p.ok; i++) {
    if (steps[i].lane != 0) visit_lane(&p, &steps[i], i);
    depend_visit(&p, &steps[i], i);
  }
  return p.ok;
}

void gli_depend_free(gli_depend *d) {
  free(d->edges);
  free(d->arena);
  free(d->readers);
  *d = (gli_depend){0};
}
