/* Bytes of this rank's buffers: what arrived elsewhere, and local steps. */
#include <string.h>

#include "core/reduce.h"
#include "engine/memory/memory.h"

void gli_operation_store(gloo_operation *op, const gli_step *s,
                         const uint8_t *data, size_t bytes) {
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  if (s->kind == GLI_STEP_RECV) {
    memcpy(dst, data, bytes);
    return;
  }
  const uint8_t *local = gli_operation_at(op, s->a_buffer, s->a);
  size_t count = gli_operation_elems(op, bytes);
  if (s->incoming_left) {
    gli_operation_reduce(op, dst, data, local, count);
  } else {
    gli_operation_reduce(op, dst, local, data, count);
  }
}

static bool overlap(const uint8_t *a, const uint8_t *b, uint64_t bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return (x < y ? y - x : x - y) < bytes;
}

void gli_operation_run_local(gloo_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  if (s->dst_buffer == GLI_TOKEN || s->bytes == 0) return;
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  const uint8_t *a = gli_operation_at(op, s->a_buffer, s->a);
  if (s->kind == GLI_STEP_COPY) {
    if (gli_operation_streams(op, step) && !overlap(dst, a, s->bytes)) {
      gli_copy_stream(dst, a, (size_t)s->bytes);
    } else {
      memmove(dst, a, (size_t)s->bytes);
    }
    return;
  }
  const uint8_t *b = gli_operation_at(op, s->b_buffer, s->b);
  gli_operation_reduce(op, dst, a, b,
                       gli_operation_elems(op, (size_t)s->bytes));
}
