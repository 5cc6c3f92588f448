/* Gather, binomial tree.
 *
 * Wins: short blocks on more than a few ranks: the root receives a logarithmic
 * number of messages.
 * Cost for P ranks and m bytes of output: a chain of floor(log2 P) messages;
 * a child of the root sends up to m/2 bytes, the blocks of its whole subtree.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root; a rank's number without its lowest bit is
 * the number of its parent. The blocks of a subtree are neighbours, but for one
 * at most that passes the end of the root's output: it goes there as two
 * messages. P = 4, blocks that travel:
 *
 *   0 <-(1)- 1,  2 <-(3)- 3,  0 <-(2 3)- 2
 */
#include "plan/builder.h"

uint32_t gli_gather_binomial_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_gather_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t most = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2) {
    if (gli_subtree(size, bit) > most) most = gli_subtree(size, bit);
  }
  return vector_bytes / size * most;
}

static void gather_receive(gli_builder *b, const gli_plan_params *p,
                           uint64_t child, gli_range all, uint64_t at) {
  uint64_t block = p->count * p->elem_bytes,
           blocks = gli_subtree(p->size, child);
  uint32_t from = gli_numbered(p, child);
  if (p->rank != p->root) {
    gli_recv(b, from,
             gli_bytes(all.buffer, all.offset + at * block, blocks * block));
    return;
  }
  uint64_t first = gli_before_end(p, child, blocks);
  gli_recv(b, from, gli_bytes(GLI_OUT, from * block, first * block));
  gli_recv(b, from, gli_bytes(GLI_OUT, 0, (blocks - first) * block));
}

void gli_gather_binomial(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  uint64_t bit = gli_lowest_bit(size, number),
           blocks = gli_subtree(size, number);
  gli_range own = gli_own(p, GLI_IN), all = own;
  if (number == 0) {
    gli_copy(b, own, gli_block(p, GLI_OUT, p->rank));
  } else if (blocks > 1) {
    all = gli_scratch(b, blocks * own.bytes);
    gli_copy(b, own, gli_bytes(all.buffer, all.offset, own.bytes));
  }
  for (uint64_t child = 1; child < bit && number + child < size; child *= 2)
    gather_receive(b, p, number + child, all, child);
  if (number == 0) return;
  uint64_t first = blocks;
  if (number == bit)
    first = gli_before_end(p, number, blocks); /* to the root */
  uint32_t parent = gli_numbered(p, number - bit);
  gli_send(b, parent, gli_bytes(all.buffer, all.offset, first * own.bytes));
  gli_send(b, parent,
           gli_bytes(all.buffer, all.offset + first * own.bytes,
                     (blocks - first) * own.bytes));
}
