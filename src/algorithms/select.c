/* The choice of algorithm and segment size when the caller makes none.
 *
 * The model is alpha + beta m: a message costs a latency, and a time for each
 * of its bytes. Only their ratio matters, so everything here counts in bytes:
 * LATENCY is how many bytes could travel while one empty message does. For TCP
 * that is some 10 to 50 KiB (10 us at 2 GB/s, 30 us at 1.2 GB/s); the number
 * below is an estimate, not a measurement.
 *
 *   cost = rounds x LATENCY + bytes sent + bytes reduced / REDUCE_SPEED
 *
 * Algorithms with logarithmic rounds talk to ranks far away. Where several
 * ranks share a host, all of them then cross its network card at once, while a
 * ring crosses it once; far() makes their bytes an eighth dearer for it. So a
 * ring takes over when the vector is longer than about 4 LATENCY for each round
 * that the ring has more (8 for the one-way collectives).
 *
 * Where the lines run with these numbers, in KiB of vector:
 *
 *   ranks                                2     4     8    16     64
 *   allreduce     halving_doubling from  -    51    31    24     19
 *                 ring from            128   171   586  1502   7416
 *   broadcast     scatter_allgather      -    64    38    30     24
 *   the others    ring from              0   171   586  1502   7416
 *
 * and below the first of them recursive_doubling, binomial and recursive. */
#include <stddef.h>

#include "algorithms/registry.h"

#define LATENCY ((uint64_t)16 << 10)
#define REDUCE_SPEED 4              /* reducing is faster than links by this */
#define LONGEST ((uint64_t)1 << 48) /* beyond it no choice changes */

#define SEGMENT ((uint64_t)512 << 10)
#define SEGMENTS 1024 /* that one rank sends or copies in a plan, about */

typedef struct candidate {
  const char *name;
  uint64_t cost;
} candidate;

static uint64_t cost(uint64_t rounds, uint64_t sent, uint64_t reduced) {
  return rounds * LATENCY + sent + reduced / REDUCE_SPEED;
}

static uint64_t far(uint64_t bytes) {
  return bytes + bytes / 8;
}

static const gli_algorithm *cheapest(gli_collective collective,
                                     const candidate *list, size_t n) {
  const candidate *best = &list[0];
  for (size_t i = 1; i < n; i++) {
    if (list[i].cost < best->cost) best = &list[i];
  }
  return gli_algorithm_find(collective, best->name);
}

/* Bytes of the longer buffer: all inputs together for reduce-scatter, all
 * outputs for allgather. Sizes that overflow are refused elsewhere. */
static uint64_t vector_bytes(const gli_plan_params *p) {
  uint64_t in, out;
  if (!gli_plan_buffer_bytes(p, &in, &out)) return UINT64_MAX;
  return in > out ? in : out;
}

const gli_algorithm *gli_algorithm_select(const gli_plan_params *p) {
  uint64_t size = p->size, m = vector_bytes(p), log = 0;
  if (m > LONGEST) m = LONGEST;
  while (((uint64_t)1 << log) < size) log++;
  bool folds = (size & (size - 1)) != 0; /* recursive doubling, see there */
  uint64_t swaps = folds ? log + 1 : log;
  uint64_t most = m - m / size; /* all but a rank's own part */
  switch (p->collective) {
    case GLI_BARRIER:
      return gli_algorithm_find(GLI_BARRIER, "dissemination");
    case GLI_BROADCAST: {
      candidate list[] = {{"binomial", cost(log, log * m, 0)},
                          {"scatter_allgather", cost(2 * log, 2 * most, 0)}};
      return cheapest(GLI_BROADCAST, list, 2);
    }
    case GLI_ALLREDUCE: {
      candidate list[] = {
          {"recursive_doubling", cost(swaps, swaps * m, swaps * m)},
          {"ring", cost(2 * (size - 1), 2 * most, most)},
          {"halving_doubling", cost(2 * log, far(2 * most), most)}};
      return cheapest(GLI_ALLREDUCE, list, 3);
    }
    case GLI_REDUCE_SCATTER: {
      candidate list[] = {{"ring", cost(size - 1, most, most)},
                          {"recursive", cost(log, far(most), most)}};
      return cheapest(GLI_REDUCE_SCATTER, list, 2);
    }
    case GLI_ALLGATHER: {
      candidate list[] = {{"ring", cost(size - 1, most, 0)},
                          {"recursive", cost(log, far(most), 0)}};
      return cheapest(GLI_ALLGATHER, list, 2);
    }
    default:
      return NULL;
  }
}

/* Segments long enough that their latency does not show, and short enough that
 * a few of them fit a cache; longer where there would be too many. */
uint64_t gli_segment_bytes(const gli_algorithm *algorithm,
                           const gli_plan_params *p) {
  uint64_t m = vector_bytes(p);
  if (m <= SEGMENT) return 0;
  if (m > LONGEST) m = LONGEST;
  uint64_t sent = algorithm->bytes ? algorithm->bytes(p->size, m) : 0;
  uint64_t most = sent > m ? sent : m;
  uint64_t bytes = most / SEGMENTS > SEGMENT ? most / SEGMENTS : SEGMENT;
  uint64_t whole = (bytes + p->elem_bytes - 1) / p->elem_bytes;
  return whole * p->elem_bytes;
}
