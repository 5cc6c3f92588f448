/* Memory of this process that devices may access: one table for all devices.
 * Regions are shared ones, which gloo_alloc made and peers of this host map,
 * and registered ones, the program's own memory (gloo_memory_register), which
 * only RDMA devices reach. Any thread may call anything here. */
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
  int fd;          /* of a shared one; -1: it is registered */
  uint8_t *base;   /* of a shared one: whole pages */
  size_t bytes;
} gli_region;

static inline bool gli_region_is_shared(const gli_region *region) {
  return region->fd >= 0;
}

/* Enter memory made by gli_sealed_make, or with an fd of -1 the program's own.
 * 0, ENOMEM, or EEXIST with the region that holds some of it already. */
int gli_region_add(void *base, size_t bytes, int fd, gli_region *in_the_way);
/* Take out the region that begins at `base`: a shared one, or a registered one.
 * False: there is none of that kind. When this returns, no device of this
 * process reads or writes it (gli_region_on_remove). */
bool gli_region_remove(const void *base, bool shared, gli_region *region);

/* From now on `gone` is called with each region that has been taken out, while
 * its memory is still there, by the thread that removes it. There is one such
 * function in a process, for RDMA: it has devices let go of the region. */
typedef void gli_region_gone_fn(const gli_region *region);
void gli_region_on_remove(gli_region_gone_fn *gone);

/* The region that holds all of [memory, memory + bytes), unless any of it has
 * been detached. It stays valid while the memory is in use, which is its
 * owner's promise. */
bool gli_region_find(const void *memory, size_t bytes, gli_region *region);
/* Is [memory, memory + bytes) in a region, and is none of its pages detached?
 */
bool gli_region_is_intact(const void *memory, size_t bytes);

/* Is the region with this serial, which began at `base`, still there? */
bool gli_region_lives(const void *base, uint64_t serial);

/* Another number after each region that was taken out. */
uint64_t gli_region_generation(void);

/* From now on no other process can write to [memory, memory + bytes): its pages
 * become private to this one, at the same address and with what they hold. For
 * errors: a peer may be alive and still have an rkey to write through. The
 * region is not shared any more. Memory of no shared region is left alone:
 * where it is registered, the queue pair that a peer wrote through is gone by
 * then. False, with a line in the log, when there is no memory for it. */
bool gli_region_detach(void *memory, size_t bytes);

/* See to it that this process finds in [memory, memory + bytes) what another
 * one has written there, also when it did so after the pages were detached: for
 * the sake of a range beside it, for this one was still exposed. False when
 * that cannot be read. */
bool gli_region_retake(void *memory, size_t bytes);

/* ---- slabs (slab.c) ------------------------------------------------------ */

/* Small allocations that share a region of memory, and with it one descriptor.
 */

#define GLI_SLAB_BYTES ((size_t)1 << 20)        /* of a region */
#define GLI_SLAB_TAKE_MAX (GLI_SLAB_BYTES / 16) /* of an allocation */

/* `bytes` of whole pages, at most GLI_SLAB_TAKE_MAX, filled with zeros. NULL:
 * there is no room in any slab. */
void *gli_slab_take(size_t bytes);

/* Makes a slab of a region of GLI_SLAB_BYTES that begins at `base`. Returns
 * false if out of memory. */
bool gli_slab_add(void *base);

/* Give back what gli_slab_take gave; false: it was not from there. `empty` is a
 * region that is no slab any more, to be freed, or NULL. */
bool gli_slab_give(void *memory, void **empty);

#endif
