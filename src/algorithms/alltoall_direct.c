/* All-to-all, direct: each block goes straight to its receiver.
 *
 * Wins: nearly always: no byte travels twice, and no rank waits for a turn. Of
 * lengths that differ between ranks (alltoallv) too.
 * Cost for P ranks and m bytes of input: ceil((P-1) / 16) rounds, with 16
 * exchanges at a time; every rank sends m (P-1)/P bytes.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * In exchange k, rank r sends to r + k and receives from r - k, modulo P. It
 * sends when the exchange 16 before is over in both directions, so that a large
 * number of ranks does not turn to one at once. P = 4, whose block arrives:
 *
 *   rank          0   1   2   3
 *   exchange 1    3   0   1   2
 *            2    2   3   0   1
 *            3    1   2   3   0
 *
 * In place, the input is copied first, because arriving blocks overwrite it. */
#include "plan/builder.h"

#define WINDOW 16

uint32_t gli_alltoall_direct_rounds(uint32_t size) {
  return (size - 1 + WINDOW - 1) / WINDOW;
}

uint64_t gli_alltoall_direct_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

void gli_alltoall_direct(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  gli_range from = gli_aside(b, p);
  for (uint64_t k = 1; k < size; k += WINDOW) {
    uint64_t end = size - k < WINDOW ? size : k + WINDOW;
    for (uint64_t i = k; i < end; i++) {
      uint32_t to = (uint32_t)((p->rank + i) % size);
      gli_range block = gli_block(p, GLI_IN, to);
      block = gli_bytes(from.buffer, from.offset + block.offset, block.bytes);
      gli_lane(b, 1 + (unsigned)(i % WINDOW));
      gli_send(b, to, gli_told(p, block, 2 * i));
    }
    for (uint64_t i = k; i < end; i++) {
      uint32_t source = (uint32_t)((p->rank + size - i) % size);
      gli_lane(b, 1 + (unsigned)(i % WINDOW));
      gli_recv(b, source,
               gli_told(p, gli_block(p, GLI_OUT, source), 2 * i + 1));
    }
  }
  gli_copy(b, gli_block(p, GLI_IN, p->rank), gli_block(p, GLI_OUT, p->rank));
}
