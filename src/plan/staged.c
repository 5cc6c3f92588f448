#include "plan/staged.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/depend.h"
#include "plan/shape.h"

/* A copy outlasts its launch, and is no longer than a message. */
#define PIECE ((uint64_t)512 << 10)

uint64_t gli_staged_piece(const gli_plan_params *p) {
  uint64_t elems = PIECE / p->elem_bytes;
  return (elems > 0 ? elems : 1) * p->elem_bytes;
}

/* ---- sets of bytes ------------------------------------------------------- */

typedef struct span {
  uint64_t from, to;
} span;

/* Spans in ascending order, disjoint. */
typedef struct spans {
  span *list;
  size_t n, capacity;
} spans;

static bool spans_insert(spans *s, size_t at, span new) {
  if (s->n == s->capacity) {
    size_t capacity = s->capacity == 0 ? 16 : 2 * s->capacity;
    span *list = realloc(s->list, capacity * sizeof *list);
    if (list == NULL) return false;
    s->list = list;
    s->capacity = capacity;
  }
  memmove(&s->list[at + 1], &s->list[at], (s->n - at) * sizeof *s->list);
  s->list[at] = new;
  s->n++;
  return true;
}

/* Returns the first span that ends at `x` or later. */
static size_t spans_find(const spans *s, uint64_t x) {
  size_t low = 0, high = s->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (s->list[middle].to < x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool spans_add(spans *s, span new) {
  size_t first = spans_find(s, new.from), end = first;
  for (; end < s->n && s->list[end].from <= new.to; end++) {
    if (s->list[end].from < new.from) new.from = s->list[end].from;
    if (s->list[end].to > new.to) new.to = s->list[end].to;
  }
  if (end == first) return spans_insert(s, first, new);
  s->list[first] = new;
  memmove(&s->list[first + 1], &s->list[end], (s->n - end) * sizeof *s->list);
  s->n -= end - first - 1;
  return true;
}

/* Adds the part of `new` that is not in `but`. */
static bool spans_add_rest(spans *s, span new, const spans *but) {
  for (size_t i = spans_find(but, new.from); new.from < new.to; i++) {
    bool more = i < but->n && but->list[i].from < new.to;
    uint64_t until = more ? but->list[i].from : new.to;
    if (until > new.from && !spans_add(s, (span){new.from, until}))
      return false;
    if (!more) break;
    if (but->list[i].to > new.from) new.from = but->list[i].to;
  }
  return true;
}

/* ---- what a plan needs and makes ----------------------------------------- */

typedef struct staging {
  const gli_builder *b;
  spans needed[GLI_BUFFERS]; /* bytes read before they are written */
  spans written[GLI_BUFFERS];
} staging;

static bool is_staged(const gli_plan_params *p, uint8_t buffer) {
  if (buffer == GLI_IN || buffer == GLI_INS) return p->staged & GLI_STAGED_IN;
  if (buffer == GLI_OUT || buffer == GLI_OUTS)
    return p->staged & GLI_STAGED_OUT;
  return false;
}

/* Memory exposed for writing keeps its content until the message is received.
 */
static bool note_step(staging *g, const gli_step *step) {
  gli_access at[GLI_ACCESSES];
  int n = gli_depend_accesses(step, at);
  for (int i = 0; i < n; i++) {
    uint8_t buffer = at[i].buffer;
    if (!is_staged(&g->b->params, buffer) || at[i].bytes == 0) continue;
    if (at[i].writes && step->kind == GLI_STEP_SEND) continue;
    span s = {at[i].offset, at[i].offset + at[i].bytes};
    spans *written = &g->written[buffer];
    bool ok = at[i].writes ? spans_add(written, s)
                           : spans_add_rest(&g->needed[buffer], s, written);
    if (!ok) return false;
  }
  return true;
}

/* Handles GLI_STAGED_MOVES. */
static bool note_moved(staging *g) {
  const gli_plan_params *p = &g->b->params;
  gli_shape shape;
  if (!gli_plan_shape(p, &shape)) return false;
  uint64_t result = p->counts != NULL ? p->counts->own : p->count;
  span in = {shape.in_shift, shape.in_shift + shape.in_bytes};
  span out = {0, result * p->elem_bytes};
  bool ok = in.from == in.to || spans_add(&g->needed[GLI_OUT], in);
  if (ok && shape.writes_out && out.to > 0)
    ok = spans_add(&g->written[GLI_OUT], out);
  return ok;
}

/* ---- copies -------------------------------------------------------------- */

typedef struct copy {
  uint8_t buffer;
  uint64_t offset, bytes;
  /* The first reader of the piece: its segment, and its step. */
  uint32_t segment, step;
} copy;

typedef struct copies {
  copy *list; /* ascending by buffer and offset until sorted */
  size_t n;
  size_t first[GLI_BUFFERS + 1]; /* first copy of each buffer */
} copies;

/* Cuts the spans of each buffer at multiples of the piece length. */
static bool copies_make(const gli_plan_params *p, const spans *of, copies *c) {
  uint64_t piece = gli_staged_piece(p);
  uint64_t most = 0;
  for (int i = 0; i < GLI_BUFFERS; i++) {
    for (size_t k = 0; k < of[i].n; k++)
      most += (of[i].list[k].to - 1) / piece - of[i].list[k].from / piece + 1;
  }
  c->n = 0;
  if (most > SIZE_MAX / sizeof *c->list) return false;
  c->list = malloc((size_t)most * sizeof *c->list + 1);
  if (c->list == NULL) return false;
  for (int i = 0; i < GLI_BUFFERS; i++) {
    c->first[i] = c->n;
    for (size_t k = 0; k < of[i].n; k++) {
      span rest = of[i].list[k];
      for (uint64_t end; rest.from < rest.to; rest.from = end) {
        end = (rest.from / piece + 1) * piece;
        if (end > rest.to) end = rest.to;
        c->list[c->n++] = (copy){(uint8_t)i, rest.from, end - rest.from,
                                 UINT32_MAX, UINT32_MAX};
      }
    }
  }
  c->first[GLI_BUFFERS] = c->n;
  return true;
}

static void note_reader(copies *c, const gli_access *at, uint32_t segment,
                        uint32_t step) {
  size_t low = c->first[at->buffer], high = c->first[at->buffer + 1];
  size_t end = high;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c->list[middle].offset + c->list[middle].bytes <= at->offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < end && c->list[low].offset < at->offset + at->bytes; low++) {
    copy *k = &c->list[low];
    if (segment > k->segment) continue;
    if (segment == k->segment && step >= k->step) continue;
    k->segment = segment;
    k->step = step;
  }
}

/* Returns true if `s` is the next segment of the same original step. */
static bool staged_goes_on(const gli_step *last, const gli_step *s) {
  return s->kind == last->kind && s->role == last->role &&
         s->peer == last->peer && s->a_buffer == last->a_buffer &&
         s->dst_buffer == last->dst_buffer && s->a == last->a + last->bytes &&
         s->dst == last->dst + last->bytes;
}

static int copy_order(const void *a, const void *b) {
  const copy *x = a, *y = b;
  if (x->segment != y->segment) return x->segment < y->segment ? -1 : 1;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  if (x->buffer != y->buffer) return x->buffer < y->buffer ? -1 : 1;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts the first segments of all steps before all second ones, so that a part
 * of the result is ready long before the whole input is. In the order of steps,
 * the whole input would come first. */
static void copies_sort(const gli_builder *b, copies *c) {
  uint32_t segment = 0;
  for (uint32_t i = 0; i < b->n_steps; i++) {
    gli_access at[GLI_ACCESSES];
    const gli_step *s = &b->steps[i];
    segment = i > 0 && staged_goes_on(s - 1, s) ? segment + 1 : 0;
    int n = gli_depend_accesses(s, at);
    for (int k = 0; k < n; k++) {
      if (!at[k].writes) note_reader(c, &at[k], segment, i);
    }
  }
  qsort(c->list, c->n, sizeof *c->list, copy_order);
}

/* ---- the pass ------------------------------------------------------------ */

static gli_step step_of(const copy *c, gli_step_kind kind,
                        const gli_plan_params *p) {
  gli_step s = {.kind = (uint8_t)kind,
                .dst_buffer = GLI_TOKEN,
                .peer = GLI_NO_PEER,
                .bytes = c->bytes};
  if (kind == GLI_STEP_COPY_IN) {
    s.dst_buffer = c->buffer;
    s.dst = c->offset;
  } else {
    s.a_buffer = c->buffer;
    s.a = c->offset;
    /* The image is changed before it is copied. */
    if (p->staged & GLI_STAGED_CHANGES) {
      s.dst_buffer = c->buffer;
      s.dst = c->offset;
    }
  }
  return s;
}

static bool staged_join(gli_builder *b, const copies *in, const copies *out) {
  /* The order allows the copy of nothing anywhere. */
  size_t no_copies = in->n + out->n == 0;
  size_t n = in->n + b->n_steps + out->n + no_copies;
  if (n >= UINT32_MAX - 1) return false;
  gli_step *steps = malloc(n * sizeof *steps + 1);
  if (steps == NULL) return false;
  size_t at = 0;
  for (size_t i = 0; i < in->n; i++)
    steps[at++] = step_of(&in->list[i], GLI_STEP_COPY_IN, &b->params);
  memcpy(steps + at, b->steps, b->n_steps * sizeof *steps);
  at += b->n_steps;
  for (size_t i = 0; i < out->n; i++)
    steps[at++] = step_of(&out->list[i], GLI_STEP_COPY_OUT, &b->params);
  if (no_copies)
    steps[at++] = step_of(&(copy){.buffer = GLI_TOKEN, .bytes = 1},
                          GLI_STEP_COPY_IN, &b->params);
  if (b->steps != b->inline_steps) free(b->steps);
  b->steps = steps;
  b->n_steps = b->capacity = n;
  return true;
}

gloo_status gli_staged_add(gli_builder *b, gloo_error *error) {
  staging g = {.b = b};
  copies in = {.n = 0}, out = {.n = 0};
  bool ok = true;
  for (size_t i = 0; ok && i < b->n_steps; i++)
    ok = note_step(&g, &b->steps[i]);
  if (ok && (b->params.staged & GLI_STAGED_MOVES)) ok = note_moved(&g);
  ok = ok && copies_make(&b->params, g.needed, &in) &&
       copies_make(&b->params, g.written, &out);
  if (ok) copies_sort(b, &in);
  ok = ok && staged_join(b, &in, &out);
  for (int i = 0; i < GLI_BUFFERS; i++) {
    free(g.needed[i].list);
    free(g.written[i].list);
  }
  free(in.list);
  free(out.list);
  if (ok) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a plan of staged copies");
}
