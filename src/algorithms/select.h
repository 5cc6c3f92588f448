/* Shared parts of the selector; see select.c for the model. */
#ifndef GLI_ALGORITHMS_SELECT_H
#define GLI_ALGORITHMS_SELECT_H

#include "algorithms/registry.h"
#include "core/error.h"
#include "plan/tuning.h"

/* The length beyond which no choice changes. */
#define GLI_SELECT_LONGEST ((uint64_t)1 << 40)

/* The shortest segments of long vectors, and of vectors in algorithms of one
 * round, where no later step could begin with a part. */
#define GLI_SELECT_SEGMENT ((uint64_t)512 << 10)
#define GLI_SELECT_SEGMENT_OF_ROUND (4 * GLI_SELECT_SEGMENT)

/* The lowest cost of a message between hosts, in picoseconds. */
#define GLI_SELECT_FAR_MESSAGE ((uint64_t)2 * 1000 * 1000)

typedef struct gli_candidate {
  const char *name;
  uint64_t cost;
} gli_candidate;

/* Costs of one kind of link, in picoseconds. */
typedef struct gli_prices {
  uint64_t round;   /* with messages in flight: their latency */
  uint64_t message; /* cost of each message to its sender and its receiver */
  uint64_t turn;    /* work per message, with more ranks than cores */
  uint64_t byte, reduced_byte;
  bool busy; /* true if ranks take turns on the cores for all of this work */
} gli_prices;

static inline gli_prices gli_select_prices(const gli_plan_params *p,
                                           gli_link_kind kind) {
  const gli_costs *costs =
      p->tuning != NULL ? &p->tuning->costs : &gli_costs_estimate;
  uint64_t alpha = (uint64_t)costs->link[kind].alpha_ns * 1000;
  gli_prices one = {
      alpha,           alpha / 8, alpha + alpha / 4, costs->link[kind].beta_ps,
      costs->gamma_ps, false};
  /* A network may be fast, but the system's work per message stays. */
  if (kind == GLI_LINK_FAR && one.message < GLI_SELECT_FAR_MESSAGE)
    one.message = GLI_SELECT_FAR_MESSAGE;
  /* With turns on the cores, no rank copies out while another copies in. */
  one.busy = p->oversubscribed && kind == GLI_LINK_TCP;
  if (one.busy) one.byte *= 2;
  return one;
}

/* Returns the costs within a host. */
static inline gli_prices gli_select_intra_node_prices(
    const gli_plan_params *p) {
  return gli_select_prices(p, p->locality ? GLI_LINK_SHM : GLI_LINK_TCP);
}

/* Multiplies with a bound, so that sums of a few costs do not overflow. */
static inline uint64_t gli_select_times(uint64_t a, uint64_t b) {
  uint64_t product;
  bool fits = gli_mul_u64(a, b, &product) && product < (uint64_t)1 << 60;
  return fits ? product : (uint64_t)1 << 60;
}

static inline uint64_t gli_select_logarithm(uint64_t size) {
  uint64_t log = 0;
  while (((uint64_t)1 << log) < size) log++;
  return log;
}

static inline bool gli_select_is_power(uint64_t size) {
  return (size & (size - 1)) == 0;
}

/* Returns true if the algorithm keeps the order that the parameters require. */
static inline bool gli_select_suits(const gli_plan_params *params,
                                    const char *name) {
  if (params->order == GLI_ORDER_ANY) return true;
  const gli_algorithm *a = gli_algorithm_find(params->collective, name);
  return a != NULL && gli_algorithm_order(a) >= params->order;
}

/* The cost of unsuitable algorithms: above all others, far from overflow. */
#define GLI_SELECT_NEVER (UINT64_MAX / 2)

/* Returns the first of the cheapest candidates. */
const gli_algorithm *gli_select_cheapest(gli_collective collective,
                                         const gli_candidate *list, size_t n);

/* Returns the choice for a vector of m bytes among ranks of one host that can
 * share memory; NULL leaves the choice to the rest of the selector. */
const gli_algorithm *gli_algorithm_select_intra_node(
    const gli_plan_params *params, uint64_t m);

/* Returns the choice for the collectives that move blocks between pairs of
 * ranks, and for those with a root that collects or distributes blocks. */
const gli_algorithm *gli_algorithm_select_blocks(const gli_plan_params *params);

#endif
