/* Oversubscription: the sets of ranks that share cores, and the number of their
 * cores. */
#ifndef GLI_RENDEZVOUS_JOIN_CORES_H
#define GLI_RENDEZVOUS_JOIN_CORES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cpu.h"
#include "plan/builder.h"

/* The cores that a rank may use, as published in its record. */
typedef struct gli_cores {
  uint64_t system; /* same value where masks number the same cores */
  uint32_t usable; /* number of cores usable at once; a CPU quota lowers it */
  uint8_t mask[GLI_CPU_MASK_BYTES]; /* all zeros if unknown */
} gli_cores;

/* Gets the cores of this process. */
void gli_cores_here(gli_cores *here);
bool gli_cores_equal(const gli_cores *a, const gli_cores *b);

/* Describes the ranks that share cores with this rank, directly or
 * transitively, and their cores. */
typedef struct gli_sharing {
  uint32_t ranks, cores;
  bool oversubscribed; /* more ranks than cores, overall or on a subset */
} gli_sharing;

gli_sharing gli_cores_shared(const gli_cores *of, uint32_t size, uint32_t rank);
/* Returns the subscription of all ranks together. */
gli_subscription gli_cores_subscription(const gli_cores *of, uint32_t size);

#endif
