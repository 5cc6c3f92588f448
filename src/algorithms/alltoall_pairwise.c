/* All-to-all, pairwise exchange.
 *
 * Wins: long blocks on many ranks whose network suffers if several send to one:
 * in each round every rank sends to one other and receives from one. Also for
 * lengths that differ between ranks (alltoallv).
 * Cost for P ranks and m bytes of input: P-1 rounds; every rank sends m (P-1)/P
 * bytes.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005.
 *
 * In round k rank r exchanges blocks with rank r xor k if P is a power of two;
 * otherwise it sends to r + k and receives from r - k, modulo P. A rank sends
 * once its previous round has completed in both directions. P = 4, partners:
 *
 *   rank       0   1   2   3
 *   round 1    1   0   3   2
 *         2    2   3   0   1
 *         3    3   2   1   0
 *
 * In place, the input is copied first, because arriving blocks overwrite it. */
#include "plan/builder.h"

uint32_t gli_alltoall_pairwise_rounds(uint32_t size) {
  return size - 1;
}

uint64_t gli_alltoall_pairwise_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

/* Computes the ranks that a rank sends to and receives from in round k. */
static void partners(const gli_plan_params *p, uint64_t k, uint32_t *to,
                     uint32_t *from) {
  uint64_t size = p->size;
  bool pairs = (size & (size - 1)) == 0;
  *to = (uint32_t)(pairs ? p->rank ^ k : (p->rank + k) % size);
  *from = (uint32_t)(pairs ? p->rank ^ k : (p->rank + size - k) % size);
}

void gli_alltoall_pairwise(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size;
  uint32_t to, from;
  gli_range sent = gli_aside(b, p);
  gli_lane(b, 1);
  for (uint64_t k = 1; k < size; k++) {
    partners(p, k, &to, &from);
    gli_range block = gli_block(p, GLI_IN, to);
    block = gli_bytes(sent.buffer, sent.offset + block.offset, block.bytes);
    gli_send(b, to, gli_told(p, block, 2 * k));
    gli_recv(b, from, gli_told(p, gli_block(p, GLI_OUT, from), 2 * k + 1));
  }
  gli_copy(b, gli_block(p, GLI_IN, p->rank), gli_block(p, GLI_OUT, p->rank));
}
