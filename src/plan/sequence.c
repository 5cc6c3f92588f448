/* Sequences of steps that several algorithms share. */
#include "core/error.h"
#include "plan/builder.h"

/* Returns the offset of block k, or UINT64_MAX, which no memory has. */
static uint64_t sequence_times(uint64_t stride, uint32_t k) {
  uint64_t at;
  return gli_mul_u64(stride, k, &at) ? at : UINT64_MAX;
}

/* Receives all inputs into scratch memory, and combines them in one step. */
static void recv_all_reduce_many(gli_builder *b, const gli_plan_params *p,
                                 gli_range own, gli_range dst) {
  uint64_t stride = (dst.bytes + 63) / 64 * 64;
  gli_range blocks = gli_scratch(b, sequence_times(stride, p->size - 1));
  for (uint32_t k = 0; k < p->size; k++) {
    if (k == p->rank) continue;
    uint64_t at =
        blocks.offset + sequence_times(stride, k < p->rank ? k : k - 1);
    gli_recv(b, k, gli_bytes(GLI_SCRATCH, at, dst.bytes));
  }
  gli_many many = {.local = own,
                   .dst = dst,
                   .own = p->rank,
                   .n = p->size - 1,
                   .blocks = gli_bytes(GLI_SCRATCH, blocks.offset, dst.bytes),
                   .stride = stride};
  gli_reduce_many(b, &many);
}

void gli_recv_all_reduce(gli_builder *b, const gli_plan_params *p,
                         gli_range own, gli_range sum, gli_range dst) {
  gli_range held = own;
  if (p->low_precision && p->size > 2) {
    recv_all_reduce_many(b, p, own, dst);
    return;
  }
  if (p->size == 1) gli_copy(b, own, dst);
  if (p->rank > 1) {
    gli_recv(b, 0, sum);
    held = sum;
  }
  for (uint32_t k = 1; k < p->size; k++) {
    gli_range to = k == p->size - 1 ? dst : sum;
    if (k != p->rank) {
      gli_recv_reduce(b, k, held, to, false);
    } else if (k == 1) {
      gli_recv_reduce(b, 0, own, to, true);
    } else {
      gli_reduce(b, held, own, to);
    }
    held = to;
  }
}

/* Returns the end of the last block of the input. */
static uint64_t input_bytes(const gli_plan_params *p) {
  uint64_t bytes = 0;
  for (uint64_t k = 0; k < p->size; k++) {
    gli_range block = gli_block(p, GLI_IN, k);
    if (block.bytes > 0 && block.offset + block.bytes > bytes)
      bytes = block.offset + block.bytes;
  }
  return bytes;
}

gli_range gli_aside(gli_builder *b, const gli_plan_params *p) {
  if (!p->in_place || p->size == 1) return gli_bytes(GLI_IN, 0, 0);
  gli_range copies = gli_scratch(b, input_bytes(p));
  for (uint64_t k = 1; k < p->size; k++) {
    gli_range block = gli_block(p, GLI_IN, (p->rank + k) % p->size);
    gli_copy(
        b, block,
        gli_bytes(copies.buffer, copies.offset + block.offset, block.bytes));
  }
  return copies;
}
