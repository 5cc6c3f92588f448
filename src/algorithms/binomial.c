/* Algorithms on a binomial tree. */
#include "algorithms/radix.h"
#include "plan/builder.h"

/* ---- broadcast ----------------------------------------------------------- */

/* Broadcast, binomial tree.
 *
 * Wins: short vectors, and any vector on two ranks.
 * Cost for P ranks and m bytes: a chain of floor(log2 P) messages; the root
 * sends m bytes ceil(log2 P) times, other ranks at most as often.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root. A rank's number with its lowest set bit
 * cleared is the number of its parent; the largest subtree is served first.
 * P = 8:
 *
 *   0 -> 4 -> 6 -> 7
 *   |     \-> 5
 *   |-> 2 -> 3
 *    \-> 1
 */

/* The chain to a rank is as long as its number has one bits. Among numbers
 * below P, the highest power of two up to P, minus 1, has the most. */
uint32_t gli_broadcast_binomial_rounds(uint32_t size) {
  return gli_log2_below(size);
}

uint64_t gli_broadcast_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t bytes = 0;
  for (uint64_t reach = 1; reach < size; reach *= 2) bytes += vector_bytes;
  return bytes;
}

void gli_broadcast_binomial(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  gli_range in = gli_elems(p, GLI_IN, 0, p->count);
  gli_range out = gli_elems(p, GLI_OUT, 0, p->count);

  uint64_t bit = 1; /* lowest set bit of `number`; the root's is above all */
  while (bit < size && !(number & bit)) bit *= 2;
  if (number != 0)
    gli_recv(b, (uint32_t)((number - bit + p->root) % size), out);
  for (bit /= 2; bit > 0; bit /= 2) {
    if (number + bit < size)
      gli_send(b, (uint32_t)((number + bit + p->root) % size),
               number == 0 ? in : out);
  }
  if (number == 0) gli_copy(b, in, out);
}

/* ---- gather -------------------------------------------------------------- */

/* Gather, binomial tree.
 *
 * Wins: short blocks on more than a few ranks: the root receives a logarithmic
 * number of messages.
 * Cost for P ranks and m bytes of output: a chain of floor(log2 P) messages; a
 * child of the root sends up to m/2 bytes, the blocks of its whole subtree.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root; a rank's number with its lowest set bit
 * cleared is the number of its parent. The blocks of a subtree are adjacent. At
 * most one subtree wraps around the end of the root's output: the root receives
 * it as two messages. P = 4, blocks sent:
 *
 *   0 <-(1)- 1,  2 <-(3)- 3,  0 <-(2 3)- 2
 */

uint32_t gli_gather_binomial_rounds(uint32_t size) {
  return gli_log2_below(size);
}

uint64_t gli_gather_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  uint64_t most = 0;
  for (uint64_t bit = 1; bit < size; bit *= 2) {
    if (gli_subtree(size, bit) > most) most = gli_subtree(size, bit);
  }
  return vector_bytes / size * most;
}

/* Sends blocks to a child, or receives them: those of its subtree, which lie in
 * rank order at the root, and from block `at` on elsewhere. */
static void move_blocks(gli_builder *b, const gli_plan_params *p,
                        uint64_t child, gli_range all, uint64_t at,
                        void (*move)(gli_builder *, uint32_t, gli_range)) {
  uint64_t block = p->count * p->elem_bytes,
           blocks = gli_subtree(p->size, child);
  uint32_t peer = gli_numbered(p, child);
  if (p->rank != p->root) {
    move(b, peer,
         gli_bytes(all.buffer, all.offset + at * block, blocks * block));
    return;
  }
  uint64_t first = gli_before_end(p, child, blocks);
  uint8_t buffer = move == gli_send ? GLI_IN : GLI_OUT;
  move(b, peer, gli_bytes(buffer, peer * block, first * block));
  move(b, peer, gli_bytes(buffer, 0, (blocks - first) * block));
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
    move_blocks(b, p, number + child, all, child, gli_recv);
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

/* ---- reduce -------------------------------------------------------------- */

/* Reduce, binomial tree.
 *
 * Wins: short vectors on more than a few ranks.
 * Cost for P ranks and m bytes: a chain of floor(log2 P) messages; every rank
 * but the root sends m bytes, and no rank receives more than ceil(log2 P)
 * times.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root. A rank's number with its lowest set bit
 * cleared is the number of its parent; children are added in ascending order,
 * so that with root 0 the operands stay in rank order. P = 8:
 *
 *   0 <- 4 <- 6 <- 7
 *   ^     ^- 5
 *   |<- 2 <- 3
 *    ^- 1
 */

/* The chain from a rank is as long as its number has one bits. */
uint32_t gli_reduce_binomial_rounds(uint32_t size) {
  return gli_log2_below(size);
}

uint64_t gli_reduce_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  return size > 1 ? vector_bytes : 0;
}

void gli_reduce_binomial(gli_builder *b, const gli_plan_params *p) {
  uint64_t size = p->size, number = (p->rank + size - p->root) % size;
  gli_range in = gli_own(p, GLI_IN), sum = in, into = in;
  bool has_child = number % 2 == 0 && number + 1 < size;
  if (number == 0) {
    into = gli_own(p, GLI_OUT);
  } else if (has_child) {
    into = gli_scratch(b, in.bytes);
  }
  uint64_t bit = 1;
  for (; bit < size && !(number & bit); bit *= 2) {
    if (number + bit >= size) continue;
    gli_recv_reduce(b, (uint32_t)((number + bit + p->root) % size), sum, into,
                    false);
    sum = into;
  }
  if (number != 0) {
    gli_send(b, (uint32_t)((number - bit + p->root) % size), sum);
  } else if (size == 1) {
    gli_copy(b, in, into);
  }
}

/* ---- scatter ------------------------------------------------------------- */

/* Scatter, binomial tree.
 *
 * Wins: short blocks on more than a few ranks: the root sends a logarithmic
 * number of messages.
 * Cost for P ranks and m bytes of input: a chain of floor(log2 P) messages; the
 * root sends m (P-1)/P bytes, every other rank at most m/4.
 * Source: folklore; see Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005.
 *
 * Ranks are numbered from the root; a rank's number with its lowest set bit
 * cleared is the number of its parent, from which it receives the blocks of its
 * whole subtree; the largest subtree is served first. The blocks of a subtree
 * are adjacent. At most one subtree wraps around the end of the root's input:
 * it is sent as two messages. P = 4, blocks sent:
 *
 *   0 -(2 3)-> 2,  0 -(1)-> 1,  2 -(3)-> 3
 */

uint32_t gli_scatter_binomial_rounds(uint32_t size) {
  return gli_log2_below(size);
}

uint64_t gli_scatter_binomial_bytes(uint32_t size, uint64_t vector_bytes) {
  return vector_bytes - vector_bytes / size;
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
      first = gli_before_end(p, number, blocks); /* from the root */
    uint32_t parent = gli_numbered(p, number - bit);
    if (blocks > 1) all = gli_scratch(b, blocks * own.bytes);
    gli_recv(b, parent, gli_bytes(all.buffer, all.offset, first * own.bytes));
    gli_recv(b, parent,
             gli_bytes(all.buffer, all.offset + first * own.bytes,
                       (blocks - first) * own.bytes));
  }
  for (uint64_t child = bit / 2; child > 0; child /= 2) {
    if (number + child < size)
      move_blocks(b, p, number + child, all, child, gli_send);
  }
  if (number != 0) {
    gli_copy(b, gli_bytes(all.buffer, all.offset, own.bytes), own);
  } else if (!p->in_place) {
    gli_copy(b, gli_block(p, GLI_IN, p->rank), own);
  }
}
