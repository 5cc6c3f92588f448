/* The rules for steps: what a step may read and write. */
#include "core/error.h"
#include "plan/raw.h"

/* ---- errors -------------------------------------------------------------- */

static const char *const buffer_names[GLI_BUFFERS] = {
    "IN", "INS", "OUT", "SCRATCH", "TOKEN", "PLACE", "OUTS"};

bool gli_build_failed(const gli_builder *b) {
  return b->error.status != GLOO_OK;
}

void gli_build_fail(gli_builder *b, gloo_status status, const char *what) {
  if (gli_build_failed(b)) return;
  gli_fail(&b->error, status, (int)b->params.rank,
           "%s of rank %u of %u, step %llu: %s",
           gli_collective_name(b->params.collective), b->params.rank,
           b->params.size, (unsigned long long)b->n_seen, what);
}

static void fail_range(gli_builder *b, gli_range r, uint64_t limit) {
  if (gli_build_failed(b)) return;
  gli_fail(
      &b->error, GLOO_ERR_INTERNAL, (int)b->params.rank,
      "%s of rank %u of %u, step %llu: %s[%llu, +%llu) exceeds its %llu bytes",
      gli_collective_name(b->params.collective), b->params.rank, b->params.size,
      (unsigned long long)b->n_seen, buffer_names[r.buffer],
      (unsigned long long)r.offset, (unsigned long long)r.bytes,
      (unsigned long long)limit);
}

/* ---- ranges -------------------------------------------------------------- */

/* Checks a range against its buffer. */
bool gli_build_range(gli_builder *b, gli_range r) {
  uint64_t limit = UINT64_MAX;
  switch (r.buffer) {
    case GLI_IN:
      limit = b->in_bytes;
      break;
    case GLI_OUT:
      limit = b->out_bytes;
      break;
    case GLI_SCRATCH:
      limit = b->scratch_bytes;
      break;
    case GLI_TOKEN:
      limit = UINT64_MAX - 1;
      break;
    default:
      gli_build_fail(b, GLOO_ERR_INTERNAL, "no such buffer");
      return false;
  }
  if (!gli_in_bounds(r.offset, r.bytes, limit)) {
    fail_range(b, r, limit);
    return false;
  }
  bool last_token = r.buffer == GLI_TOKEN && r.offset + r.bytes > b->tokens;
  if (last_token) b->tokens = r.offset + r.bytes;
  return true;
}

/* Maps a range that is read: in place, IN lies in OUT; several inputs lie where
 * they were joined. */
bool gli_build_reads(gli_builder *b, gli_range *r) {
  if (b->sub != NULL && !gli_sub_place(b, r, false)) return false;
  if (r->buffer == GLI_IN && !b->reads_in) {
    gli_build_fail(b, GLOO_ERR_INTERNAL, "reads IN, which only the root has");
    return false;
  }
  if (!gli_build_range(b, *r)) return false;
  if (r->buffer != GLI_IN || !b->in_moved) return true;
  r->buffer = b->in_buffer;
  r->offset += b->in_shift;
  return true;
}

bool gli_build_writes(gli_builder *b, gli_range *r) {
  if (b->sub != NULL && !gli_sub_place(b, r, true)) return false;
  if (r->buffer == GLI_IN) {
    gli_build_fail(b, GLOO_ERR_INTERNAL,
                   "writes IN, which belongs to the caller");
    return false;
  }
  if (r->buffer == GLI_OUT && !b->writes_out) {
    gli_build_fail(b, GLOO_ERR_INTERNAL, "writes OUT, which only the root has");
    return false;
  }
  return gli_build_range(b, *r);
}

/* Local steps work element by element, so an operand must be at the result's
 * location or disjoint from it. */
bool gli_build_apart(gli_builder *b, gli_range r, gli_range dst) {
  if (r.buffer != dst.buffer || r.offset == dst.offset) return true;
  uint64_t distance =
      r.offset > dst.offset ? r.offset - dst.offset : dst.offset - r.offset;
  if (distance >= dst.bytes) return true;
  gli_build_fail(b, GLOO_ERR_INTERNAL,
                 "an operand overlaps part of the result");
  return false;
}

bool gli_build_memory(gli_builder *b, gli_range r) {
  if (r.buffer != GLI_TOKEN) return true;
  gli_build_fail(b, GLOO_ERR_INTERNAL, "accesses TOKEN, which has no bytes");
  return false;
}

bool gli_build_same(gli_builder *b, uint64_t x, uint64_t y) {
  if (x == y) return true;
  gli_build_fail(b, GLOO_ERR_INTERNAL, "the ranges have different lengths");
  return false;
}

bool gli_build_reduces(gli_builder *b, gli_range dst) {
  if (!b->reduces) {
    gli_build_fail(b, GLOO_ERR_INTERNAL,
                   "reduces in a collective without an operation");
    return false;
  }
  if (dst.bytes % b->params.elem_bytes == 0) return true;
  gli_build_fail(b, GLOO_ERR_INTERNAL, "reduces part of an element");
  return false;
}

bool gli_build_blocks(gli_builder *b, gli_range first, uint32_t n,
                      uint64_t stride, gli_range dst) {
  uint64_t distance, all;
  if (first.buffer != GLI_SCRATCH) {
    gli_build_fail(b, GLOO_ERR_INTERNAL, "has blocks outside SCRATCH");
    return false;
  }
  if (!gli_build_range(b, first)) return false;
  if (n > 1 && stride < first.bytes) {
    gli_build_fail(b, GLOO_ERR_INTERNAL, "has blocks that overlap");
    return false;
  }
  if (!gli_mul_u64(stride, n - 1, &distance) ||
      !gli_add_u64(distance, first.bytes, &all)) {
    all = UINT64_MAX;
  }
  gli_range whole = gli_bytes(GLI_SCRATCH, first.offset, all);
  if (!gli_build_range(b, whole)) return false;
  bool beside = dst.buffer != GLI_SCRATCH || dst.offset >= whole.offset + all ||
                whole.offset >= dst.offset + dst.bytes;
  if (!beside) gli_build_fail(b, GLOO_ERR_INTERNAL, "overwrites a block");
  return beside;
}
