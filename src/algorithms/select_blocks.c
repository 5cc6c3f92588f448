/* The selector for the collectives that are not in select.c, by the algorithms'
 * promised costs. select.c describes the model. */
#include "algorithms/select.h"

#define LONGEST GLI_SELECT_LONGEST /* fits times the number of ranks */
/* The assumed length if this rank does not know the lengths of other ranks. */
#define SOME_BYTES ((uint64_t)64 << 10)
#define BUSY_HALVING_TO ((uint64_t)2 << 20)
#define BUSY_FLAT_OF_EACH ((uint64_t)2 << 10)

/* Messages of the busiest rank, in and out, and messages of all ranks. */
typedef struct load {
  uint64_t messages, all;
} load;

/* Returns the bytes of the vector. */
static uint64_t vector_bytes(const gli_plan_params *p) {
  uint64_t m = gli_plan_vector_bytes(p);
  if (gli_collective_pairwise(p->collective)) m = SOME_BYTES * p->size;
  return m < LONGEST ? m : LONGEST;
}

static gli_prices prices(const gli_plan_params *p) {
  return p->hosts != NULL ? gli_select_prices(p, GLI_LINK_FAR)
                          : gli_select_intra_node_prices(p);
}

static uint64_t select_blocks_of_bytes(const gli_plan_params *p,
                                       uint64_t bytes) {
  return gli_select_times(bytes, prices(p).byte);
}

/* With more ranks than cores, every rank must get a core in each round, one
 * after the other; where messages are work, a round itself costs little. With
 * `crowds`, several ranks send to one and share its link unevenly. */
static gli_candidate candidate(const gli_plan_params *p, const char *name,
                               load l, uint64_t reduced, bool crowds) {
  const gli_algorithm *a = gli_algorithm_find(p->collective, name);
  if (!gli_select_suits(p, name)) {
    return (gli_candidate){name, GLI_SELECT_NEVER};
  }
  gli_prices one = prices(p);
  uint64_t sent = a->bytes(p->size, vector_bytes(p));
  if (crowds) sent += sent / 8;
  uint64_t round = p->oversubscribed ? 2 * one.turn : one.round;
  if (one.busy) round = one.turn / 2;
  uint64_t rounds = a->rounds(p->size) * round;
  uint64_t messages = p->oversubscribed
                          ? gli_select_times(l.all, one.turn) / p->size
                          : l.messages * one.message;
  return (gli_candidate){name, rounds + messages +
                                   gli_select_times(sent, one.byte) +
                                   gli_select_times(reduced, one.reduced_byte)};
}

#define CHEAPEST(p, list) \
  gli_select_cheapest((p)->collective, list, sizeof(list) / sizeof((list)[0]))

static const gli_algorithm *select_alltoall(const gli_plan_params *p) {
  uint64_t others = p->size - 1, log = gli_select_logarithm(p->size);
  load pairs = {2 * others, p->size * others};
  bool many = others > 16;
  gli_candidate list[] = {
      candidate(p, "direct", pairs, 0, many),
      candidate(p, "pairwise", pairs, 0, false),
      candidate(p, "direct", pairs, 0, many),
  };
  if (p->collective == GLI_ALLTOALL) {
    load tree = {2 * log, p->size * log};
    list[2] = candidate(p, "bruck", tree, vector_bytes(p), false);
  }
  return CHEAPEST(p, list);
}

static const gli_algorithm *select_reduce(const gli_plan_params *p) {
  uint64_t others = p->size - 1, log = gli_select_logarithm(p->size);
  uint64_t m = vector_bytes(p), share = m / p->size;
  load tree = {log, others};
  load halving = {3 * log, p->size * log + others};
  load all = {others, others}, parts = {3 * others, p->size * others + others};
  /* A tree receives the vector log P times at the root, flat P - 1 times. */
  gli_candidate list[] = {
      candidate(p, "binomial", tree, p->oversubscribed ? m : log * m, false),
      candidate(p, "scatter_gather", halving, m - share, false),
      candidate(p, "flat", all, others * m, false),
      candidate(p, "direct", parts, m - share, false),
  };
  /* `direct` is for its order only: scatter_gather has fewer messages. */
  if (p->order == GLI_ORDER_ANY) list[3].cost = GLI_SELECT_NEVER;
  uint64_t deeper = log > 1 ? log - 1 : 0, more = others > 1 ? others - 1 : 0;
  if (p->oversubscribed) {
    /* Ranks do not wait for the root, but for the rounds of a tree. */
    list[0].cost += 2 * prices(p).turn * deeper;
    if (prices(p).busy) list[2].cost += select_blocks_of_bytes(p, more * m) / 4;
  } else {
    list[0].cost += select_blocks_of_bytes(p, deeper * m);
    list[2].cost += select_blocks_of_bytes(p, more * m);
  }
  /* A root with a single peer has no work to share out. */
  if (others == 1) list[1].cost = UINT64_MAX;
  return CHEAPEST(p, list);
}

static const gli_algorithm *select_root(const gli_plan_params *p) {
  uint64_t others = p->size - 1, m = vector_bytes(p);
  load tree = {gli_select_logarithm(p->size), others}, all = {others, others};
  gli_candidate list[] = {candidate(p, "flat", all, 0, false),
                          candidate(p, "binomial", tree, 0, false)};
  /* In a gather the root receives all bytes; in a tree bytes travel more than
   * once. */
  list[0].cost += select_blocks_of_bytes(p, m);
  list[1].cost += select_blocks_of_bytes(p, m + m / 2);
  return CHEAPEST(p, list);
}

static const gli_algorithm *select_scan(const gli_plan_params *p) {
  uint64_t others = p->size - 1, log = gli_select_logarithm(p->size);
  uint64_t m = vector_bytes(p);
  load chain = {2, others}, tree = {2 * log, p->size * log - others};
  /* A chain waits for the work of other ranks. */
  if (prices(p).busy) return gli_algorithm_find(p->collective, "linear");
  gli_candidate list[] = {
      candidate(p, "recursive_doubling", tree, log * m, false),
      candidate(p, "linear", chain, m, false)};
  /* A vector too short for segments waits as a whole at every rank. */
  uint64_t waits = m < GLI_SELECT_SEGMENT ? m : GLI_SELECT_SEGMENT;
  if (others > 0)
    list[1].cost += select_blocks_of_bytes(p, (others - 1) * waits);
  return CHEAPEST(p, list);
}

/* If messages are work, few messages are best, as measured with `gloo tune` on
 * 2 cores; but with uneven blocks ranks that add in pairs wait. */
static const char *counted_busy(const gli_plan_params *p, uint64_t m) {
  bool power = gli_select_is_power(p->size);
  if (p->size > 4 && m <= p->size * BUSY_FLAT_OF_EACH) return "flat";
  if (p->collective == GLI_ALLGATHERV) {
    return power ? "recursive_doubling" : "circulant";
  }
  return power && m < BUSY_HALVING_TO ? "recursive_halving" : "circulant";
}

/* Chooses for given counts as for equal blocks of the mean length. */
static const gli_algorithm *select_counted(const gli_plan_params *p) {
  uint64_t others = p->size - 1, log = gli_select_logarithm(p->size);
  uint64_t pairs = p->size * others, m = vector_bytes(p);
  bool reduces = gli_collective_reduces(p->collective);
  if (prices(p).busy && p->size > 2) {
    const char *name = counted_busy(p, m);
    if (gli_select_suits(p, name)) {
      return gli_algorithm_find(p->collective, name);
    }
  }
  uint64_t most = reduces ? m - m / p->size : 0;
  load all = {2 * others, pairs}, tree = {2 * log, p->size * log};
  gli_candidate list[] = {candidate(p, "ring", all, most, false),
                          candidate(p, "circulant", tree, most, true),
                          candidate(p, "direct", all, most, true)};
  return CHEAPEST(p, list);
}

const gli_algorithm *gli_algorithm_select_blocks(const gli_plan_params *p) {
  switch (p->collective) {
    case GLI_ALLTOALL:
    case GLI_ALLTOALLV:
      return select_alltoall(p);
    case GLI_REDUCE:
      return select_reduce(p);
    case GLI_GATHER:
    case GLI_SCATTER:
      return select_root(p);
    case GLI_SCAN:
    case GLI_EXSCAN:
      return select_scan(p);
    case GLI_ALLGATHERV:
    case GLI_REDUCE_SCATTERV:
      return select_counted(p);
    case GLI_GATHERV:
    case GLI_SCATTERV:
      return gli_algorithm_find(p->collective, "flat");
    default:
      return NULL;
  }
}
