/* The list of algorithms. A file named <collective>_<name>.c, <collective>.c or
 * <name>.c defines a builder and its promised cost; a line here registers it.
 */
#include "algorithms/registry.h"

#include <string.h>

/* X(constant, collective, name, summary). New lines go to the end, because
 * message signatures carry indices into the list. An algorithm that gets its
 * blocks from gli_block also supports given counts, with another line. */
#define GLI_ALGORITHM_LIST(X)                                                  \
  X(GLI_BARRIER, barrier, dissemination, "empty messages, log P rounds")       \
  X(GLI_BROADCAST, broadcast, binomial, "tree, log P rounds; short vectors")   \
  X(GLI_BROADCAST, broadcast, scatter_allgather,                               \
    "scatter, then gather, 2 log P rounds; long vectors")                      \
  X(GLI_ALLREDUCE, allreduce, recursive_doubling,                              \
    "whole vectors swapped, log P rounds; short vectors")                      \
  X(GLI_ALLREDUCE, allreduce, ring,                                            \
    "fewest bytes, neighbours only, 2 (P-1) rounds; long vectors")             \
  X(GLI_ALLREDUCE, allreduce, circulant,                                       \
    "fewest bytes, 2 log P rounds on a circulant graph; any number of ranks")  \
  X(GLI_REDUCE_SCATTER, reduce_scatter, ring,                                  \
    "fewest bytes, neighbours only, P-1 rounds; long vectors")                 \
  X(GLI_REDUCE_SCATTER, reduce_scatter, circulant,                             \
    "fewest bytes, halving in log P rounds on a circulant graph")              \
  X(GLI_ALLGATHER, allgather, ring,                                            \
    "fewest bytes, neighbours only, P-1 rounds; long vectors")                 \
  X(GLI_ALLGATHER, allgather, circulant,                                       \
    "fewest bytes, doubling in log P rounds on a circulant graph")             \
  X(GLI_BARRIER, barrier, all_to_all, "empty messages, one round; few ranks")  \
  X(GLI_BARRIER, barrier, all_to_one, "empty messages, the fewest possible")   \
  X(GLI_BROADCAST, broadcast, flat, "the root sends to all; few ranks")        \
  X(GLI_ALLREDUCE, allreduce, one_shot,                                        \
    "all to all, one round, in rank order; very short vectors")                \
  X(GLI_ALLREDUCE, allreduce, direct,                                          \
    "fewest bytes, two rounds, in rank order; few ranks on one host")          \
  X(GLI_REDUCE_SCATTER, reduce_scatter, direct,                                \
    "fewest bytes, one round, in rank order; few ranks on one host")           \
  X(GLI_ALLGATHER, allgather, direct,                                          \
    "fewest bytes, one round; few ranks on one host")                          \
  X(GLI_ALLTOALL, alltoall, direct,                                            \
    "fewest bytes, 16 exchanges at a time; nearly always")                     \
  X(GLI_ALLTOALL, alltoall, pairwise,                                          \
    "fewest bytes, one exchange at a time; long blocks, many ranks")           \
  X(GLI_ALLTOALL, alltoall, bruck,                                             \
    "log P rounds, blocks travel together; short blocks, many ranks")          \
  X(GLI_ALLREDUCE, allreduce, fused,                                           \
    "each rank reduces its part of all inputs where they are, in rank order")  \
  X(GLI_REDUCE_SCATTER, reduce_scatter, fused,                                 \
    "each rank reduces its block of all inputs where they are, in rank order") \
  X(GLI_REDUCE, reduce, binomial, "tree, log P rounds; short vectors")         \
  X(GLI_REDUCE, reduce, scatter_gather,                                        \
    "reduce-scatter, then gather, 2 log P rounds; long vectors")               \
  X(GLI_REDUCE, reduce, flat,                                                  \
    "all send to the root, in rank order; few ranks")                          \
  X(GLI_GATHER, gather, binomial, "tree, log P rounds; short blocks")          \
  X(GLI_GATHER, gather, flat, "all send to the root; long blocks")             \
  X(GLI_SCATTER, scatter, binomial, "tree, log P rounds; short blocks")        \
  X(GLI_SCATTER, scatter, flat, "the root sends to all; long blocks")          \
  X(GLI_SCAN, scan, recursive_doubling,                                        \
    "log P rounds, in rank order; short vectors")                              \
  X(GLI_SCAN, scan, linear, "from rank to rank, in rank order; long vectors")  \
  X(GLI_EXSCAN, exscan, recursive_doubling,                                    \
    "log P rounds, in rank order; short vectors")                              \
  X(GLI_EXSCAN, exscan, linear,                                                \
    "from rank to rank, in rank order; long vectors")                          \
  X(GLI_ALLGATHERV, allgather, ring,                                           \
    "fewest bytes, neighbours only, P-1 rounds; long vectors")                 \
  X(GLI_ALLGATHERV, allgather, circulant,                                      \
    "fewest bytes, doubling in log P rounds on a circulant graph")             \
  X(GLI_ALLGATHERV, allgather, direct,                                         \
    "fewest bytes, one round; few ranks on one host")                          \
  X(GLI_GATHERV, gather, flat, "all send to the root")                         \
  X(GLI_SCATTERV, scatter, flat, "the root sends to all")                      \
  X(GLI_ALLTOALLV, alltoall, direct,                                           \
    "fewest bytes, 16 exchanges at a time; nearly always")                     \
  X(GLI_ALLTOALLV, alltoall, pairwise,                                         \
    "fewest bytes, one exchange at a time; long blocks, many ranks")           \
  X(GLI_REDUCE_SCATTERV, reduce_scatter, ring,                                 \
    "fewest bytes, neighbours only, P-1 rounds; long vectors")                 \
  X(GLI_REDUCE_SCATTERV, reduce_scatter, circulant,                            \
    "fewest bytes, halving in log P rounds on a circulant graph")              \
  X(GLI_REDUCE_SCATTERV, reduce_scatter, direct,                               \
    "fewest bytes, one round, in rank order; few ranks on one host")           \
  X(GLI_ALLREDUCE, allreduce, halving_doubling,                                \
    "fewest bytes, 2 log P rounds; a power of two of ranks")                   \
  X(GLI_ALLREDUCE, allreduce, recursive_multiplying_4,                         \
    "whole vectors swapped in groups of 4; very short vectors, many ranks")    \
  X(GLI_ALLREDUCE, allreduce, recursive_multiplying_8,                         \
    "whole vectors swapped in groups of 8; very short vectors, many ranks")    \
  X(GLI_ALLREDUCE, allreduce, bcube_4,                                         \
    "fewest bytes, log P rounds in groups of 4; many ranks")                   \
  X(GLI_ALLREDUCE, allreduce, bcube_8,                                         \
    "fewest bytes, 2/3 log P rounds in groups of 8; many ranks")               \
  X(GLI_REDUCE_SCATTER, reduce_scatter, recursive_halving,                     \
    "fewest bytes, log P rounds; a power of two of ranks")                     \
  X(GLI_REDUCE_SCATTERV, reduce_scatter, recursive_halving,                    \
    "fewest bytes, log P rounds; a power of two of ranks")                     \
  X(GLI_ALLGATHER, allgather, recursive_doubling,                              \
    "fewest bytes, log P rounds; a power of two of ranks")                     \
  X(GLI_ALLGATHERV, allgather, recursive_doubling,                             \
    "fewest bytes, log P rounds; a power of two of ranks")                     \
  X(GLI_ALLGATHER, allgather, bruck,                                           \
    "fewest bytes, log P rounds, one message in each; very short vectors")     \
  X(GLI_ALLGATHERV, allgather, bruck,                                          \
    "fewest bytes, log P rounds, one message in each; very short vectors")     \
  X(GLI_REDUCE, reduce, direct,                                                \
    "fewest bytes, two rounds, in rank order; long vectors")                   \
  X(GLI_ALLREDUCE, allreduce, flat,                                            \
    "through rank 0, fewest messages, in rank order; more ranks than cores")   \
  X(GLI_ALLGATHER, allgather, flat,                                            \
    "through rank 0, fewest messages; more ranks than cores")                  \
  X(GLI_REDUCE_SCATTER, reduce_scatter, flat,                                  \
    "through rank 0, fewest messages, in rank order; more ranks than cores")   \
  X(GLI_ALLGATHERV, allgather, flat,                                           \
    "through rank 0, fewest messages; more ranks than cores")                  \
  X(GLI_REDUCE_SCATTERV, reduce_scatter, flat,                                 \
    "through rank 0, fewest messages, in rank order; more ranks than cores")   \
  X(GLI_REDUCE, reduce, fused,                                                 \
    "each rank reduces its part of all inputs where they are, in rank order")  \
  X(GLI_ALLGATHER, allgather, fused,                                           \
    "each rank stores its block where it belongs; long blocks, one host")      \
  X(GLI_ALLGATHERV, allgather, fused,                                          \
    "each rank stores its block where it belongs; long blocks, one host")      \
  X(GLI_BROADCAST, broadcast, fused,                                           \
    "each rank stores its part where it belongs; long vectors, one host")

/* Algorithms in which bytes flow along long chains of ranks. They use shorter
 * segments than others. */
#define GLI_FLOWING_LIST(X)                                         \
  X(GLI_BROADCAST, broadcast, chain,                                \
    "from rank to rank, in segments; very long vectors, few ranks") \
  X(GLI_ALLREDUCE, allreduce, double_binary_tree,                   \
    "two trees in segments, 4 log P rounds; few neighbours; on request only")

/* Algorithms that consist of others. Their cost depends on the hosts. */
#define GLI_COMPOSED_LIST(X)                                           \
  X(GLI_BARRIER, barrier, two_level, "within hosts, then across them") \
  X(GLI_BROADCAST, broadcast, two_level,                               \
    "to every host once, by several leaders; then within hosts")       \
  X(GLI_ALLREDUCE, allreduce, two_level,                               \
    "within hosts, across them by several leaders, and within hosts")  \
  X(GLI_REDUCE_SCATTER, reduce_scatter, two_level,                     \
    "within hosts, then across them by several leaders")               \
  X(GLI_ALLGATHER, allgather, two_level,                               \
    "to every host once, by several leaders; then within hosts")

/* O(constant, name, order). Algorithms that combine inputs in the order of
 * ranks, see gli_order; all others combine in any order. The checker proves
 * each line, and that none is missing. */
#define GLI_ORDER_LIST(O)                                    \
  O(GLI_ALLREDUCE, recursive_doubling, GLI_ORDER_RANKS)      \
  O(GLI_ALLREDUCE, one_shot, GLI_ORDER_FOLD)                 \
  O(GLI_ALLREDUCE, direct, GLI_ORDER_FOLD)                   \
  O(GLI_ALLREDUCE, fused, GLI_ORDER_FOLD)                    \
  O(GLI_ALLREDUCE, flat, GLI_ORDER_FOLD)                     \
  O(GLI_ALLREDUCE, halving_doubling, GLI_ORDER_RANKS)        \
  O(GLI_ALLREDUCE, recursive_multiplying_4, GLI_ORDER_RANKS) \
  O(GLI_ALLREDUCE, recursive_multiplying_8, GLI_ORDER_RANKS) \
  O(GLI_ALLREDUCE, bcube_4, GLI_ORDER_RANKS)                 \
  O(GLI_ALLREDUCE, bcube_8, GLI_ORDER_RANKS)                 \
  O(GLI_REDUCE_SCATTER, direct, GLI_ORDER_FOLD)              \
  O(GLI_REDUCE_SCATTER, fused, GLI_ORDER_FOLD)               \
  O(GLI_REDUCE_SCATTER, flat, GLI_ORDER_FOLD)                \
  O(GLI_REDUCE_SCATTERV, direct, GLI_ORDER_FOLD)             \
  O(GLI_REDUCE_SCATTERV, flat, GLI_ORDER_FOLD)               \
  O(GLI_REDUCE, flat, GLI_ORDER_FOLD)                        \
  O(GLI_REDUCE, direct, GLI_ORDER_FOLD)                      \
  O(GLI_REDUCE, fused, GLI_ORDER_FOLD)                       \
  O(GLI_SCAN, recursive_doubling, GLI_ORDER_RANKS)           \
  O(GLI_SCAN, linear, GLI_ORDER_FOLD)                        \
  O(GLI_EXSCAN, recursive_doubling, GLI_ORDER_RANKS)         \
  O(GLI_EXSCAN, linear, GLI_ORDER_FOLD)

#define GLI_ALGORITHM_DECLARE(constant, collective, name, summary)          \
  void gli_##collective##_##name(gli_builder *b, const gli_plan_params *p); \
  uint32_t gli_##collective##_##name##_rounds(uint32_t size);               \
  uint64_t gli_##collective##_##name##_bytes(uint32_t size,                 \
                                             uint64_t vector_bytes);
GLI_ALGORITHM_LIST(GLI_ALGORITHM_DECLARE)
GLI_FLOWING_LIST(GLI_ALGORITHM_DECLARE)

/* `best` lets these algorithms use the selector without a reference to it. */
#define GLI_COMPOSED_DECLARE(constant, collective, name, summary)             \
  void gli_##collective##_##name(gli_builder *b, const gli_plan_params *p,    \
                                 gli_build_fn best);                          \
  static void collective##_##name(gli_builder *b, const gli_plan_params *p) { \
    gli_##collective##_##name(b, p, gli_best);                                \
  }
GLI_COMPOSED_LIST(GLI_COMPOSED_DECLARE)

#define GLI_COSTED_ENTRY(constant, collective, name, summary, flows) \
  {constant,                                                         \
   #name,                                                            \
   gli_##collective##_##name,                                        \
   gli_##collective##_##name##_rounds,                               \
   gli_##collective##_##name##_bytes,                                \
   summary,                                                          \
   flows},
#define GLI_ALGORITHM_ENTRY(constant, collective, name, summary) \
  GLI_COSTED_ENTRY(constant, collective, name, summary, false)
#define GLI_FLOWING_ENTRY(constant, collective, name, summary) \
  GLI_COSTED_ENTRY(constant, collective, name, summary, true)
#define GLI_COMPOSED_ENTRY(constant, collective, name, summary) \
  {constant, #name, collective##_##name, NULL, NULL, summary, false},
const gli_algorithm gli_algorithms[] = {
    GLI_ALGORITHM_LIST(GLI_ALGORITHM_ENTRY) GLI_FLOWING_LIST(GLI_FLOWING_ENTRY)
        GLI_COMPOSED_LIST(GLI_COMPOSED_ENTRY)};

const size_t gli_algorithm_count =
    sizeof gli_algorithms / sizeof gli_algorithms[0];

_Static_assert(sizeof gli_algorithms / sizeof gli_algorithms[0] <= UINT8_MAX,
               "an algorithm's number must fit a byte");

const gli_algorithm *gli_algorithm_find(gli_collective collective,
                                        const char *name) {
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective == collective && strcmp(a->name, name) == 0) return a;
  }
  return NULL;
}

gli_order gli_algorithm_order(const gli_algorithm *algorithm) {
  static const struct {
    gli_collective collective;
    const char *name;
    gli_order order;
  } orders[] = {
#define GLI_ORDER_ENTRY(constant, name, order) {constant, #name, order},
      GLI_ORDER_LIST(GLI_ORDER_ENTRY)
#undef GLI_ORDER_ENTRY
  };
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
    if (orders[i].collective != algorithm->collective) continue;
    if (strcmp(orders[i].name, algorithm->name) == 0) return orders[i].order;
  }
  return GLI_ORDER_ANY;
}

const char *gli_algorithm_name(uint8_t id) {
  return id < gli_algorithm_count ? gli_algorithms[id].name : "unknown";
}

uint8_t gli_algorithm_id(const gli_algorithm *algorithm) {
  return (uint8_t)(algorithm - gli_algorithms);
}
