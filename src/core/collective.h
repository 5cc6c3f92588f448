/* Collectives by number and name; the numbers travel in message headers. */
#ifndef GLI_CORE_COLLECTIVE_H
#define GLI_CORE_COLLECTIVE_H

#include <stdbool.h>

/* X(constant, name, reduces, rooted) */
#define GLI_COLLECTIVE_LIST(X)                  \
  X(GLI_BARRIER, "barrier", 0, 0)               \
  X(GLI_BROADCAST, "broadcast", 0, 1)           \
  X(GLI_ALLREDUCE, "allreduce", 1, 0)           \
  X(GLI_REDUCE_SCATTER, "reduce_scatter", 1, 0) \
  X(GLI_ALLGATHER, "allgather", 0, 0)           \
  X(GLI_SENDRECV, "sendrecv", 0, 0)             \
  X(GLI_ALLTOALL, "alltoall", 0, 0)             \
  X(GLI_REDUCE, "reduce", 1, 1)                 \
  X(GLI_GATHER, "gather", 0, 1)                 \
  X(GLI_SCATTER, "scatter", 0, 1)               \
  X(GLI_SCAN, "scan", 1, 0)                     \
  X(GLI_EXSCAN, "exscan", 1, 0)                 \
  X(GLI_ALLGATHERV, "allgatherv", 0, 0)         \
  X(GLI_GATHERV, "gatherv", 0, 1)               \
  X(GLI_SCATTERV, "scatterv", 0, 1)             \
  X(GLI_ALLTOALLV, "alltoallv", 0, 0)           \
  X(GLI_REDUCE_SCATTERV, "reduce_scatterv", 1, 0)

typedef enum gli_collective {
#define GLI_COLLECTIVE_ENUM(constant, name, reduces, rooted) constant,
  GLI_COLLECTIVE_LIST(GLI_COLLECTIVE_ENUM)
#undef GLI_COLLECTIVE_ENUM
      GLI_COLLECTIVES
} gli_collective;

/* Returns the name, such as "allreduce", or "unknown" for other values. */
const char *gli_collective_name(gli_collective collective);
bool gli_collective_from_name(const char *name, gli_collective *collective);
bool gli_collective_reduces(gli_collective collective);
bool gli_collective_rooted(gli_collective collective);

/* Returns true if the caller gives a block length per rank (allgatherv ...). */
bool gli_collective_counted(gli_collective collective);

/* Returns true if only the two ranks of a message know its length (gatherv,
 * scatterv, alltoallv). In the other ones all ranks know all lengths. */
bool gli_collective_pairwise(gli_collective collective);

#endif
