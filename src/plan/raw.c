/* Lifetime of a builder. */
#include "plan/raw.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "plan/lists.h"

static gloo_status check_params(const gli_plan_params *p, gloo_error *error) {
  if ((unsigned)p->collective >= GLI_COLLECTIVES) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "unknown collective number %d",
                    (int)p->collective);
  }
  if (p->size == 0 || p->rank >= p->size) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "rank %u is out of range: the number of ranks is %u",
                    p->rank, p->size);
  }
  if (p->root >= p->size) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "root %u is out of range: the number of ranks is %u",
                    p->root, p->size);
  }
  if (p->elem_bytes == 0) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "the element size is 0");
  }
  if (p->hosts != NULL && p->hosts->size != p->size) {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the hosts describe %u ranks, not %u", p->hosts->size,
                    p->size);
  }
  return GLOO_OK;
}

/* Returns the segment length in whole elements, at least one. */
static uint64_t segment_length(const gli_plan_params *p) {
  if (p->segment_bytes == 0) return UINT64_MAX;
  if (p->segment_bytes < p->elem_bytes) return p->elem_bytes;
  return p->segment_bytes - p->segment_bytes % p->elem_bytes;
}

void gli_raw_init(gli_builder *b) {
  b->steps = b->inline_steps;
  b->capacity = GLI_RAW_INLINE_STEPS;
  b->peers = b->inline_peers;
  b->peer_capacity = GLI_RAW_INLINE_PEERS;
  b->table = NULL;
  b->table_mask = 0;
}

gloo_status gli_raw_begin(gli_builder *b, const gli_plan_params *p,
                          gloo_error *error) {
  b->params = *p;
  gloo_status status = check_params(p, error);
  if (status != GLOO_OK) return status;
  gli_shape shape;
  if (!gli_plan_shape(p, &shape) || shape.in_bytes > SIZE_MAX / 2 ||
      shape.out_bytes > SIZE_MAX / 2) {
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "%llu elements of %llu bytes from %u ranks exceed the address space",
        (unsigned long long)p->count, (unsigned long long)p->elem_bytes,
        p->size);
  }
  b->in_bytes = shape.in_bytes;
  b->out_bytes = shape.out_bytes;
  b->in_shift = shape.in_shift;
  b->in_moved = shape.in_place;
  b->in_buffer = GLI_OUT;
  b->reads_in = shape.reads_in;
  b->writes_out = shape.writes_out;
  b->segment = segment_length(p);
  b->reduces = gli_collective_reduces(p->collective);
  gli_raw_restart(b, 0, UINT64_MAX);
  return GLOO_OK;
}

void gli_raw_build(gli_builder *b, gli_build_fn build) {
  gli_plan_params inner;
  gli_lists_local_reduce(b, &inner);
  if (gli_build_is_empty(&inner)) build = gli_build_empty;
  build(b, &inner);
  gli_lists_local_bcast(b);
}

void gli_raw_restart(gli_builder *b, uint64_t first, uint64_t count) {
  b->scratch_bytes = 0;
  b->n_windows = 0;
  b->one_sided = false;
  b->sub = NULL;
  b->tokens = 1; /* token 0, this rank's arrival */
  b->lane = 0;
  b->n_seen = 0;
  b->window_first = first;
  b->window_end = count > UINT64_MAX - first ? UINT64_MAX : first + count;
  b->n_steps = 0;
  if (b->table != NULL) {
    memset(b->table, 0, ((size_t)b->table_mask + 1) * sizeof *b->table);
  }
  b->n_peers = 0;
  b->recent[0] = b->recent[1] = GLI_NO_PEER;
  gli_error_clear(&b->error);
}

void gli_raw_free(gli_builder *b) {
  if (b->steps != b->inline_steps) free(b->steps);
  if (b->peers != b->inline_peers) free(b->peers);
  free(b->table);
}
