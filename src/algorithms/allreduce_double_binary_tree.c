/* Allreduce, double binary tree.
 *
 * Wins: if a rank can have only a few peers: at most six. Elsewhere it gains at
 * most a fifth, so the selector does not choose it: over TCP on 8
 * oversubscribed ranks (2 cores) it has the fewest messages of the algorithms
 * that share the work between ranks, and took 182 us for 32 KiB
 * (recursive_doubling: 190) and 360 us for 128 KiB (circulant: 424), but longer
 * for 256 KiB and more. Cut into segments, long vectors flow up and down the
 * trees at full bandwidth, but by simulation halving_doubling, bcube and
 * circulant are faster on 8 to 1,000 hosts.
 * Cost for P ranks and m bytes: chains of 2 (floor(log2 (P-1)) + 1) messages;
 * from 4 ranks on some rank sends 2 m bytes, which is the maximum.
 * Source: Sanders, Speck, Träff, "Two-tree Algorithms for Full Bandwidth
 * Broadcast, Reduction and Scan", 2009.
 *
 * Each half of the vector is added up on the way to the root of a tree, and
 * copied on the way back. In a tree, ranks are numbered so that the numbers of
 * a node's left subtree are lower than its own, and those of its right subtree
 * higher; number 0 is the root. Odd numbers are leaves. In the second tree
 * every rank has a number of the other parity, so that no rank forwards the
 * vectors of four others. P = 6, ranks:
 *
 *   0                  5               numbered from the end; for an odd P
 *    \-> 4              \-> 1          numbered from rank 1 on
 *       /  \               /  \
 *      2    5             3    0
 *     / \                / \
 *    1   3              4   2
 */
#include "plan/builder.h"

uint32_t gli_allreduce_double_binary_tree_rounds(uint32_t size) {
  uint32_t rounds = 0;
  for (uint32_t top = size - 1; top > 0; top /= 2) rounds += 2;
  return rounds;
}

/* Returns the bytes of a rank with two children in one of the trees. */
uint64_t gli_allreduce_double_binary_tree_bytes(uint32_t size,
                                                uint64_t vector_bytes) {
  return vector_bytes / 2 * (size < 4 ? size - (size == 1) : 4);
}

enum { NOBODY = -1 };

typedef struct node {
  int64_t parent, left, right; /* numbers, or NOBODY */
} node;

static node node_of(uint64_t number, uint64_t size) {
  node n = {NOBODY, NOBODY, NOBODY};
  uint64_t bit = gli_lowest_bit(size, number);
  if (number == 0) {
    bit /= 2; /* the highest power of two below P */
    if (bit > 0) n.right = (int64_t)bit;
    return n;
  }
  uint64_t above = (number ^ bit) | 2 * bit;
  n.parent = (int64_t)(above < size ? above : number ^ bit);
  bit /= 2;
  if (bit > 0) n.left = (int64_t)(number - bit);
  while (bit > 0 && number + bit >= size) bit /= 2;
  if (bit > 0) n.right = (int64_t)(number + bit);
  return n;
}

/* Converts a rank to its number in a tree, and back. */
static uint64_t renumber(uint64_t size, int tree, uint64_t of, bool back) {
  if (tree == 0) return of;
  if (size % 2 == 0) return size - 1 - of;
  return (back ? of + 1 : of + size - 1) % size;
}

static uint32_t trees_rank_of(const gli_plan_params *p, int tree,
                              int64_t number) {
  return (uint32_t)renumber(p->size, tree, (uint64_t)number, true);
}

static void go_through(gli_builder *b, const gli_plan_params *p, int tree) {
  node n = node_of(renumber(p->size, tree, p->rank, false), p->size);
  gli_range in = gli_parts(p, GLI_IN, 2, (uint64_t)tree, (uint64_t)tree + 1);
  gli_range out = gli_parts(p, GLI_OUT, 2, (uint64_t)tree, (uint64_t)tree + 1);
  bool turned = tree == 1 && p->size % 2 == 0; /* left numbers: right ranks */
  gli_range sum = in;
  if (n.left != NOBODY) {
    gli_recv_reduce(b, trees_rank_of(p, tree, n.left), sum, out, !turned);
    sum = out;
  }
  if (n.right != NOBODY) {
    gli_recv_reduce(b, trees_rank_of(p, tree, n.right), sum, out, turned);
    sum = out;
  }
  if (n.parent != NOBODY) {
    gli_send(b, trees_rank_of(p, tree, n.parent), sum);
    gli_recv(b, trees_rank_of(p, tree, n.parent), out);
  }
  if (n.left != NOBODY) gli_send(b, trees_rank_of(p, tree, n.left), out);
  if (n.right != NOBODY) gli_send(b, trees_rank_of(p, tree, n.right), out);
}

void gli_allreduce_double_binary_tree(gli_builder *b,
                                      const gli_plan_params *p) {
  if (p->size == 1) {
    gli_copy(b, gli_own(p, GLI_IN), gli_own(p, GLI_OUT));
    return;
  }
  for (int tree = 0; tree < 2; tree++) go_through(b, p, tree);
}
