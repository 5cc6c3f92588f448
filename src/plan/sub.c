/* Inner plans: other ranks, other buffers, the same steps. */
#include <stddef.h>

#include "core/error.h"
#include "plan/raw.h"
#include "plan/shape.h"

static void sub_fail(gli_builder *b, const char *what) {
  if (b->error.status != GLOO_OK) return;
  gli_fail(&b->error, GLOO_ERR_INTERNAL, (int)b->params.rank,
           "%s of rank %u of %u, step %llu, in a nested plan: %s",
           gli_collective_name(b->params.collective), b->params.rank,
           b->params.size, (unsigned long long)b->n_seen, what);
}

/* ---- where things are ---------------------------------------------------- */

static bool place_in(gli_builder *b, gli_range *r, gli_range where) {
  if (!gli_in_bounds(r->offset, r->bytes, where.bytes)) {
    sub_fail(b, "a range exceeds its buffer");
    return false;
  }
  r->buffer = where.buffer;
  r->offset += where.offset;
  return true;
}

static bool place_token(gli_builder *b, gli_range *r) {
  uint64_t shift = b->inner_tokens;
  if (!gli_in_bounds(r->offset, r->bytes, UINT64_MAX - 1 - shift)) {
    sub_fail(b, "the token does not exist");
    return false;
  }
  if (r->offset > 0) {
    r->offset += shift;
  } else if (r->bytes > 0) {
    r->bytes += shift;
  }
  return true;
}

bool gli_sub_place(gli_builder *b, gli_range *r, bool writes) {
  switch (r->buffer) {
    case GLI_IN:
      if (!writes && b->inner_reads) return place_in(b, r, b->sub->in);
      sub_fail(b, writes ? "writes IN" : "reads IN, which only the root has");
      return false;
    case GLI_OUT:
      if (b->inner_writes) return place_in(b, r, b->sub->out);
      sub_fail(b, "uses OUT, which only the root has");
      return false;
    case GLI_TOKEN:
      return place_token(b, r);
    default:
      return true;
  }
}

/* Returns the final location of a range: in place, IN lies in OUT. */
static gli_range sub_resolve(const gli_builder *b, gli_range r) {
  if (r.buffer != GLI_IN || !b->in_moved) return r;
  return gli_bytes(b->in_buffer, r.offset + b->in_shift, r.bytes);
}

/* ---- parameters ---------------------------------------------------------- */

/* Determines if the inner plan is in place, and its buffers' lengths. */
static bool find_shape(const gli_builder *b, gli_plan_params *p,
                       gli_shape *shape) {
  gli_range in = sub_resolve(b, b->sub->in), out = sub_resolve(b, b->sub->out);
  p->in_place = true;
  if (!gli_plan_shape(p, shape)) return false;
  p->in_place = shape->in_place && in.buffer == out.buffer &&
                in.offset == out.offset + shape->in_shift;
  return gli_plan_shape(p, shape);
}

static const char *what_is_wrong(gli_builder *b, gli_plan_params *p) {
  const gli_sub *sub = b->sub;
  if (sub->rank >= sub->size || sub->root >= sub->size ||
      sub->members[sub->rank] != b->params.rank) {
    return "this rank is not the member it claims to be";
  }
  gli_shape shape;
  if (!find_shape(b, p, &shape) ||
      (shape.reads_in && sub->in.bytes != shape.in_bytes) ||
      (shape.writes_out && sub->out.bytes != shape.out_bytes)) {
    return "its buffer lengths do not match its parameters";
  }
  b->inner_reads = shape.reads_in;
  b->inner_writes = shape.writes_out;
  return NULL;
}

/* ---- interface ----------------------------------------------------------- */

void gli_sub_plan(gli_builder *b, gli_build_fn build, const gli_sub *sub) {
  if (b->error.status != GLOO_OK) return;
  if (b->sub != NULL) {
    sub_fail(b, "it contains another nested plan");
    return;
  }
  gli_plan_params p = {.collective = sub->collective,
                       .rank = sub->rank,
                       .size = sub->size,
                       .root = sub->root,
                       .count = sub->count,
                       .elem_bytes = b->params.elem_bytes,
                       .segment_bytes = b->params.segment_bytes,
                       .hosts = sub->hosts,
                       .oversubscribed = b->params.oversubscribed,
                       .locality = b->params.locality,
                       .low_precision = b->params.low_precision,
                       .order = b->params.order,
                       .tuning = b->params.tuning};
  b->sub = sub;
  b->inner_tokens = b->tokens - 1;
  const char *wrong = what_is_wrong(b, &p);
  if (wrong == NULL) build(b, &p);
  b->sub = NULL;
  if (wrong != NULL) sub_fail(b, wrong);
}

gli_range gli_heard(const gli_builder *b) {
  return gli_bytes(GLI_TOKEN, 0, b->tokens);
}
