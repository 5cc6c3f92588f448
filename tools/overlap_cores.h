/* Two halves of this process's cores: one for what computes, one for what
 * communicates. */
#ifndef GLI_TOOLS_OVERLAP_CORES_H
#define GLI_TOOLS_OVERLAP_CORES_H

#include <stdbool.h>

typedef enum gli_half { GLI_HALF_COMPUTES, GLI_HALF_COMMUNICATES } gli_half;

/* Find them. The first is the larger one where the number is odd. false: there
 * are fewer than two cores, or threads cannot be kept on some here. */
bool gli_halves_find(void);

/* Keep this thread, and those that it starts from now on, on a half. */
bool gli_halves_keep_to(gli_half half);

#endif
