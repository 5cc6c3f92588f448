/* Two halves of this process's cores: one for computation, one for
 * communication. */
#ifndef GLI_TOOLS_OVERLAP_CORES_H
#define GLI_TOOLS_OVERLAP_CORES_H

#include <stdbool.h>

typedef enum gli_half { GLI_HALF_COMPUTES, GLI_HALF_COMMUNICATES } gli_half;

/* Finds the halves; the first is the larger if the number is odd. Returns false
 * with fewer than two cores, or if threads cannot be bound here. */
bool gli_halves_find(void);

/* Binds this thread, and threads that it starts later, to a half. */
bool gli_halves_keep_to(gli_half half);

#endif
