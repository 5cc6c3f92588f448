/* Allgather, two levels.
 *
 * Wins: several hosts with several ranks each: every block reaches each host
 * once.
 * Cost for H hosts of L ranks and m bytes of output: two rounds; every rank
 * sends its block L + H - 2 times, and each block from another host L - 1
 * times. For short blocks, on hosts with equal numbers of ranks: the rounds of
 * the best allgathers of H and of L ranks, the same number of bytes, and m
 * bytes of scratch memory.
 * Source: Träff, "Efficient Allgather for Regular SMP-Clusters", 2006, which
 * has the two levels; here there is a leader for each place.
 *
 * Each rank sends its block to all ranks of its host, and to the ranks with its
 * place on all other hosts; these forward it within their host. If the smallest
 * host lacks a rank's place, another rank of its host sends for it. Two hosts
 * of two ranks, blocks at each rank after each level:
 *
 *   rank      0         1         2         3
 *   within    0 1       0 1       2 3       2 3
 *   across    0 1 2     0 1 3     0 2 3     1 2 3
 *   within    0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3
 *
 * Short blocks go across first, so that one message within the host carries all
 * blocks received, and are put in order at the end. */
#include "algorithms/two_level.h"

/* Sends block k to all members from the member with number `root`. */
static void allgather_pass(gli_builder *b, const gli_plan_params *p,
                           gli_sub sub, uint32_t root, uint32_t k) {
  sub.root = root;
  sub.in = sub.out = gli_block(p, GLI_OUT, k);
  sub.count = sub.in.bytes / p->elem_bytes;
  gli_sub_plan(b, gli_broadcast_flat, &sub);
}

static void pass_blocks(gli_builder *b, const gli_plan_params *p) {
  const gli_hosts *h = p->hosts;
  uint32_t host = h->of[p->rank], place = h->place[p->rank];
  gli_sub within = gli_sub_host(p, GLI_BROADCAST, 0);
  gli_copy(b, gli_own(p, GLI_IN), gli_block(p, GLI_OUT, p->rank));
  for (uint32_t i = 0; i < within.size; i++)
    allgather_pass(b, p, within, i, within.members[i]);
  for (uint32_t k = 0; k < p->size && place < h->least; k++) {
    gli_sub across = gli_sub_across(p, GLI_BROADCAST, 0);
    if (h->place[k] % h->least == place)
      allgather_pass(b, p, across, h->of[k], k);
  }
  for (uint32_t k = 0; k < p->size; k++) {
    if (h->of[k] != host)
      allgather_pass(b, p, within, h->place[k] % h->least, k);
  }
}

/* In scratch, blocks are sorted by place and then by host. */
static void gather_short(gli_builder *b, const gli_plan_params *p,
                         gli_build_fn best) {
  const gli_hosts *h = p->hosts;
  uint64_t block = p->count * p->elem_bytes, row = block * h->n;
  gli_range all = gli_scratch(b, block * p->size);
  gli_range mine =
      gli_bytes(GLI_SCRATCH, all.offset + h->place[p->rank] * row, row);
  gli_sub across = gli_sub_across(p, GLI_ALLGATHER, p->count);
  across.in = gli_elems(p, GLI_IN, 0, p->count);
  across.out = mine;
  gli_sub_plan(b, best, &across);
  gli_sub within = gli_sub_host(p, GLI_ALLGATHER, p->count * h->n);
  within.in = mine;
  within.out = all;
  gli_sub_plan(b, best, &within);
  for (uint32_t k = 0; k < p->size; k++)
    gli_copy(
        b,
        gli_bytes(GLI_SCRATCH,
                  all.offset + h->place[k] * row + h->of[k] * block, block),
        gli_elems(p, GLI_OUT, k * p->count, p->count));
}

void gli_allgather_two_level(gli_builder *b, const gli_plan_params *p,
                             gli_build_fn best) {
  if (!gli_two_levels(p)) {
    best(b, p);
  } else if (gli_is_short(p) && p->hosts->least == p->hosts->most) {
    gather_short(b, p, best);
  } else {
    pass_blocks(b, p);
  }
}
