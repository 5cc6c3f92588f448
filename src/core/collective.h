/* The collectives by number and name; numbers travel in message headers. */
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

/* "allreduce"; "unknown" for a value that is not in the list. */
const char *gli_collective_name(gli_collective collective);
bool gli_collective_from_name(const char *name, gli_collective *collective);
bool gli_collective_reduces(gli_collective collective);
bool gli_collective_rooted(gli_collective collective);

/* Blocks of given lengths, one for each rank (allgatherv and the like). */
bool gli_collective_counted(gli_collective collective);

/* Of those, the ones where the length of a message is known to its two ranks
 * alone (gatherv, scatterv, alltoallv); in the others all ranks know all. */
bool gli_collective_pairwise(gli_collective collective);

#endif
