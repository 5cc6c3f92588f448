/* Calls with separate blocks (gloo_c/lists.h): from lists of pointers to the
 * plain call that the engine executes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/call_read.h"
#include "core/error.h"

/* ---- the lists of a call ------------------------------------------------- */

/* The lists of one rank. A side without a list has one buffer, or none. */
typedef struct listing {
  const gli_arguments *a;
  uint64_t elem_bytes;
  size_t n;       /* number of pointers in each list */
  uint64_t bytes; /* size of the blocks of one list */
  bool in_place;
  bool ins, outs; /* true if that side has a list; no inputs in place */
  /* Without a list of inputs: index of the output that holds the input in
   * place. */
  size_t own;
} listing;

/* Returns a list, with pointers to const. */
static const void *const *list_of(const listing *l, bool output) {
  return output ? (const void *const *)l->a->outputs : l->a->inputs;
}

static uint64_t piece_bytes(const listing *l, size_t i) {
  const size_t *counts = l->a->in_counts;
  return (counts != NULL ? counts[i] : l->a->count) * l->elem_bytes;
}

static gloo_status listing_too_large(const listing *l, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_COUNT, -1,
                  "%s: the elements of the list, of %" PRIu64
                  " bytes each, exceed the address space",
                  l->a->function, l->elem_bytes);
}

/* Counts the elements of all buffers of a list. */
static gloo_status listing_measure(listing *l, uint64_t *elements,
                                   gloo_error *error) {
  const gli_arguments *a = l->a;
  bool fits = true;
  if (a->collective == GLI_ALLREDUCE) {
    *elements = 0;
    if (a->in_counts == NULL && l->n > 0) {
      return gli_fail(error, GLOO_ERR_COUNT, -1,
                      "%s: the list of the counts of %zu pieces is NULL",
                      a->function, l->n);
    }
    for (size_t i = 0; fits && i < l->n; i++) {
      fits = gli_add_u64(*elements, a->in_counts[i], elements);
    }
  } else {
    fits = gli_mul_u64(a->count, l->n, elements);
  }
  fits = fits && gli_mul_u64(*elements, l->elem_bytes, &l->bytes) &&
         l->bytes <= PTRDIFF_MAX;
  return fits ? GLOO_OK : listing_too_large(l, error);
}

static gloo_status listing_check_list(const listing *l, bool output,
                                      gloo_error *error) {
  const void *const *list = list_of(l, output);
  if (list == NULL) {
    return gli_fail(error, GLOO_ERR_BUFFER, -1, "%s: the list of %s is NULL",
                    l->a->function, output ? "outputs" : "inputs");
  }
  for (size_t i = 0; i < l->n; i++) {
    uint64_t bytes = piece_bytes(l, i);
    if (bytes == 0 || list[i] != NULL) continue;
    return gli_fail(error, GLOO_ERR_BUFFER, -1,
                    output ? "%s: output %zu is NULL, but needs %" PRIu64
                             " bytes"
                           : "%s: input %zu is NULL, but has %" PRIu64 " bytes",
                    l->a->function, i, bytes);
  }
  return GLOO_OK;
}

/* Returns true without inputs, or with inputs of a call in place. */
static bool listing_in_place(const listing *l) {
  const gli_arguments *a = l->a;
  if (!l->outs) return false;
  if (!l->ins)
    return a->input == GLOO_IN_PLACE || a->input == a->outputs[l->own];
  if (a->inputs == NULL) return true;
  for (size_t i = 0; i < l->n; i++) {
    if (piece_bytes(l, i) > 0 && a->inputs[i] != a->outputs[i]) return false;
  }
  return true;
}

static gloo_status listing_check_lists(listing *l, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (l->outs) status = listing_check_list(l, true, error);
  if (status != GLOO_OK) return status;
  l->in_place = listing_in_place(l);
  if (l->in_place) l->ins = false;
  return l->ins ? listing_check_list(l, false, error) : GLOO_OK;
}

/* ---- contiguous blocks --------------------------------------------------- */

/* Returns the buffer that the blocks form; NULL if they are not contiguous. */
static const void *listing_whole(const listing *l, bool output) {
  const void *const *list = list_of(l, output);
  const void *first = NULL;
  uintptr_t next = 0;
  for (size_t i = 0; i < l->n; i++) {
    uint64_t bytes = piece_bytes(l, i);
    if (bytes == 0) continue;
    if (first == NULL) {
      first = list[i];
    } else if ((uintptr_t)list[i] != next) {
      return NULL;
    }
    next = (uintptr_t)list[i] + (uintptr_t)bytes;
  }
  return first;
}

/* ---- blocks that overlap ------------------------------------------------- */

typedef struct extent {
  uintptr_t from, to;
  size_t number; /* index in its list */
  bool output, listed;
} extent;

static int extent_order(const void *a, const void *b) {
  const extent *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->output != y->output) return x->output ? 1 : -1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static void extent_name(const extent *e, char *text, size_t bytes) {
  const char *which = e->output ? "output" : "input";
  if (e->listed) {
    snprintf(text, bytes, "%s %zu", which, e->number);
  } else {
    snprintf(text, bytes, "the %s", which);
  }
}

static gloo_status extents_overlap(const listing *l, const extent *x,
                                   const extent *y, gloo_error *error) {
  bool later = x->output != y->output ? x->output : x->number > y->number;
  char first[40], second[40];
  extent_name(later ? y : x, first, sizeof first);
  extent_name(later ? x : y, second, sizeof second);
  return gli_fail(error, GLOO_ERR_BUFFER, -1, "%s: %s and %s overlap",
                  l->a->function, first, second);
}

/* Checks the buffers for overlaps. Inputs may overlap because they are only
 * read. */
static gloo_status check_extents(const listing *l, extent *e, size_t n,
                                 gloo_error *error) {
  const extent *last_in = NULL,
               *last_out = NULL; /* extents with the highest end */
  qsort(e, n, sizeof *e, extent_order);
  for (size_t i = 0; i < n; i++) {
    const extent **last = e[i].output ? &last_out : &last_in;
    if (last_out != NULL && last_out->to > e[i].from)
      return extents_overlap(l, last_out, &e[i], error);
    if (e[i].output && last_in != NULL && last_in->to > e[i].from)
      return extents_overlap(l, last_in, &e[i], error);
    if (*last == NULL || (*last)->to < e[i].to) *last = &e[i];
  }
  return GLOO_OK;
}

static void extents_add(const listing *l, bool output, extent *e, size_t *n) {
  const gli_arguments *a = l->a;
  bool listed = output ? l->outs : l->ins;
  const void *one = output ? a->output : a->input;
  for (size_t i = 0; i < (listed ? l->n : 1); i++) {
    uintptr_t from = (uintptr_t)(listed ? list_of(l, output)[i] : one);
    uint64_t bytes = piece_bytes(l, i);
    if (bytes == 0 || from == 0) continue;
    e[(*n)++] = (extent){from, from + (uintptr_t)bytes, i, output, listed};
  }
}

static gloo_status staging_no_memory(const listing *l, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "%s: out of memory for %zu blocks, %" PRIu64 " bytes in all",
                  l->a->function, l->n, l->bytes);
}

static gloo_status listing_check_apart(const listing *l, gloo_error *error) {
  if (l->n > SIZE_MAX / 2 / sizeof(extent) - 1)
    return staging_no_memory(l, error);
  size_t n = 0;
  extent *e = malloc((2 * l->n + 1) * sizeof *e);
  if (e == NULL) return staging_no_memory(l, error);
  if (!l->in_place) extents_add(l, false, e, &n);
  extents_add(l, true, e, &n);
  gloo_status status = check_extents(l, e, n, error);
  free(e);
  return status;
}

/* ---- memory for separate blocks ------------------------------------------ */

/* Adds the copies to `at` that precede the plan. If one output holds the input,
 * only that output is copied; it stays in place and is not copied back. */
static void staging_add_before(const listing *l, bool output, uint8_t *at,
                               gli_staging *s) {
  const void *const *list = list_of(l, output);
  bool one = output && !(l->a->listed & GLI_LISTS_INPUTS);
  for (size_t i = 0; i < l->n; i++) {
    size_t bytes = (size_t)piece_bytes(l, i);
    if (bytes > 0 && (!one || i == l->own))
      s->pieces[s->n_before++] = (gli_piece){list[i], at, bytes};
    at += bytes;
  }
}

static void staging_add_after(const listing *l, const uint8_t *at,
                              gli_staging *s) {
  gli_piece *after = s->pieces + s->n_before;
  bool keeps_own = l->in_place && !(l->a->listed & GLI_LISTS_INPUTS);
  for (size_t i = 0; i < l->n; i++) {
    size_t bytes = (size_t)piece_bytes(l, i);
    if (bytes > 0 && !(keeps_own && i == l->own))
      after[s->n_after++] = (gli_piece){at, l->a->outputs[i], bytes};
    at += bytes;
  }
}

/* Allocates a staging with this number of buffers of l->bytes. */
static gli_staging *staging_allocate(const listing *l, uint64_t buffers,
                                     uint8_t **first) {
  uint64_t room, bytes;
  if (!gli_mul_u64(l->n, 2 * sizeof(gli_piece), &room)) return NULL;
  if (!gli_add_u64(room, sizeof(gli_staging) + 63, &room)) return NULL;
  room = room / 64 * 64;
  if (!gli_mul_u64(l->bytes, buffers, &bytes)) return NULL;
  if (!gli_add_u64(bytes, room, &bytes) || bytes > SIZE_MAX) return NULL;
  gli_staging *s = malloc((size_t)bytes);
  if (s == NULL) return NULL;
  *s = (gli_staging){.n_before = 0, .n_after = 0};
  *first = (uint8_t *)s + room;
  return s;
}

/* Chooses the memory, and adds the copies. The pieces of an allreduce are
 * joined at the place of the result. */
static gloo_status staging_fill(const listing *l, gli_arguments *plain,
                                gli_staging **staging, gloo_error *error) {
  const void *in = l->ins ? listing_whole(l, false) : NULL;
  const void *out = l->outs ? listing_whole(l, true) : NULL;
  bool stages_in = l->ins && in == NULL;
  bool stages_out = l->outs && out == NULL;
  bool joint = stages_in && stages_out && l->a->collective == GLI_ALLREDUCE;
  if (l->ins) plain->input = in;
  if (l->outs) plain->output = (void *)(uintptr_t)out;
  if (l->in_place || joint) plain->input = GLOO_IN_PLACE;
  if (!stages_in && !stages_out) return GLOO_OK;
  uint64_t buffers = stages_in && stages_out && !joint ? 2 : 1;
  uint8_t *first;
  gli_staging *s = staging_allocate(l, buffers, &first);
  if (s == NULL) return staging_no_memory(l, error);
  uint8_t *last = first + (buffers - 1) * l->bytes;
  if (stages_in) staging_add_before(l, false, first, s);
  if (stages_out && l->in_place) staging_add_before(l, true, last, s);
  if (stages_out) staging_add_after(l, last, s);
  if (stages_in && !joint) plain->input = first;
  if (stages_out) plain->output = last;
  *staging = s;
  return GLOO_OK;
}

gloo_status gli_staging_make(const gli_arguments *a, uint32_t rank,
                             uint32_t size, uint64_t elem_bytes,
                             gli_arguments *plain, gli_staging **staging,
                             gloo_error *error) {
  bool cut = a->collective == GLI_ALLREDUCE;
  bool leaf = a->collective == GLI_GATHER && rank != (uint32_t)a->root;
  listing l = {.a = a,
               .elem_bytes = elem_bytes,
               .n = cut ? a->n_inputs : size,
               .ins = a->listed & GLI_LISTS_INPUTS,
               .outs = (a->listed & GLI_LISTS_OUTPUTS) && !leaf,
               .own = rank};
  uint64_t elements = 0;
  *plain = *a;
  plain->several = false;
  plain->listed = 0;
  plain->in_counts = NULL;
  *staging = NULL;
  if (!l.ins && !l.outs) return GLOO_OK;
  gloo_status status = listing_measure(&l, &elements, error);
  if (status != GLOO_OK) return status;
  if (cut) plain->count = (size_t)elements;
  if (l.bytes == 0) return GLOO_OK; /* the lists are not read */
  status = listing_check_lists(&l, error);
  if (status == GLOO_OK) status = listing_check_apart(&l, error);
  if (status == GLOO_OK) status = staging_fill(&l, plain, staging, error);
  return status;
}
