/* Table of this process's memory that peers or devices may access, one for all
 * devices. Shared regions are made by gloo_alloc and mapped by peers of this
 * host; registered regions are the program's own memory (gloo_memory_register),
 * which only RDMA devices reach. Any thread may call these functions. */
#ifndef GLI_MEMORY_REGION_H
#define GLI_MEMORY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of region ids, from 0; regions use those from 1. An id is reused only
 * after all others. */
#define GLI_REGION_IDS (UINT32_C(1) << 19)
#define GLI_REGION_BYTES_MAX (UINT64_C(1) << 44)

typedef struct gli_region {
  uint64_t serial; /* never reused */
  uint32_t id;     /* derived from the serial; unique among current regions */
  int fd;          /* descriptor of a shared region; -1 if registered */
  uint8_t *base;   /* start; a shared region consists of whole pages */
  size_t bytes;
} gli_region;

static inline bool gli_region_is_shared(const gli_region *region) {
  return region->fd >= 0;
}

/* Adds memory made by gli_sealed_make or, with an fd of -1, the program's own.
 * Returns 0, ENOMEM, or EEXIST with the region that it overlaps. */
int gli_region_add(void *base, size_t bytes, int fd, gli_region *in_the_way);
/* Removes the shared or registered region that begins at `base`. Returns false
 * if there is none of that kind. On return no device of this process accesses
 * it (gli_region_on_remove). */
bool gli_region_remove(const void *base, bool shared, gli_region *region);

/* Sets a function that is called with each region that has been removed, while
 * its memory still exists, by the thread that removes it. RDMA sets the only
 * such function in a process, to deregister the region from devices. */
typedef void gli_region_gone_fn(const gli_region *region);
void gli_region_on_remove(gli_region_gone_fn *gone);

/* Finds the region that contains [memory, memory + bytes). Fails if any page of
 * the region has been detached. The result stays valid while the memory is in
 * use, which its owner guarantees. */
bool gli_region_find(const void *memory, size_t bytes, gli_region *region);
/* Returns true if [memory, memory + bytes) is in a region and none of its pages
 * is detached. */
bool gli_region_is_intact(const void *memory, size_t bytes);

/* Returns true if the region with this serial and base still exists. */
bool gli_region_lives(const void *base, uint64_t serial);

/* Returns a number that changes with each removal of a region. */
uint64_t gli_region_generation(void);

/* Makes the pages of [memory, memory + bytes) private to this process, at the
 * same address and with the same contents, so that no other process can write
 * to them. Called after errors, when a peer may be alive and still hold an rkey
 * for writing. The region is no longer shared. Memory outside shared regions
 * remains unchanged: the queue pair for writing to registered memory is
 * destroyed by then. Logs and returns false if out of memory. */
bool gli_region_detach(void *memory, size_t bytes);

/* Makes [memory, memory + bytes) contain the data that other processes wrote to
 * it, even if they wrote after its pages were detached: detaching a
 * neighbouring range may detach pages that are partly still exposed. Returns
 * false if the data cannot be read. */
bool gli_region_retake(void *memory, size_t bytes);

/* ---- slabs (slab.c) ------------------------------------------------------ */

/* Slabs hold small allocations, which share a region and its descriptor. */

#define GLI_SLAB_BYTES ((size_t)1 << 20)        /* size of a slab's region */
#define GLI_SLAB_TAKE_MAX (GLI_SLAB_BYTES / 16) /* largest allocation */

/* Allocates `bytes`, a multiple of the page size up to GLI_SLAB_TAKE_MAX,
 * filled with zeros. Returns NULL if no slab has room. */
void *gli_slab_take(size_t bytes);

/* Turns the region of GLI_SLAB_BYTES at `base` into a slab. Returns false if
 * out of memory. */
bool gli_slab_add(void *base);

/* Frees memory from gli_slab_take. Returns false if `memory` is not from there.
 * `empty` is set to a region that the caller must free, or NULL. */
bool gli_slab_give(void *memory, void **empty);

#endif
