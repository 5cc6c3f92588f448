/* The memory of this process that peers may be given: one table for all
 * devices, filled by gloo_alloc. Any thread may call anything here. */
#ifndef GLI_MEMORY_REGION_H
#define GLI_MEMORY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Regions are numbered from 1 in this many numbers; a number comes back only
 * after all others. */
#define GLI_REGION_IDS (UINT32_C(1) << 19)
#define GLI_REGION_BYTES_MAX (UINT64_C(1) << 44)

typedef struct gli_region {
  uint64_t serial; /* never used again */
  uint32_t id;     /* of the serial; of one region at a time */
  int fd;          /* the region's */
  uint8_t *base;   /* whole pages */
  size_t bytes;
} gli_region;

/* Enter memory made by gli_sealed_make. 0, or ENOMEM. */
int gli_region_add(void *base, size_t bytes, int fd);
/* Take out the region that begins at `base`. False: there is none. */
bool gli_region_remove(const void *base, gli_region *region);

/* The region that holds all of [memory, memory + bytes), unless any of it has
 * been detached. It stays valid while the memory is in use, which is its
 * owner's promise. */
bool gli_region_find(const void *memory, size_t bytes, gli_region *region);

/* Has the region with this serial, which began at `base`, not been freed? */
bool gli_region_lives(const void *base, uint64_t serial);

/* Another number after each gloo_free of a region. */
uint64_t gli_region_generation(void);

/* From now on no other process can write to [memory, memory + bytes): its pages
 * become private to this one, at the same address and with what they hold. For
 * errors: a peer may be alive and still have an rkey to write through. The
 * region is not shared any more. Memory of no region is left alone. False, with
 * a line in the log, when there is no memory for it. */
bool gli_region_detach(void *memory, size_t bytes);

/* See to it that this process finds in [memory, memory + bytes) what another
 * one has written there, also when it did so after the pages were detached: for
 * the sake of a range beside it, for this one was still exposed. False when
 * that cannot be read. */
bool gli_region_retake(void *memory, size_t bytes);

#endif
