/* Shared parts of the selector; see select.c for the model. */
#ifndef GLI_ALGORITHMS_SELECT_H
#define GLI_ALGORITHMS_SELECT_H

#include "algorithms/registry.h"
#include "core/error.h"
#include "plan/tuning.h"

/* Beyond it no choice changes. */
#define GLI_SELECT_LONGEST ((uint64_t)1 << 40)

/* The shortest segments of long vectors, and of vectors for which no later step
 * could begin with a part. */
#define GLI_SELECT_SEGMENT ((uint64_t)512 << 10)
#define GLI_SELECT_SEGMENT_OF_ROUND (4 * GLI_SELECT_SEGMENT)

/* The least cost of a message between hosts, in picoseconds. */
#define GLI_SELECT_FAR_MESSAGE ((uint64_t)2 * 1000 * 1000)

typedef struct gli_candidate {
  const char *name;
  uint64_t cost;
} gli_candidate;

/* Costs of one kind of link, in picoseconds. */
typedef struct gli_prices {
  uint64_t round;   /* in which messages are under way: their latency */
  uint64_t message; /* what each costs its sender and its receiver */
  uint64_t turn;    /* with more ranks than cores: a message as work */
  uint64_t byte, reduced_byte;
  bool busy; /* all of that is work that ranks take turns at */
} gli_prices;

static inline gli_prices gli_select_prices(const gli_plan_params *p,
                                           gli_link_kind kind) {
  const gli_costs *costs =
      p->tuning != NULL ? &p->tuning->costs : &gli_costs_estimate;
  uint64_t alpha = (uint64_t)costs->link[kind].alpha_ns * 1000;
  gli_prices one = {
      alpha,           alpha / 8, alpha + alpha / 4, costs->link[kind].beta_ps,
      costs->gamma_ps, false};
  /* A network may be fast, but the system has as much to do for a message. */
  if (kind == GLI_LINK_FAR && one.message < GLI_SELECT_FAR_MESSAGE)
    one.message = GLI_SELECT_FAR_MESSAGE;
  /* No rank copies out what another one copies in at the same time. */
  one.busy = p->oversubscribed && kind == GLI_LINK_TCP;
  if (one.busy) one.byte *= 2;
  return one;
}

/* Within a host. */
static inline gli_prices gli_select_intra_node_prices(
    const gli_plan_params *p) {
  return gli_select_prices(p, p->locality ? GLI_LINK_SHM : GLI_LINK_TCP);
}

/* A sum of a few such costs does not overflow. */
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

/* Does it keep the order that they ask for? */
static inline bool gli_select_suits(const gli_plan_params *params,
                                    const char *name) {
  if (params->order == GLI_ORDER_ANY) return true;
  const gli_algorithm *a = gli_algorithm_find(params->collective, name);
  return a != NULL && gli_algorithm_order(a) >= params->order;
}

/* The cost of unsuitable algorithms: more than all others, and far enough below
 * overflow. */
#define GLI_SELECT_NEVER (UINT64_MAX / 2)

/* The first of the cheapest. */
const gli_algorithm *gli_select_cheapest(gli_collective collective,
                                         const gli_candidate *list, size_t n);

/* The choice among ranks of one host that can share memory, for a vector of m
 * bytes; NULL where it is left to the others. */
const gli_algorithm *gli_algorithm_select_intra_node(
    const gli_plan_params *params, uint64_t m);

/* The choice for the collectives that move blocks between pairs of ranks, and
 * for those with one root that collect or spread them. */
const gli_algorithm *gli_algorithm_select_blocks(const gli_plan_params *params);

#endif
