/* The list of algorithms. Each file named <collective>_<name>.c gives a builder
 * and its promised cost; a line here makes it known. */
#include "algorithms/registry.h"

#include <string.h>

/* X(constant, collective, name, summary). New lines go to the end: places in
 * the list are the numbers that travel in message signatures. */
#define GLI_ALGORITHM_LIST(X)                                                 \
  X(GLI_BARRIER, barrier, dissemination, "empty messages, log P rounds")      \
  X(GLI_BROADCAST, broadcast, binomial, "tree, log P rounds; short vectors")  \
  X(GLI_BROADCAST, broadcast, scatter_allgather,                              \
    "scatter, then gather, 2 log P rounds; long vectors")                     \
  X(GLI_ALLREDUCE, allreduce, recursive_doubling,                             \
    "whole vectors swapped, log P rounds; short vectors")                     \
  X(GLI_ALLREDUCE, allreduce, ring,                                           \
    "fewest bytes, neighbours only, 2 (P-1) rounds; long vectors")            \
  X(GLI_ALLREDUCE, allreduce, halving_doubling,                               \
    "fewest bytes, 2 log P rounds on a circulant graph; any number of ranks") \
  X(GLI_REDUCE_SCATTER, reduce_scatter, ring,                                 \
    "fewest bytes, neighbours only, P-1 rounds; long vectors")                \
  X(GLI_REDUCE_SCATTER, reduce_scatter, recursive,                            \
    "fewest bytes, halving in log P rounds on a circulant graph")             \
  X(GLI_ALLGATHER, allgather, ring,                                           \
    "fewest bytes, neighbours only, P-1 rounds; long vectors")                \
  X(GLI_ALLGATHER, allgather, recursive,                                      \
    "fewest bytes, doubling in log P rounds on a circulant graph")

#define GLI_ALGORITHM_DECLARE(constant, collective, name, summary)          \
  void gli_##collective##_##name(gli_builder *b, const gli_plan_params *p); \
  uint32_t gli_##collective##_##name##_rounds(uint32_t size);               \
  uint64_t gli_##collective##_##name##_bytes(uint32_t size,                 \
                                             uint64_t vector_bytes);
GLI_ALGORITHM_LIST(GLI_ALGORITHM_DECLARE)

#define GLI_ALGORITHM_ENTRY(constant, collective, name, summary) \
  {constant,                                                     \
   #name,                                                        \
   gli_##collective##_##name,                                    \
   gli_##collective##_##name##_rounds,                           \
   gli_##collective##_##name##_bytes,                            \
   summary},
const gli_algorithm gli_algorithms[] = {
    GLI_ALGORITHM_LIST(GLI_ALGORITHM_ENTRY)};

const size_t gli_algorithm_count =
    sizeof(gli_algorithms) / sizeof(gli_algorithms[0]);

_Static_assert(sizeof(gli_algorithms) / sizeof(gli_algorithms[0]) <= UINT8_MAX,
               "an algorithm's number must fit a byte");

const gli_algorithm *gli_algorithm_find(gli_collective collective,
                                        const char *name) {
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *a = &gli_algorithms[i];
    if (a->collective == collective && strcmp(a->name, name) == 0) return a;
  }
  return NULL;
}

uint8_t gli_algorithm_id(const gli_algorithm *algorithm) {
  return (uint8_t)(algorithm - gli_algorithms);
}
