/* Allreduce, two levels.
 *
 * Wins: several hosts with several ranks each: data crosses between hosts once
 * per host instead of once per rank.
 * Cost for H hosts of L ranks and m bytes: one round within the hosts, then the
 * rounds of the best allreduce of H ranks and m/L bytes, then another round
 * within. Every rank sends 2 m (L-1)/L bytes within its host, and, if parts are
 * long, 2 m/L (H-1)/H bytes across, so the ranks of a host together load its
 * link like a single rank with the whole vector.
 * Source: Bayatpour, Chakraborty, Subramoni, Lu, Panda, "Scalable Reduction
 * Collectives with Data Partitioning-based Multi-Leader Design", 2017.
 *
 * The vector is cut into as many parts as the smallest host has ranks (fewer if
 * parts would be very short). In each host, part i is added up at the rank with
 * place i; ranks with the same place on all hosts run an allreduce of their
 * part, and then send the result to the ranks of their host. Two hosts of two
 * ranks, ranks summed : part, at each rank after each level:
 *
 *   rank      0       1       2       3
 *   within    01:0    01:1    23:0    23:1
 *   across    all:0   all:1   all:0   all:1      0 with 2, 1 with 3
 *   within    all:0-1 everywhere
 *
 * A long vector is processed in turns. Two hosts then swap their sums: no
 * algorithm sends fewer bytes, and no send has to wait for a receive. */
#include "algorithms/two_level.h"

/* The maximum number of sums in flight to the other host. */
enum { SWAPS = 4 };

typedef struct sums {
  gli_range kept[SWAPS]; /* scratch; unused unless `swaps` */
  bool swaps;
} sums;

static sums allreduce_make_room(gli_builder *b, const gli_plan_params *p,
                                uint64_t parts, uint64_t turns) {
  sums s = {.swaps = turns > 1 && p->hosts->n == 2};
  for (int i = 0; s.swaps && i < SWAPS; i++)
    s.kept[i] = gli_scratch(b, gli_parts(p, GLI_OUT, parts, 0, 1).bytes);
  return s;
}

/* Returns the range that holds the host's sum of `part` until it goes across.
 */
static gli_range allreduce_sum_of(const sums *s, gli_range part,
                                  uint64_t turn) {
  if (!s->swaps) return part;
  gli_range kept = s->kept[turn % SWAPS];
  kept.bytes = part.bytes;
  return kept;
}

/* Runs one collective on a part within the host. */
static void allreduce_within(gli_builder *b, const gli_plan_params *p,
                             uint32_t root, gli_range in, gli_range out,
                             gli_collective collective, gli_build_fn build) {
  gli_sub sub = gli_sub_host(p, collective, in.bytes / p->elem_bytes);
  sub.root = root;
  sub.in = in;
  sub.out = out;
  gli_sub_plan(b, build, &sub);
}

static void across(gli_builder *b, const gli_plan_params *p, gli_range in,
                   gli_range out, gli_build_fn build) {
  gli_sub sub = gli_sub_across(p, GLI_ALLREDUCE, in.bytes / p->elem_bytes);
  sub.in = in;
  sub.out = out;
  gli_sub_plan(b, build, &sub);
}

void gli_allreduce_two_level(gli_builder *b, const gli_plan_params *p,
                             gli_build_fn best) {
  if (!gli_two_levels(p)) {
    best(b, p);
    return;
  }
  uint64_t bytes = p->count * p->elem_bytes;
  uint32_t leaders = gli_leaders(p, bytes), place = p->hosts->place[p->rank];
  uint64_t turns = gli_turns(p, bytes, leaders), parts = turns * leaders;
  gli_build_fn collect = leaders == 1 ? best : gli_reduce_flat;
  gli_build_fn spread = leaders == 1 ? best : gli_broadcast_flat;
  sums s = allreduce_make_room(b, p, parts, turns);
  /* With several turns, bandwidth matters more than latency, because turns
   * overlap. */
  gli_build_fn join = turns == 1 ? best
                      : s.swaps  ? gli_allreduce_recursive_doubling
                                 : gli_allreduce_circulant;
  for (uint64_t turn = 0; turn < turns; turn++) {
    uint64_t first = turn * leaders;
    /* Begin with the next rank, so that not all ranks send to the same one. */
    for (uint32_t k = 1; k <= leaders; k++) {
      uint32_t root = (place + k) % leaders;
      gli_range in =
          gli_parts(p, GLI_IN, parts, first + root, first + root + 1);
      gli_range out =
          gli_parts(p, GLI_OUT, parts, first + root, first + root + 1);
      allreduce_within(b, p, root, in, allreduce_sum_of(&s, out, turn),
                       GLI_REDUCE, collect);
    }
    if (place < leaders) {
      gli_range out =
          gli_parts(p, GLI_OUT, parts, first + place, first + place + 1);
      across(b, p, allreduce_sum_of(&s, out, turn), out, join);
    }
    for (uint32_t root = 0; root < leaders; root++) {
      gli_range out =
          gli_parts(p, GLI_OUT, parts, first + root, first + root + 1);
      allreduce_within(b, p, root, out, out, GLI_BROADCAST, spread);
    }
  }
}
