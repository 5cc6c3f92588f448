/* The selector: chooses algorithm and segment size if the caller does not.
 *
 * The cost model: a message of m bytes takes alpha + beta m, and each reduced
 * byte gamma. The parameters are measured (params->tuning) or estimated
 * (plan/costs.h).
 *
 *   cost = rounds x alpha + messages x alpha / 8 + bytes sent x beta
 *          + bytes reduced x gamma
 *
 * where `messages` counts the messages of the busiest rank. With more ranks
 * than cores, a round takes longer, because ranks also wait for a core. If in
 * addition a message is work for the operating system (without shared memory),
 * the total work counts:
 *
 *   cost = messages of all ranks / ranks x turn + bytes sent x beta + ...
 *
 * Between hosts latency is higher and bandwidth lower; and the ranks of a host
 * share its network link: the cost of bytes is multiplied by the number of
 * ranks that send at the same time. If ranks are in order of hosts, an
 * algorithm in which ranks send to the next rank only crosses between hosts
 * once per host.
 *
 * The cost of a two-level algorithm follows from those of its parts. The
 * selector also chooses the parts, by the same costs: users' rules
 * (params->tuning->rules) apply to calls, not to parts of them. So the choice
 * is the same wherever it is made. */
#include <stddef.h>

#include "algorithms/radix.h"
#include "algorithms/registry.h"
#include "algorithms/select.h"
#include "algorithms/two_level.h"

#define LONGEST GLI_SELECT_LONGEST
#define SEGMENT GLI_SELECT_SEGMENT
#define SEGMENT_OF_LEVEL (SEGMENT / 2) /* half: other levels wait for it */
#define HALVING_FROM ((uint64_t)256 << 10)
#define RING_FROM ((uint64_t)1 << 20)  /* its blocks stay in the caches */
#define A_MESSAGE ((uint64_t)16 << 10) /* half of its time is latency */
#define SHORTEST ((uint64_t)16 << 10)  /* shortest segment on a chain */
#define SEGMENTED ((uint64_t)1 << 48)  /* upper bound on the length */
#define SEGMENTS 1024                  /* per rank and plan, about */

/* ---- costs --------------------------------------------------------------- */

typedef struct work {
  uint64_t rounds;
  uint64_t messages, all; /* messages of the busiest rank, of all ranks */
  uint64_t sent, reduced;
  bool along; /* true if every rank sends to the next one only */
} work;

static uint64_t select_times(uint64_t a, uint64_t b) {
  return gli_select_times(a, b);
}

static uint64_t cost(const gli_plan_params *p, work w) {
  bool far = p->hosts != NULL;
  gli_prices one = far ? gli_select_prices(p, GLI_LINK_FAR)
                       : gli_select_intra_node_prices(p);
  uint64_t sent = w.sent;
  if (far)
    sent = select_times(sent, w.along ? p->hosts->leaving : p->hosts->crowd);
  uint64_t bytes =
      select_times(sent, one.byte) + select_times(w.reduced, one.reduced_byte);
  if (one.busy) return select_times(w.all, one.turn) / p->size + bytes;
  uint64_t round = !far && p->oversubscribed ? 2 * one.round : one.round;
  return w.rounds * round + w.messages * one.message + bytes;
}

/* ---- two levels ---------------------------------------------------------- */

static uint64_t best(const gli_plan_params *p, const gli_algorithm **choice);

/* Returns the lowest cost for `n` ranks with `count` elements each. */
static uint64_t select_part(const gli_plan_params *p, gli_collective collective,
                            uint32_t n, uint64_t count,
                            const gli_hosts *hosts) {
  gli_plan_params q = {.collective = collective,
                       .size = n,
                       .count = count,
                       .elem_bytes = p->elem_bytes,
                       .hosts = hosts,
                       .oversubscribed = p->oversubscribed,
                       .locality = p->locality,
                       .low_precision = p->low_precision,
                       .order = p->order,
                       .tuning = p->tuning};
  const gli_algorithm *choice;
  return best(&q, &choice);
}

/* Returns the cost of one round within a host, in which each of `busy` ranks
 * sends a message to all others there, or receives one from each. */
static uint64_t select_within(const gli_plan_params *p, uint64_t busy,
                              uint64_t sent, uint64_t reduced) {
  uint64_t size = p->hosts->most, others = size - 1;
  gli_plan_params one_host = {.size = (uint32_t)size,
                              .oversubscribed = p->oversubscribed,
                              .locality = p->locality,
                              .tuning = p->tuning};
  return cost(&one_host,
              (work){1, 2 * others, busy * others, sent, reduced, false});
}

/* Both levels are busy at once, except at the beginning and the end. */
static uint64_t together(uint64_t near, uint64_t far) {
  return near > far ? near + far / 4 : far + near / 4;
}

/* Returns the cost for unsorted blocks; see allgather_two_level.c. */
static uint64_t two_levels_of_blocks(const gli_plan_params *p, uint64_t m) {
  const gli_hosts *h = p->hosts;
  uint64_t own = m / p->size * h->most, others = own - m / p->size;
  gli_prices far = gli_select_prices(p, GLI_LINK_FAR);
  return together(select_times(select_within(p, h->most, others, others), h->n),
                  select_times(m - own, far.byte) + far.round +
                      2 * (h->n - 1) * far.message);
}

/* Returns the cost of the two-level algorithm for m bytes. */
static uint64_t two_levels(const gli_plan_params *p, uint64_t m) {
  const gli_hosts *h = p->hosts;
  uint64_t others = h->most - 1, leaders = gli_leaders(p, m);
  uint64_t one = m / leaders, near, far;
  gli_collective c = p->collective;
  switch (c) {
    case GLI_BARRIER:
      return 2 * select_within(p, 1, 0, 0) +
             select_part(p, c, h->n, 0, h->apart);
    case GLI_BROADCAST:
      near = select_part(p, c, h->most, m / p->elem_bytes, NULL) +
             select_within(p, leaders, others * one, 0);
      far = select_part(p, c, h->n, one / p->elem_bytes, h->apart);
      return leaders > 1 ? together(near, far) : near + far;
    case GLI_ALLREDUCE:
      near = select_within(p, leaders, m - one, others * one) +
             select_within(p, leaders, others * one, 0);
      far = select_part(p, c, h->n, one / p->elem_bytes, h->apart);
      return gli_turns(p, m, (uint32_t)leaders) > 1 ? together(near, far)
                                                    : near + far;
    case GLI_ALLGATHER:
    case GLI_REDUCE_SCATTER:
      if (h->least != h->most || !gli_is_short(p))
        return two_levels_of_blocks(p, m);
      return select_part(p, c, h->most, p->count * h->n, NULL) +
             select_times(m, gli_select_intra_node_prices(p).byte) +
             select_part(p, c, h->n, p->count, h->apart);
    default:
      return UINT64_MAX;
  }
}

/* ---- the choice ---------------------------------------------------------- */

typedef struct shortlist {
  const gli_plan_params *p;
  const char *name;
  uint64_t cost;
} shortlist;

static void consider(shortlist *s, const char *name, uint64_t cost_of_it) {
  if (s->name != NULL && s->cost <= cost_of_it) return;
  if (!gli_select_suits(s->p, name)) return;
  s->name = name;
  s->cost = cost_of_it;
}

static void flat(shortlist *s, const char *name, work w) {
  consider(s, name, cost(s->p, w));
}

/* Considers algorithms in groups of up to k ranks. A rank adds its group's
 * messages once all have arrived, so bytes of long vectors cost a little more.
 */
static void in_groups(shortlist *s, uint32_t k, const char *multiplying,
                      const char *bcube, uint64_t m) {
  uint32_t size = s->p->size, left = size;
  if (size <= k) return;
  const gli_algorithm *a = gli_algorithm_find(GLI_ALLREDUCE, multiplying);
  uint64_t sends = a->bytes(size, 1), most = m - m / size;
  flat(s, multiplying,
       (work){a->rounds(size), 2 * sends, size * sends, sends * m, sends * m,
              false});
  gli_radices r = gli_radices_up_to(k, &left);
  if (left > 1) return;
  sends = 2 * gli_radices_others(&r);
  flat(s, bcube,
       (work){2 * r.n, 2 * sends, size * sends, 2 * most + most / 4, most,
              false});
}

/* Considers halving_doubling, which has the same work as circulant, but its
 * ranks swap in pairs: no rank waits for a third. */
static void halving_doubling(shortlist *s, uint64_t m) {
  uint64_t size = s->p->size, log = gli_select_logarithm(size);
  uint64_t most = m - m / size;
  if (size <= 2 || !gli_select_is_power(size)) return;
  flat(s, "halving_doubling",
       (work){2 * log, 4 * log, 2 * size * log, 2 * most, most, false});
}

/* Considers algorithms that are faster only where latency is high. */
static void consider_far(shortlist *s, uint64_t m) {
  const gli_plan_params *p = s->p;
  uint64_t size = p->size, log = gli_select_logarithm(size);
  if (p->collective == GLI_ALLREDUCE) {
    in_groups(s, 4, "recursive_multiplying_4", "bcube_4", m);
    in_groups(s, 8, "recursive_multiplying_8", "bcube_8", m);
    halving_doubling(s, m);
  } else if (p->collective == GLI_ALLGATHER && size > 2 &&
             gli_select_is_power(size)) {
    flat(s, "recursive_doubling",
         (work){log, 2 * log, size * log, m - m / size, 0, false});
  } else if (p->collective == GLI_BROADCAST && size > 2) {
    const gli_algorithm *chain = gli_algorithm_find(p->collective, "chain");
    uint64_t segment = gli_segment_bytes(chain, p);
    uint64_t n = segment > 0 && m > 0 ? (m - 1) / segment + 1 : 1;
    flat(s, "chain",
         (work){size - 1, 2 * n, (size - 1) * n, m + (size - 2) * (m / n), 0,
                true});
  }
}

/* Considers rank 0 as relay, if ranks take turns on the cores: messages are
 * few, and the bytes that all ranks copy count; but while rank 0 works the
 * others wait, as long as `waits` bytes take. */
static void by_way_of_one(shortlist *s, uint64_t copied, uint64_t waits,
                          uint64_t reduced) {
  uint64_t others = s->p->size - 1;
  flat(s, "flat",
       (work){2, 2 * others, 2 * others, copied + waits, reduced, false});
}

/* Each line has rounds, messages, messages of all, bytes sent, reduced. */
static void consider_one_level(shortlist *s, uint64_t m) {
  uint64_t size = s->p->size, others = size - 1,
           log = gli_select_logarithm(size);
  uint64_t logs = size * log, pairs = select_times(size, others);
  /* In recursive doubling a power of two ranks swap, the rest are folded. */
  uint64_t swaps = log, swapped = logs;
  if (!gli_select_is_power(size)) {
    uint64_t power = (uint64_t)1 << (log - 1);
    swaps = log + 1;
    swapped = power * (log - 1) + 2 * (size - power);
  }
  uint64_t most = m - m / size, all = select_times(others, m);
  /* A tree keeps its root busy. If ranks take turns on the cores, the bytes
   * that all ranks copy count, and scatter and gather copy no less. */
  bool turns = s->p->hosts == NULL && s->p->oversubscribed && size > 2;
  uint64_t in_tree = turns ? 2 * most + m / 64 : log * m;
  if (s->p->hosts != NULL && size > 1) consider_far(s, m);
  switch (s->p->collective) {
    case GLI_BARRIER:
      flat(s, "dissemination", (work){log, 2 * log, logs, 0, 0, false});
      flat(s, "all_to_all", (work){1, 2 * others, pairs, 0, 0, false});
      flat(s, "all_to_one", (work){2, 2 * others, 2 * others, 0, 0, false});
      break;
    case GLI_BROADCAST:
      flat(s, "binomial", (work){log, log, others, in_tree, 0, false});
      flat(s, "flat", (work){1, others, others, all, 0, false});
      flat(s, "scatter_allgather",
           (work){2 * log, 3 * log, others + logs, 2 * most, 0, false});
      break;
    case GLI_ALLREDUCE:
      flat(s, "recursive_doubling",
           (work){swaps, 2 * swaps, swapped, swaps * m, swaps * m, false});
      flat(s, "one_shot", (work){1, 2 * others, pairs, all, all, false});
      flat(s, "ring",
           (work){2 * others, 4 * others, 2 * pairs, 2 * most, most, true});
      flat(s, "direct",
           (work){2, 4 * others, 2 * pairs, 2 * most, most, false});
      if (turns && m >= HALVING_FROM) halving_doubling(s, m);
      if (turns) by_way_of_one(s, 2 * most, log * m / 4, most);
      flat(s, "circulant",
           (work){2 * log, 4 * log, 2 * logs, 2 * most, most, false});
      break;
    case GLI_REDUCE_SCATTER:
      flat(s, "ring", (work){others, 2 * others, pairs, most, most, true});
      flat(s, "direct", (work){1, 2 * others, pairs, most, most, false});
      flat(s, "circulant", (work){log, 2 * log, logs, most, most, false});
      if (turns) by_way_of_one(s, most, m / 3, most);
      break;
    case GLI_ALLGATHER:
      flat(s, "ring",
           (work){others, 2 * others, pairs,
                  turns && m >= RING_FROM ? most - most / 4 : most, 0, true});
      flat(s, "direct", (work){1, 2 * others, pairs, most, 0, false});
      flat(s, "circulant", (work){log, 2 * log, logs, most, 0, false});
      if (turns) by_way_of_one(s, most, m / 2, 0);
      break;
    default:
      break;
  }
}

/* Returns the lowest cost, and the algorithm in `choice`. */
static uint64_t best(const gli_plan_params *p, const gli_algorithm **choice) {
  uint64_t m = gli_plan_vector_bytes(p);
  if (m > LONGEST) m = LONGEST;
  shortlist s = {.p = p};
  consider_one_level(&s, m);
  *choice = gli_algorithm_select_intra_node(p, m);
  if (*choice != NULL) return s.cost;
  if (s.name == NULL) {
    *choice = gli_algorithm_select_blocks(p);
    return 0;
  }
  if (gli_two_levels(p)) consider(&s, "two_level", two_levels(p, m));
  *choice = gli_algorithm_find(p->collective, s.name);
  return s.cost;
}

/* Low-precision elements use an algorithm whose ranks see all inputs and send
 * them unchanged, or any algorithm in float32. */
static const gli_algorithm *select_average(const gli_plan_params *p) {
  const gli_algorithm *choice, *wide;
  gli_plan_params q = *p;
  q.order = GLI_ORDER_FOLD;
  uint64_t cost_of_it = best(&q, &choice);
  q.order = p->order;
  q.low_precision = false;
  q.elem_bytes = sizeof(float);
  return best(&q, &wide) < cost_of_it ? wide : choice;
}

const gli_algorithm *gli_algorithm_select(const gli_plan_params *p) {
  const gli_algorithm *choice;
  if (p->average && p->size > 2) return select_average(p);
  best(p, &choice);
  return choice;
}

void gli_best(gli_builder *b, const gli_plan_params *p) {
  gli_algorithm_select(p)->build(b, p);
}

const gli_algorithm *gli_select_cheapest(gli_collective collective,
                                         const gli_candidate *list, size_t n) {
  const gli_candidate *cheapest = &list[0];
  for (size_t i = 1; i < n; i++) {
    if (list[i].cost < cheapest->cost) cheapest = &list[i];
  }
  return gli_algorithm_find(collective, cheapest->name);
}

/* ---- segments ------------------------------------------------------------ */

/* Along a chain of n messages, k segments take as long as n - 1 + k of them:
 * the best length is the square root of m * A_MESSAGE / (n - 1). */
static uint64_t flowing_segment(uint64_t m, uint64_t chain) {
  uint64_t square = m / (chain - 1) * A_MESSAGE, length = SHORTEST;
  while (length < SEGMENT && length * length < square) length *= 2;
  return length;
}

/* In a single round no rank forwards what it receives. If the operating system
 * carries the messages, longer ones are better, because every segment is a
 * separate call. The length is limited because several streams may exist, and
 * data that fits into two eager segments stays in two. */
static bool is_long_round(const gli_algorithm *algorithm,
                          const gli_plan_params *p) {
  if (p->locality || gli_plan_vector_bytes(p) <= 2 * SEGMENT) return false;
  return algorithm->bytes != NULL && algorithm->rounds(p->size) == 1;
}

/* Returns the segment size: large enough to hide latency, and small enough for
 * a few segments to fit a cache, unless their number would be too large. */
uint64_t gli_segment_bytes(const gli_algorithm *algorithm,
                           const gli_plan_params *p) {
  uint64_t m = gli_plan_vector_bytes(p);
  bool pairwise = gli_collective_pairwise(p->collective);
  uint64_t chain = algorithm->flows ? algorithm->rounds(p->size) : 0;
  uint64_t shortest = chain > 1 ? SHORTEST : SEGMENT;
  if (m <= shortest && !pairwise) return 0;
  if (m > SEGMENTED) m = SEGMENTED;
  uint64_t sent = algorithm->bytes != NULL ? algorithm->bytes(p->size, m) : 0;
  uint64_t most = sent > m ? sent : m;
  /* The root of a one-round reduction receives every vector. */
  if (p->collective == GLI_REDUCE && algorithm->rounds(p->size) == 1)
    most = select_times(m, p->size - 1);
  bool levels = algorithm->bytes == NULL && gli_two_levels(p);
  uint64_t least = levels ? SEGMENT_OF_LEVEL : SEGMENT;
  if (chain > 1)
    least = flowing_segment(m, chain);
  else if (is_long_round(algorithm, p))
    least = GLI_SELECT_SEGMENT_OF_ROUND;
  uint64_t bytes = most / SEGMENTS > least ? most / SEGMENTS : least;
  uint64_t whole = (bytes + p->elem_bytes - 1) / p->elem_bytes;
  return whole * p->elem_bytes;
}
