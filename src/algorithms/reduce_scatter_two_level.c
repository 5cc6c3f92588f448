/* Reduce-scatter, two levels.
 *
 * Wins: several hosts with several ranks each: the partial sum of a host for
 * each block leaves that host once.
 * Cost for H hosts of L ranks and m bytes of input: two rounds; every rank
 * sends m (L-1)/L bytes within its host and m/L (H-1)/H across. For short
 * blocks, on hosts with equal numbers of ranks: the rounds of the best
 * reduce-scatters of L and of H ranks, the same number of bytes, and m bytes
 * more of scratch memory.
 * Source: for several leaders, Bayatpour, Chakraborty, Subramoni, Lu, Panda,
 * "Scalable Reduction Collectives with Data Partitioning-based Multi-Leader
 * Design", 2017.
 *
 * In each host, the blocks of all ranks with place i (on any host) are added up
 * at the rank with place i, which sends the sums to their ranks. If the
 * smallest host lacks a rank's place, another rank of its host works for it.
 * Two hosts of two ranks, ranks summed : blocks, at each rank after each level:
 *
 *   rank      0          1          2          3
 *   within    01:0 2     01:1 3     23:0 2     23:1 3
 *   across    0123:0     0123:1     0123:2     0123:3
 *
 * Short blocks are sorted first, so that a rank of the host gets all its blocks
 * in one message. */
#include "algorithms/two_level.h"

static void reduce_scatter_two_level_add_up(gli_builder *b,
                                            const gli_plan_params *p,
                                            gli_sub sub, uint32_t root,
                                            gli_range in, gli_range out) {
  sub.root = root;
  sub.in = in;
  sub.out = out;
  sub.count = in.bytes / p->elem_bytes;
  gli_sub_plan(b, gli_reduce_flat, &sub);
}

/* Returns true if this rank adds up the block of rank k. */
static bool is_mine(const gli_plan_params *p, uint32_t k) {
  const gli_hosts *h = p->hosts;
  return h->place[k] % h->least == h->place[p->rank];
}

/* Returns rank number i in an order that begins with the next host, so that not
 * all hosts begin with the same one. */
static uint32_t reduce_scatter_turn(const gli_plan_params *p, uint32_t i) {
  const gli_hosts *h = p->hosts;
  uint32_t next = h->first[h->of[p->rank] + 1];
  return h->ranks[i < p->size - next ? next + i : i - (p->size - next)];
}

/* Returns the range for the sum of block k, among the blocks that this rank
 * adds up, and advances `next`. Any other block's range is unused: its sum is
 * at another rank. */
static gli_range reduce_scatter_sum_of(const gli_plan_params *p, uint32_t k,
                                       uint64_t *next) {
  gli_range sum = gli_bytes(GLI_SCRATCH, *next, gli_block(p, GLI_IN, k).bytes);
  if (is_mine(p, k)) *next += sum.bytes;
  return sum;
}

static void add_within(gli_builder *b, const gli_plan_params *p,
                       uint64_t next) {
  const gli_hosts *h = p->hosts;
  gli_sub within = gli_sub_host(p, GLI_REDUCE, 0);
  for (uint32_t i = 0; i < p->size; i++) {
    uint32_t k = reduce_scatter_turn(p, i);
    gli_range sum = reduce_scatter_sum_of(p, k, &next);
    reduce_scatter_two_level_add_up(b, p, within, h->place[k] % h->least,
                                    gli_block(p, GLI_IN, k), sum);
  }
}

static void add_across(gli_builder *b, const gli_plan_params *p,
                       uint64_t next) {
  const gli_hosts *h = p->hosts;
  gli_range out = gli_own(p, GLI_OUT);
  gli_sub across = gli_sub_across(p, GLI_REDUCE, 0);
  for (uint32_t i = 0; i < p->size; i++) {
    uint32_t k = reduce_scatter_turn(p, i);
    if (!is_mine(p, k)) continue;
    gli_range sum = reduce_scatter_sum_of(p, k, &next);
    reduce_scatter_two_level_add_up(b, p, across, h->of[k], sum,
                                    k == p->rank ? out : sum);
    if (h->of[k] == h->of[p->rank] && k != p->rank) gli_send(b, k, sum);
  }
}

static void add_blocks(gli_builder *b, const gli_plan_params *p) {
  const gli_hosts *h = p->hosts;
  uint32_t place = h->place[p->rank];
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < p->size; k++) reduce_scatter_sum_of(p, k, &bytes);
  uint64_t first = gli_scratch(b, bytes).offset;
  add_within(b, p, first);
  if (place < h->least) {
    add_across(b, p, first);
  } else {
    uint32_t stand_in = h->first[h->of[p->rank]] + place % h->least;
    gli_recv(b, h->ranks[stand_in], gli_own(p, GLI_OUT));
  }
}

/* In scratch, blocks are sorted by place and then by host. */
static void scatter_short(gli_builder *b, const gli_plan_params *p,
                          gli_build_fn best) {
  const gli_hosts *h = p->hosts;
  uint64_t block = p->count * p->elem_bytes, row = block * h->n;
  gli_range sorted = gli_scratch(b, block * p->size);
  for (uint32_t k = 0; k < p->size; k++)
    gli_copy(
        b, gli_elems(p, GLI_IN, k * p->count, p->count),
        gli_bytes(GLI_SCRATCH,
                  sorted.offset + h->place[k] * row + h->of[k] * block, block));
  gli_range sums = gli_scratch(b, row);
  gli_sub within = gli_sub_host(p, GLI_REDUCE_SCATTER, p->count * h->n);
  within.in = sorted;
  within.out = sums;
  gli_sub_plan(b, best, &within);
  gli_sub across = gli_sub_across(p, GLI_REDUCE_SCATTER, p->count);
  across.in = sums;
  across.out = gli_elems(p, GLI_OUT, 0, p->count);
  gli_sub_plan(b, best, &across);
}

void gli_reduce_scatter_two_level(gli_builder *b, const gli_plan_params *p,
                                  gli_build_fn best) {
  if (!gli_two_levels(p)) {
    best(b, p);
  } else if (gli_is_short(p) && p->hosts->least == p->hosts->most) {
    scatter_short(b, p, best);
  } else {
    add_blocks(b, p);
  }
}
