/* The choice among ranks of one host that can share memory.
 *
 * Two things are different there. A rank's buffers may be in memory that the
 * others reach (gloo_alloc), which no other rank knows unless all have promised
 * it: `fused` is several times as fast as anything else then, and without a
 * promise must be chosen without knowing, where it loses little. And
 * where ranks outnumber cores, a round is a turn of all ranks on the cores and
 * costs far more than the messages in it, while bytes cost what all ranks
 * together copy, not what the busiest one does: so few rounds are good up to
 * some length, even when one rank sends to all. The borders are measurements
 * with `gloo tune` of 4 and 8 ranks on 2 cores; other machines are told by a
 * tuning file. */
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

/* Then what goes by way of rank 0, with a turn of each other rank: up to a
 * length of what it sends at once that fits the rings. */
#define BY_ONE_TO (64 * K)
#define BY_ONE_OF_FEW_TO (128 * K)
#define BY_ONE_BLOCKS_TO (16 * K) /* with more than MANY ranks */
#define MANY 8
#define FLAT_OF_EACH (4 * K) /* of a broadcast, times ranks */
#define FLAT_OF_MANY (8 * K)
#define ONE_FROM 6 /* ranks that tell one rather than all */

/* A broadcast of some length by its root alone costs as many copies in all as
 * any other, and no rank waits for another to pass it on; from mapped memory
 * each rank copies it once, at the same time. Beyond these borders, what the
 * root copies into rings has left the caches before it is read, and a tree is
 * as good; that comes sooner where ranks are pinned, and pass on within a core
 * what is in its caches. */
#define FLAT_RANKS 8
#define FLAT_TO (512 * K)
#define FLAT_OF_FEW_TO (2 * M)
#define FLAT_PINNED_TO (128 * K)
#define TREE_RANKS 16

/* So they halve their vectors with neighbours. */
#define PINNED_HALVING_FROM (32 * K)

/* Parts that are sent to all at once fit the rings up to here. */
#define DIRECT_TO (512 * K)
#define DIRECT_OF_MANY_TO (1 * M)
#define PAIRWISE_FROM (16 * M)

/* With few ranks, what passes from rank to rank on a circulant graph stays in
 * the caches that two cores have. */
#define FEW 4
#define PASSED_FROM (128 * K)
#define LONGEST (32 * M) /* beyond all caches */

/* Promised to be mapped: a byte is read where it lies, and stored where it
 * belongs, whichever rank does it, so all ranks do as much of that as they can.
 * Of each rank's part, from where on that pays for its messages. */
#define MAPPED_FROM (64 * K)
#define MAPPED_OVERSUBSCRIBED_FROM (32 * K)
/* Vector lengths at which `flat` ends or begins. */
#define MAPPED_ALL_FROM (64 * K)
#define MAPPED_BY_ONE_TO (256 * K) /* with more than MANY ranks */
#define MAPPED_BLOCKS_FROM (16 * K)

/* Of a broadcast or allgather, from where each rank stores its part in all
 * outputs. Two ranks share the work of a broadcast anyway, and an allgather of
 * two ranks is slower between these borders: too long for the caches of one
 * core, and too short to be stored past them. */
#define STORED_FROM (1 * M)
#define STORED_OF_MANY (4 * M)
#define STORED_BLOCKS_FROM (8 * M)
#define STORED_PAIR_TO (4 * M)
#define STORED_PAIR_FROM (16 * M)

/* Each sends all to all others. */
static bool is_one_round(const gli_plan_params *p, uint64_t m) {
  return m < ONE_ROUND && m + MESSAGE < ONE_ROUND / p->size / (p->size - 1);
}

/* In reach, and too short for that. */
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

/* Does each rank better store a part in all outputs than all parts in its own?
 * It reads less, but what it stores is in its own caches, or past them. */
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
  /* No order holds for longer vectors. */
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
  /* Ordinary memory takes four times as long there as with others. */
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
    case GLI_BARRIER: /* fewest messages, and a turn of each rank is enough */
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
