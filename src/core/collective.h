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
  X(GLI_SENDRECV, "sendrecv", 0, 0)

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

#endif
