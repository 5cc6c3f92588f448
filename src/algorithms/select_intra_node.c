/* The selector for ranks of one host that can share memory.
 *
 * Two things are different there. First, a rank's buffers may be in memory that
 * the others reach (gloo_alloc), which no other rank knows unless all have
 * promised it. In that case `fused` is several times as fast as any other
 * algorithm; without a promise the selector must choose without knowing, so it
 * takes `fused` where that loses little. Second, if ranks outnumber cores, in
 * each round all ranks take turns on the cores, which costs far more than the
 * messages, while the cost of bytes depends on what all ranks together copy,
 * not on the busiest rank. So few rounds are good up to some length, even if
 * one rank sends to all. The thresholds were measured with `gloo tune` for 4
 * and 8 ranks on 2 cores; use a tuning file on other machines. */
#include "algorithms/select.h"

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)

/* Vector lengths at which `fused` gains much with mapped memory, and loses
 * little without. */
#define FUSED_FROM (16 * K)
#define FUSED_PAIR_FROM (64 * K)
#define FUSED_PAIR_SCATTER_FROM (32 * K)
#define FUSED_OVERSUBSCRIBED_FROM (128 * K)
#define FUSED_TO (512 * K)

/* Oversubscribed: the bytes that a message is worth, and the total bytes up to
 * which one round is best at any cost; with mapped memory, copied bytes only.
 */
#define MESSAGE (1 * K)
#define ONE_ROUND (115 * K)
#define ONE_ROUND_COPIED_TO (4 * K)

/* Oversubscribed, above that: vector lengths up to which rank 0 relays, with a
 * turn of each other rank. Limited by what the rings hold at once. */
#define BY_ONE_TO (64 * K)
#define BY_ONE_OF_FEW_TO (128 * K)
#define BY_ONE_BLOCKS_TO (16 * K) /* with more than MANY ranks */
#define MANY 8
#define FLAT_OF_EACH (4 * K) /* for broadcasts, times ranks */
#define FLAT_OF_MANY (8 * K)
#define ONE_FROM 6 /* ranks that signal one instead of all */

/* In a broadcast of some length, the root alone makes as many copies in total
 * as any other algorithm, and no rank waits for another one to forward; from
 * mapped memory each rank copies once, all at the same time. Beyond these
 * lengths, the data that the root copies into rings leaves the caches before it
 * is read, and a tree is as good. That happens earlier if ranks are pinned,
 * because they then forward within a core, from its caches. */
#define FLAT_RANKS 8
#define FLAT_TO (512 * K)
#define FLAT_OF_FEW_TO (2 * M)
#define FLAT_PINNED_TO (128 * K)
#define TREE_RANKS 16

/* Pinned ranks halve their vectors with neighbours from here on. */
#define PINNED_HALVING_FROM (32 * K)

/* The longest vectors of which parts sent to all at once fit the rings. */
#define DIRECT_TO (512 * K)
#define DIRECT_OF_MANY_TO (1 * M)
#define PAIRWISE_FROM (16 * M)

/* With few ranks, data that passes from rank to rank on a circulant graph stays
 * in the caches of two cores. */
#define FEW 4
#define PASSED_FROM (128 * K)
#define LONGEST (32 * M) /* exceeds all caches */

/* With all buffers mapped, any rank can read a byte in its owner's memory and
 * store it at its destination, so all ranks share the work. These are the
 * lengths of a rank's part from which that pays for its messages. */
#define MAPPED_FROM (64 * K)
#define MAPPED_OVERSUBSCRIBED_FROM (32 * K)
/* Vector lengths at which `flat` ends or begins. */
#define MAPPED_ALL_FROM (64 * K)
#define MAPPED_BY_ONE_TO (256 * K) /* with more than MANY ranks */
#define MAPPED_BLOCKS_FROM (16 * K)

/* Lengths of a broadcast or allgather from which each rank stores its part in
 * all outputs. Two ranks share the work of a broadcast anyway. For an allgather
 * of two ranks, `fused` is slower between STORED_PAIR_TO and STORED_PAIR_FROM:
 * too long for one core's caches, too short for non-temporal stores. */
#define STORED_FROM (1 * M)
#define STORED_OF_MANY (4 * M)
#define STORED_BLOCKS_FROM (8 * M)
#define STORED_PAIR_TO (4 * M)
#define STORED_PAIR_FROM (16 * M)

/* Returns true if each rank best sends its vector to all, in one round. */
static bool is_one_round(const gli_plan_params *p, uint64_t m) {
  return m < ONE_ROUND && m + MESSAGE < ONE_ROUND / p->size / (p->size - 1);
}

/* Chooses for mapped memory, oversubscribed, and vectors below that. */
static const char *oversubscribed_mapped(const gli_plan_params *p, uint64_t m) {
  switch (p->collective) {
    case GLI_ALLREDUCE:
      if (m <= ONE_ROUND_COPIED_TO && is_one_round(p, m)) return "one_shot";
      if (m <= MAPPED_ALL_FROM) return "flat";
      if (p->size <= MANY) return "fused";
      return m <= MAPPED_BY_ONE_TO ? "flat" : NULL;
    case GLI_BROADCAST:
    case GLI_REDUCE:
      return "flat";
    case GLI_REDUCE_SCATTER:
      if (p->size > MANY) return NULL;
      return m > (p->size <= FEW ? 1 : 2) * MAPPED_BLOCKS_FROM ? "flat" : NULL;
    default:
      return NULL;
  }
}

/* Returns true if each rank should store its part in all outputs instead of all
 * parts in its own. It reads less, but its stores stay in its caches or bypass
 * them. */
static bool is_stored(const gli_plan_params *p, uint64_t m) {
  bool pair = p->size == 2, few = p->size <= FEW;
  if (p->size > MANY) return false;
  if (p->collective == GLI_BROADCAST) {
    return m >= (pair ? STORED_PAIR_FROM : few ? STORED_FROM : STORED_OF_MANY);
  }
  if (pair && m <= STORED_PAIR_TO) return true;
  return m >= (pair ? STORED_PAIR_FROM : few ? STORED_BLOCKS_FROM : LONGEST);
}

static const char *all_mapped(const gli_plan_params *p, uint64_t m) {
  if (p->locality != GLI_MAPPED) return NULL;
  if (m < p->size *
              (p->oversubscribed ? MAPPED_OVERSUBSCRIBED_FROM : MAPPED_FROM)) {
    return p->oversubscribed && p->size > 2 ? oversubscribed_mapped(p, m)
                                            : NULL;
  }
  switch (p->collective) {
    case GLI_BROADCAST:
      return is_stored(p, m) ? "fused" : "flat";
    case GLI_ALLREDUCE:
    case GLI_REDUCE:
    case GLI_REDUCE_SCATTER:
      return p->size <= MANY ? "fused" : "direct";
    case GLI_ALLGATHER:
      return is_stored(p, m) ? "fused" : "direct";
    case GLI_REDUCE_SCATTERV:
    case GLI_ALLGATHERV:
      return "direct";
    default:
      return NULL;
  }
}

static const char *fused(const gli_plan_params *p, uint64_t m) {
  bool scatters = p->collective == GLI_REDUCE_SCATTER;
  /* The algorithms that are faster for longer vectors do not keep the order. */
  bool ordered = p->order == GLI_ORDER_FOLD;
  if (p->collective != GLI_ALLREDUCE && !scatters) return NULL;
  if (p->size == 2 && scatters) {
    return m >= FUSED_PAIR_SCATTER_FROM ? "fused" : NULL;
  }
  if (p->size == 2) {
    return m >= FUSED_PAIR_FROM ? "fused" : "recursive_doubling";
  }
  if (p->size > 4) return NULL;
  if (!p->oversubscribed) {
    return m >= FUSED_FROM && (ordered || m <= FUSED_TO) ? "fused" : NULL;
  }
  /* Here `fused` on ordinary memory takes four times as long as others. */
  return ordered && !scatters && m >= FUSED_OVERSUBSCRIBED_FROM ? "fused"
                                                                : NULL;
}

static bool is_flat(const gli_plan_params *p, uint64_t m) {
  bool many = p->size > FLAT_RANKS;
  if (m < p->size * (many ? FLAT_OF_MANY : FLAT_OF_EACH)) return true;
  if (many) return false;
  if (p->oversubscribed == GLI_PINNED) return m < FLAT_PINNED_TO;
  return m < (p->size <= FEW ? FLAT_OF_FEW_TO : FLAT_TO);
}

static const char *oversubscribed_allreduce(const gli_plan_params *p,
                                            uint64_t m) {
  bool pinned = p->oversubscribed == GLI_PINNED, few = p->size <= FEW;
  bool halves = gli_select_is_power(p->size) && (pinned || !few);
  if (is_one_round(p, m)) return "one_shot";
  if (few && halves)
    return m < PINNED_HALVING_FROM ? "flat" : "halving_doubling";
  if (m <= (few ? BY_ONE_OF_FEW_TO : BY_ONE_TO)) return "flat";
  return halves ? "halving_doubling" : "circulant";
}

static const char *oversubscribed_reduce(const gli_plan_params *p, uint64_t m) {
  bool later = p->size <= FEW && p->oversubscribed != GLI_PINNED;
  return m <= (later ? BY_ONE_OF_FEW_TO : BY_ONE_TO) ? "flat" : "binomial";
}

static const char *oversubscribed_reduce_scatter(const gli_plan_params *p,
                                                 uint64_t m) {
  bool pinned = p->oversubscribed == GLI_PINNED, few = p->size <= FEW;
  if (p->size > MANY && m <= BY_ONE_BLOCKS_TO) return "flat";
  if (p->size > 16 && m < 2 * M) return "circulant";
  if (m <= (p->size > MANY ? DIRECT_OF_MANY_TO : DIRECT_TO)) return "direct";
  if (m >= LONGEST && !(few && pinned)) return "circulant";
  bool passed = few || pinned || p->size > MANY;
  return passed ? "ring" : "circulant";
}

static const char *oversubscribed(const gli_plan_params *p, uint64_t m) {
  switch (p->collective) {
    case GLI_BARRIER: /* fewest messages; one turn of each rank is enough */
      return p->size >= ONE_FROM ? "all_to_one" : NULL;
    case GLI_BROADCAST:
      if (is_flat(p, m)) return "flat";
      if (p->size <= TREE_RANKS || m < PASSED_FROM / 2) return "binomial";
      return "scatter_allgather";
    case GLI_ALLREDUCE:
      return oversubscribed_allreduce(p, m);
    case GLI_REDUCE_SCATTER:
      return oversubscribed_reduce_scatter(p, m);
    case GLI_ALLGATHER:
      if (p->size > MANY && m <= BY_ONE_BLOCKS_TO) return "flat";
      if (p->size <= FEW && m >= LONGEST) return "direct";
      if (p->size > 16 && m < 2 * M) return "circulant";
      return m < 2 * M ? "direct" : "ring";
    case GLI_ALLTOALL:
      if (p->size > FEW && m >= PAIRWISE_FROM) return "pairwise";
      return p->size <= 16 ? "direct" : NULL;
    case GLI_REDUCE:
      return oversubscribed_reduce(p, m);
    case GLI_SCAN:
    case GLI_EXSCAN: /* ranks have to take turns anyway */
      return m <= 32 * K ? "recursive_doubling" : "linear";
    case GLI_ALLGATHERV:
      if (p->size > MANY && m <= BY_ONE_TO) return "flat";
      return m < 8 * M ? "direct" : "circulant";
    case GLI_REDUCE_SCATTERV:
      if (p->size > MANY && m <= BY_ONE_TO) return "flat";
      return m < (p->size < FEW ? 2 * M : 512 * K) ? "direct" : "circulant";
    default:
      return NULL;
  }
}

const gli_algorithm *gli_algorithm_select_intra_node(const gli_plan_params *p,
                                                     uint64_t m) {
  if (!p->locality || p->hosts != NULL || p->size < 2) return NULL;
  const char *name = all_mapped(p, m);
  if (name == NULL) name = fused(p, m);
  bool pair = p->size == 2;
  if (name == NULL && pair && p->collective == GLI_REDUCE) name = "binomial";
  if (name == NULL && !pair && p->oversubscribed) name = oversubscribed(p, m);
  if (name == NULL || !gli_select_suits(p, name)) return NULL;
  return gli_algorithm_find(p->collective, name);
}
