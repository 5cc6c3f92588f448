/* The caller's counts and displacements, as a plan reads them. */
#include <inttypes.h>
#include <stdlib.h>

#include "api/call_read.h"
#include "core/error.h"

static gloo_status too_many(const gli_arguments *a, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_COUNT, -1,
                  "%s: the sum of the counts exceeds the address space",
                  a->function);
}

/* ---- memory -------------------------------------------------------------- */

static uint64_t *counts_array(gli_given_counts *n, uint32_t size,
                              unsigned index) {
  uint64_t *memory = n->many != NULL ? n->many : n->few;
  return memory + (size_t)index * size;
}

static gloo_status counts_reserve(gli_given_counts *n, uint32_t size,
                                  gloo_error *error) {
  n->counts = (gli_counts){.packed = true};
  n->many = NULL;
  if (size <= GLI_FEW_RANKS) return GLOO_OK;
  n->many = calloc(size, 4 * sizeof *n->many);
  if (n->many != NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for the counts of %u ranks", size);
}

void gli_given_counts_free(gli_given_counts *n) {
  free(n->many);
  n->many = NULL;
}

/* ---- one list ------------------------------------------------------------ */

/* Reads the lengths and the beginnings of blocks, which are given or
 * contiguous. */
static gloo_status counts_read_list(gli_given_counts *n, const gli_arguments *a,
                                    uint32_t size, bool input, uint64_t *length,
                                    uint64_t *first, gloo_error *error) {
  const char *which = input ? "input" : "output";
  const size_t *counts = input ? a->in_counts : a->out_counts;
  const size_t *at = input ? a->in_first : a->out_first;
  if (counts == NULL) {
    return gli_fail(error, GLOO_ERR_COUNT, -1,
                    "%s: the list of counts of the %s is NULL; it needs one "
                    "count per rank, %u in all",
                    a->function, which, size);
  }
  uint64_t end = 0;
  for (uint32_t k = 0; k < size; k++) {
    uint64_t next;
    length[k] = counts[k];
    first[k] = at != NULL ? at[k] : end;
    if (first[k] != end) n->counts.packed = false;
    if (!gli_add_u64(end, length[k], &next) ||
        (at != NULL && at[k] > UINT64_MAX - length[k])) {
      return too_many(a, error);
    }
    end = next;
  }
  return GLOO_OK;
}

static uint64_t counts_sum(const uint64_t *length, uint32_t size) {
  uint64_t total = 0;
  for (uint32_t k = 0; k < size; k++) total += length[k];
  return total;
}

static uint32_t counts_hash(const uint64_t *length, uint32_t size) {
  uint64_t h = size;
  for (uint32_t k = 0; k < size; k++) {
    h = (h ^ length[k]) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
  }
  return (uint32_t)(h >> 32);
}

/* ---- overlap ------------------------------------------------------------- */

typedef struct span {
  uint64_t from, to;
  uint32_t rank;
} span;

static int by_begin(const void *a, const void *b) {
  const span *x = a, *y = b;
  return x->from < y->from ? -1 : x->from > y->from;
}

static gloo_status counts_overlap(const gli_arguments *a, span x, span y,
                                  gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_COUNT, -1,
      "%s: in the output, the blocks of ranks %u (elements %" PRIu64
      " to %" PRIu64 ") and %u (%" PRIu64 " to %" PRIu64 ") overlap",
      a->function, x.rank, x.from, x.to - 1, y.rank, y.from, y.to - 1);
}

static gloo_status check_sorted(const gli_arguments *a, const span *s, size_t n,
                                gloo_error *error) {
  for (size_t i = 1; i < n; i++) {
    if (s[i].from < s[i - 1].to)
      return counts_overlap(a, s[i - 1], s[i], error);
  }
  return GLOO_OK;
}

/* Checks that written blocks do not overlap. */
static gloo_status check_apart(const gli_arguments *a, const uint64_t *length,
                               const uint64_t *first, uint32_t size,
                               gloo_error *error) {
  bool ascending = true;
  uint64_t end = 0;
  for (uint32_t k = 0; k < size; k++) {
    if (length[k] == 0) continue;
    if (first[k] < end) ascending = false;
    end = first[k] + length[k];
  }
  if (ascending) return GLOO_OK;
  span *spans = calloc(size, sizeof *spans);
  if (spans == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for comparing %u displacements", size);
  }
  size_t n = 0;
  for (uint32_t k = 0; k < size; k++) {
    if (length[k] == 0) continue;
    spans[n++] = (span){first[k], first[k] + length[k], k};
  }
  qsort(spans, n, sizeof *spans, by_begin);
  gloo_status status = check_sorted(a, spans, n, error);
  free(spans);
  return status;
}

/* ---- a call -------------------------------------------------------------- */

static gloo_status counts_read_input(gli_given_counts *n,
                                     const gli_arguments *a, uint32_t size,
                                     gloo_error *error) {
  uint64_t *length = counts_array(n, size, 0),
           *first = counts_array(n, size, 1);
  n->counts.in = length;
  n->counts.in_first = first;
  return counts_read_list(n, a, size, true, length, first, error);
}

static gloo_status read_output(gli_given_counts *n, const gli_arguments *a,
                               uint32_t size, gloo_error *error) {
  uint64_t *length = counts_array(n, size, 2),
           *first = counts_array(n, size, 3);
  n->counts.out = length;
  n->counts.out_first = first;
  gloo_status status =
      counts_read_list(n, a, size, false, length, first, error);
  if (status != GLOO_OK) return status;
  return check_apart(a, length, first, size, error);
}

/* Fails if the block that a rank keeps for itself has different lengths in
 * input and output. */
static gloo_status check_own(const gli_arguments *a, uint32_t rank,
                             uint64_t input, uint64_t output,
                             gloo_error *error) {
  if (input == output) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_COUNT, (int)rank,
                  "%s: rank %u has %" PRIu64
                  " elements for itself, but room for %" PRIu64,
                  a->function, rank, input, output);
}

static gloo_status read_all(gli_given_counts *n, const gli_arguments *a,
                            const gli_plan_params *p, gloo_error *error) {
  gli_counts *c = &n->counts;
  bool in_place = a->input == GLOO_IN_PLACE, root = p->rank == p->root;
  gloo_status status;
  c->own = a->count;
  switch (a->collective) {
    case GLI_ALLGATHERV:
      status = read_output(n, a, p->size, error);
      if (status != GLOO_OK) return status;
      c->own = c->out[p->rank];
      c->hash = counts_hash(c->out, p->size);
      return GLOO_OK;
    case GLI_REDUCE_SCATTERV:
      status = counts_read_input(n, a, p->size, error);
      if (status != GLOO_OK) return status;
      c->own = c->in[p->rank];
      c->hash = counts_hash(c->in, p->size);
      return GLOO_OK;
    case GLI_GATHERV:
      if (!root) return GLOO_OK;
      status = read_output(n, a, p->size, error);
      if (status != GLOO_OK) return status;
      if (in_place) c->own = c->out[p->rank];
      return check_own(a, p->rank, c->own, c->out[p->rank], error);
    case GLI_SCATTERV:
      if (!root) return GLOO_OK;
      status = counts_read_input(n, a, p->size, error);
      if (status != GLOO_OK) return status;
      if (in_place) c->own = c->in[p->rank];
      return check_own(a, p->rank, c->in[p->rank], c->own, error);
    default:
      status = read_output(n, a, p->size, error);
      if (status != GLOO_OK) return status;
      if (in_place) {
        c->in = c->out;
        c->in_first = c->out_first;
        return GLOO_OK;
      }
      status = counts_read_input(n, a, p->size, error);
      if (status != GLOO_OK) return status;
      return check_own(a, p->rank, c->in[p->rank], c->out[p->rank], error);
  }
}

gloo_status gli_given_counts_read(gli_given_counts *n, const gli_arguments *a,
                                  gli_plan_params *p, gloo_error *error) {
  gloo_status status = counts_reserve(n, p->size, error);
  if (status == GLOO_OK) status = read_all(n, a, p, error);
  if (status != GLOO_OK) return status;
  const gli_counts *c = &n->counts;
  p->counts = c;
  p->count = 0;
  if (a->collective == GLI_ALLGATHERV) p->count = counts_sum(c->out, p->size);
  if (a->collective == GLI_REDUCE_SCATTERV)
    p->count = counts_sum(c->in, p->size);
  return GLOO_OK;
}

/* ---- repeated counts ----------------------------------------------------- */

static uint64_t hash_on(uint64_t h, const size_t *numbers, uint32_t size) {
  for (uint32_t k = 0; numbers != NULL && k < size; k++) {
    h = (h ^ numbers[k]) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
  }
  return h;
}

uint64_t gli_given_counts_hash(const gli_arguments *a, uint32_t rank,
                               uint32_t size) {
  bool root = !gli_collective_rooted(a->collective) || (int)rank == a->root;
  if (!root) return 0;
  return hash_on(hash_on(0, a->out_counts, size), a->in_counts, size);
}

static bool same_list(const size_t *counts, const size_t *at,
                      const uint64_t *length, const uint64_t *first,
                      uint32_t size) {
  if (length == NULL) return true; /* this rank does not read it */
  if (counts == NULL) return false;
  uint64_t end = 0;
  for (uint32_t k = 0; k < size; k++) {
    if (counts[k] != length[k]) return false;
    if ((at != NULL ? at[k] : end) != first[k]) return false;
    end += length[k];
  }
  return true;
}

bool gli_given_counts_same(const gli_arguments *a, const gli_counts *c,
                           uint32_t size) {
  if (!same_list(a->out_counts, a->out_first, c->out, c->out_first, size)) {
    return false;
  }
  /* An alltoallv in place has one list for both. */
  if (a->collective == GLI_ALLTOALLV && a->input == GLOO_IN_PLACE) return true;
  return same_list(a->in_counts, a->in_first, c->in, c->in_first, size);
}
