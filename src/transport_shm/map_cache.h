/* Cache of mapped regions of one peer.
 *
 * Addresses that have been handed out stay valid until the cache is emptied.
 * When the owner frees a region, anonymous memory of this process replaces it,
 * and the addresses are reused for a later region of the same peer. A peer that
 * frees a region too early spoils its own operation, but crashes no process. */
#ifndef GLI_TRANSPORT_SHM_MAP_CACHE_H
#define GLI_TRANSPORT_SHM_MAP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLI_SHM_REGIONS_MAX = 1024 }; /* limit for one peer */

/* Limit on the mapped address space per peer. Beyond it, regions are read
 * instead of mapped. */
#define GLI_SHM_ROOM_MAX \
  (SIZE_MAX > UINT32_MAX ? UINT64_C(1) << 40 : UINT64_C(1) << 28)

typedef struct gli_shm_region {
  uint32_t id;
  int fd;      /* descriptor for reads if the region is not mapped, else -1 */
  uint8_t *at; /* NULL if not mapped */
  size_t bytes;
  size_t room; /* size of the address range at `at` */
} gli_shm_region;

typedef struct gli_shm_space {
  uint8_t *at;
  size_t room;
} gli_shm_space;

typedef struct gli_shm_map_cache {
  gli_shm_region *regions; /* by id */
  size_t n, capacity;
  gli_shm_space *spaces; /* address ranges of freed regions */
  size_t n_spaces, space_capacity;
  uint64_t room; /* total size of all address ranges, including `spaces` */
} gli_shm_map_cache;

/* Returns NULL if the region is unknown. */
const gli_shm_region *gli_shm_map_cache_find(const gli_shm_map_cache *map_cache,
                                             uint32_t id);

/* Adds memory that passed gli_sealed_check, under an id that is not in the
 * cache. Takes ownership of the descriptor; -1 means that it was lost, so that
 * the region cannot be read. A region that cannot be mapped keeps its
 * descriptor for reads. Returns 0, ENOSPC (too many regions) or ENOMEM. */
int gli_shm_map_cache_add(gli_shm_map_cache *map_cache, uint32_t id,
                          size_t bytes, int fd);

void gli_shm_map_cache_forget(gli_shm_map_cache *map_cache, uint32_t id);
void gli_shm_map_cache_empty(gli_shm_map_cache *map_cache);

#endif
