/* Reduce-scatter, fused.
 *
 * Wins: ranks of one host that reach each other's memory: each rank reads its
 * block of all inputs in their owners' memory, and only results are written.
 * Each element is added up in the order of ranks.
 * Cost for P ranks and m bytes of input if all bytes must be sent: 2 rounds;
 * every rank sends m (P-1)/P bytes. If memory is mapped: the same rounds
 * without the bytes.
 * Source: as for the fused allreduce: Hashmi, "Designing Shared Address Space
 * MPI Libraries in Many-Core Era", 2018.
 *
 * P = 3; rank 1 reads and writes the parts in brackets, the others likewise:
 *
 *   rank     0             1             2
 *   input    a0 [a1] a2    b0 [b1] b2    c0 [c1] c2     GET by rank 1
 *                 \           |           /
 *   output                 [s1] = a1 + b1 + c1
 *
 * Then rank 1 tells the others that it has read their inputs. In place, the
 * first block of the buffer is both a block of the input, exposed to rank 0,
 * and the destination of the result: a rank then adds up into its own block,
 * and moves the sum once rank 0 has read the first block. */
#include "algorithms/fused.h"

uint32_t gli_reduce_scatter_fused_rounds(uint32_t size) {
  return size > 1 ? 2 : 0;
}

uint64_t gli_reduce_scatter_fused_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* Returns the part for a turn of the block that begins with element `first`. */
static gli_range reduce_scatter_piece(const gli_plan_params *p,
                                      gli_buffer buffer, uint64_t first,
                                      uint64_t turn, uint64_t n_turns) {
  return gli_fused_piece(p, gli_elems(p, buffer, first, p->count), n_turns,
                         turn);
}

/* Adds up this rank's piece of all inputs. */
static void reduce_scatter_fused_add_up(gli_builder *b,
                                        const gli_plan_params *p, gli_range in,
                                        gli_range out) {
  uint32_t others = p->size - 1;
  if (others == 1) {
    uint32_t peer = 1 - p->rank;
    gli_recv_reduce_get(b, peer, in, out, peer < p->rank, 0, 0);
    return;
  }
  uint64_t stride = (in.bytes + 63) / 64 * 64;
  gli_reduction r = {.local = in,
                     .dst = out,
                     .own = p->rank,
                     .n = others,
                     .blocks = gli_scratch(b, others * stride),
                     .stride = stride,
                     .get = gli_windows(b, others)};
  r.blocks.bytes = in.bytes;
  for (uint32_t k = 0; k < others; k++) {
    uint32_t rank = gli_fused_other(p, k);
    uint32_t window = rank < p->rank ? rank : rank - 1;
    uint64_t at = r.blocks.offset + window * stride;
    gli_recv_get(b, rank, gli_bytes(GLI_SCRATCH, at, in.bytes), r.get + window);
  }
  gli_reduce_all(b, &r);
}

void gli_reduce_scatter_fused(gli_builder *b, const gli_plan_params *p) {
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);
  if (p->count == 0) return;
  if (p->size == 1) {
    gli_copy(b, gli_elems(p, GLI_IN, 0, p->count), out);
    return;
  }
  uint64_t n_turns =
      gli_fused_turns(p->size, p->count * p->elem_bytes * p->size);
  bool moves = p->in_place && p->rank > 0;
  uint64_t first = moves ? p->rank * p->count : 0; /* start of the sum in OUT */
  for (uint64_t t = 0; t < n_turns; t++) {
    for (uint32_t k = 0; k + 1 < p->size; k++) {
      uint32_t rank = gli_fused_other(p, k);
      gli_expose_get(
          b, rank,
          reduce_scatter_piece(p, GLI_IN, rank * p->count, t, n_turns));
    }
    reduce_scatter_fused_add_up(
        b, p, reduce_scatter_piece(p, GLI_IN, p->rank * p->count, t, n_turns),
        reduce_scatter_piece(p, GLI_OUT, first, t, n_turns));
  }
  gli_range sum = gli_elems(p, GLI_OUT, first, p->count);
  for (uint32_t k = 0; k + 1 < p->size; k++) {
    uint32_t rank = gli_fused_other(p, k);
    gli_signal(b, rank, sum);
    gli_await(b, rank,
              moves && rank == 0 ? out : gli_bytes(GLI_TOKEN, rank + 1, 1));
  }
  if (moves) gli_copy(b, sum, out);
}
