/* Scatter, binomial tree.
 *
 * Wins: short blocks on more than a few ranks: the root sends a logarithmic
 * number of messages.
 * Cost for P ranks and m bytes of input: a chain of floor(log2 P) messages; the
 * root sends m (P-1)/P bytes, no other rank more than m/4.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root; a rank's number without its lowest bit is
 * the number of its parent, from which it gets the blocks of its whole subtree;
 * the largest subtree is served first. The blocks of a subtree are neighbours,
 * but for one at most that passes the end of the root's input: it comes as two
 * messages. P = 4, blocks that travel:
 *
 *   0 -(2 3)-> 2,  0 -(1)-> 1,  2 -(3)-> 3
 */
#include "plan/builder.h"

uint32_t gli_scatter_binomial_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (; size > 1; size /= 2) rounds++;
  return rounds;
}

uint64_t gli_scatter_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
}

static void send_down(gli_builder *b, const gli_plan_params *p, uint64_t child,
                      gli_range all, uint64_t at) {
  uint64_t block = p->count * p->elem_bytes,
           blocks = gli_subtree(p->size, child);
  uint32_t to = gli_numbered(p, child);
  if (p->rank != p->root) {
    gli_send(b, to,
             gli_bytes(all.buffer, all.offset + at * block, blocks * block));
    return;
  }
  uint64_t first = gli_before_end(p, child, blocks);
  gli_send(b, to, gli_bytes(GLI_IN, to * block, first * block));
  gli_send(b, to, gli_bytes(GLI_IN, 0, (blocks - first) * block));
}

/* In place, the root's own block stays where it is. */
void gli_scatter_binomial(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  uint64_t bit = gli_lowest_bit(size, number),
           blocks = gli_subtree(size, number);
  gli_range own = gli_own(p, GLI_OUT), all = own;
  if (number != 0) {
    uint64_t first = blocks;
    if (number == bit)
      first = gli_before_end(p, number, blocks); /* of the root */
    uint32_t parent = gli_numbered(p, number - bit);
    if (blocks > 1) all = gli_scratch(b, blocks * own.bytes);
    gli_recv(b, parent, gli_bytes(all.buffer, all.offset, first * own.bytes));
    gli_recv(b, parent,
             gli_bytes(all.buffer, all.offset + first * own.bytes,
                       (blocks - first) * own.bytes));
  }
  for (uint64_t child = bit / 2; child > 0; child /= 2) {
    if (number + child < size) send_down(b, p, number + child, all, child);
  }
  if (number != 0) {
    gli_copy(b, gli_bytes(all.buffer, all.offset, own.bytes), own);
  } else if (!p->in_place) {
    gli_copy(b, gli_block(p, GLI_IN, p->rank), own);
  }
}
