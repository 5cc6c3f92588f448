#include "plan/shape.h"

#include <stddef.h>

#include "core/error.h"

/* ---- what each collective has -------------------------------------------- */

typedef enum part {
  NONE,
  ONE,   /* one block, this rank's */
  BLOCKS /* a block for each rank */
} part;

typedef struct buffers {
  part in, out;
  bool in_at_root, out_at_root; /* true if only the root has the buffer */
} buffers;

static const buffers all_buffers[GLI_COLLECTIVES] = {
    [GLI_BARRIER] = {NONE, NONE, false, false},
    [GLI_BROADCAST] = {ONE, ONE, true, false},
    [GLI_ALLREDUCE] = {ONE, ONE, false, false},
    [GLI_REDUCE_SCATTER] = {BLOCKS, ONE, false, false},
    [GLI_ALLGATHER] = {ONE, BLOCKS, false, false},
    [GLI_SENDRECV] = {ONE, ONE, false, false},
    [GLI_ALLTOALL] = {BLOCKS, BLOCKS, false, false},
    [GLI_REDUCE] = {ONE, ONE, false, true},
    [GLI_GATHER] = {ONE, BLOCKS, false, true},
    [GLI_SCATTER] = {BLOCKS, ONE, true, false},
    [GLI_SCAN] = {ONE, ONE, false, false},
    [GLI_EXSCAN] = {ONE, ONE, false, false},
    [GLI_ALLGATHERV] = {ONE, BLOCKS, false, false},
    [GLI_GATHERV] = {ONE, BLOCKS, false, true},
    [GLI_SCATTERV] = {BLOCKS, ONE, true, false},
    [GLI_ALLTOALLV] = {BLOCKS, BLOCKS, false, false},
    [GLI_REDUCE_SCATTERV] = {BLOCKS, ONE, false, false},
};

static buffers shape_of(const gli_plan_params *p) {
  buffers b = all_buffers[p->collective];
  bool root = p->rank == p->root;
  if (b.in_at_root && !root) b.in = NONE;
  if (b.out_at_root && !root) b.out = NONE;
  return b;
}

/* ---- lengths ------------------------------------------------------------- */

/* Computes the end of the last block. */
static bool shape_extent(const uint64_t *lengths, const uint64_t *first,
                         uint32_t size, uint64_t *end) {
  *end = 0;
  for (uint32_t k = 0; lengths != NULL && k < size; k++) {
    uint64_t to;
    if (!gli_add_u64(first[k], lengths[k], &to)) return false;
    if (lengths[k] > 0 && to > *end) *end = to;
  }
  return true;
}

static bool shape_bytes_of(const gli_plan_params *p, part is, bool input,
                           uint64_t *bytes) {
  const gli_counts *c = p->counts;
  uint64_t elements = c == NULL ? p->count : c->own;
  if (is == NONE) {
    *bytes = 0;
    return true;
  }
  if (is == BLOCKS && c == NULL) {
    if (!gli_mul_u64(p->count, p->size, &elements)) return false;
  } else if (is == BLOCKS) {
    if (!shape_extent(input ? c->in : c->out,
                      input ? c->in_first : c->out_first, p->size, &elements))
      return false;
  }
  return gli_mul_u64(elements, p->elem_bytes, bytes);
}

bool gli_plan_shape(const gli_plan_params *p, gli_shape *s) {
  buffers b = shape_of(p);
  *s = (gli_shape){.reads_in = b.in != NONE, .writes_out = b.out != NONE};
  if (!shape_bytes_of(p, b.in, true, &s->in_bytes)) return false;
  if (!shape_bytes_of(p, b.out, false, &s->out_bytes)) return false;
  s->in_place = p->in_place && s->reads_in;
  if (s->in_place && all_buffers[p->collective].out == BLOCKS &&
      b.out == NONE) {
    s->in_place = false;
  }
  if (!s->in_place) return true;
  if (b.in == ONE && b.out == BLOCKS) {
    s->in_shift = gli_block(p, GLI_OUT, p->rank).offset;
  }
  if (s->out_bytes < s->in_bytes) s->out_bytes = s->in_bytes;
  return true;
}

bool gli_plan_buffer_bytes(const gli_plan_params *p, uint64_t *in_bytes,
                           uint64_t *out_bytes) {
  gli_shape s;
  if (!gli_plan_shape(p, &s)) return false;
  *in_bytes = s.in_bytes;
  *out_bytes = s.out_bytes;
  return true;
}

uint64_t gli_plan_vector_bytes(const gli_plan_params *p) {
  buffers b = all_buffers[p->collective];
  uint64_t elements = p->count, bytes;
  bool many = b.in == BLOCKS || b.out == BLOCKS;
  if (b.in == NONE && b.out == NONE) return 0;
  if (many && p->counts == NULL && !gli_mul_u64(p->count, p->size, &elements)) {
    return UINT64_MAX;
  }
  return gli_mul_u64(elements, p->elem_bytes, &bytes) ? bytes : UINT64_MAX;
}

/* ---- results ------------------------------------------------------------- */

/* Returns the last index of ascending numbers whose number is not above x. */
static uint32_t last_from(const uint64_t *first, uint32_t n, uint64_t x) {
  uint32_t low = 0, high = n;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (first[middle] <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Finds the block of OUT that contains byte x, and its end. Returns false if x
 * is in a gap, with the start of the next block as `end`. */
static bool find_block(const gli_plan_params *p, uint64_t x, uint32_t *block,
                       uint64_t *end) {
  const gli_counts *c = p->counts;
  uint64_t element = x / p->elem_bytes, next = UINT64_MAX;
  if (c != NULL && c->packed) {
    *block = last_from(c->out_first, p->size, element);
    *end = (c->out_first[*block] + c->out[*block]) * p->elem_bytes;
    return true;
  }
  if (c == NULL) {
    *block = (uint32_t)(element / p->count);
    *end = ((uint64_t)*block + 1) * p->count * p->elem_bytes;
    return true;
  }
  for (uint32_t k = 0; k < p->size; k++) {
    uint64_t first = c->out_first[k], stop = first + c->out[k];
    if (c->out[k] == 0) continue;
    if (first <= element && element < stop) {
      *block = k;
      *end = stop * p->elem_bytes;
      return true;
    }
    if (first > element && first < next) next = first;
  }
  *end = next == UINT64_MAX ? next : next * p->elem_bytes;
  return false;
}

/* Returns the offset of the block for `rank` in the input of rank `of_rank`. */
static uint64_t block_offset(const gli_plan_params *p, uint32_t of_rank,
                             uint32_t rank) {
  gli_plan_params other = *p;
  if (p->counts != NULL) other.counts = p->counts - p->rank + of_rank;
  return gli_block(&other, GLI_IN, rank).offset;
}

static gli_result shape_kept(uint64_t until) {
  return (gli_result){.kind = GLI_RESULT_KEPT, .until = until};
}

static gli_result shape_one(uint32_t rank, uint64_t source, uint64_t until) {
  return (gli_result){GLI_RESULT_OF, rank, 1, source, until};
}

static gli_result shape_gathered(const gli_plan_params *p, uint64_t x) {
  uint32_t k;
  uint64_t end;
  if (!find_block(p, x, &k, &end)) return shape_kept(end);
  uint64_t at = x - gli_block(p, GLI_OUT, k).offset;
  if (all_buffers[p->collective].in == BLOCKS) {
    at += block_offset(p, k, p->rank);
  }
  return shape_one(k, at, end);
}

static gli_result shape_scattered(const gli_plan_params *p, uint64_t x) {
  if (p->rank == p->root && p->in_place) return shape_kept(UINT64_MAX);
  return shape_one(p->root, x + block_offset(p, p->root, p->rank),
                   gli_own(p, GLI_OUT).bytes);
}

static gli_result shape_reduced(const gli_plan_params *p, uint64_t x) {
  gli_result r = {GLI_RESULT_OF, 0, p->size, x, gli_own(p, GLI_OUT).bytes};
  if (p->collective == GLI_SCAN) r.n = p->rank + 1;
  if (p->collective == GLI_EXSCAN) r.n = p->rank;
  if (r.n == 0) return shape_kept(r.until);
  if (all_buffers[p->collective].in == BLOCKS) {
    r.source += gli_block(p, GLI_IN, p->rank).offset;
  }
  return r;
}

gli_result gli_plan_result(const gli_plan_params *p, uint64_t x) {
  buffers b = shape_of(p);
  if (b.out == NONE) return shape_kept(UINT64_MAX);
  if (b.out == BLOCKS) return shape_gathered(p, x);
  if (all_buffers[p->collective].in_at_root &&
      all_buffers[p->collective].in == BLOCKS) {
    return shape_scattered(p, x);
  }
  if (x >= gli_own(p, GLI_OUT).bytes) {
    return (gli_result){.until = UINT64_MAX};
  }
  if (p->collective == GLI_BROADCAST) {
    return shape_one(p->root, x, gli_own(p, GLI_OUT).bytes);
  }
  return shape_reduced(p, x);
}
