/* A peer's memory, as far as it has been mapped here. Linux only.
 *
 * Addresses that have been handed out stay good until the cache is emptied: a
 * region that its owner frees is replaced by memory that no other process has,
 * and the addresses serve for a later region of the same peer. So a peer that
 * frees too early spoils its own operation, and crashes no process. */
#ifndef GLI_TRANSPORT_SHM_MAP_CACHE_H
#define GLI_TRANSPORT_SHM_MAP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GLI_SHM_REGIONS_MAX = 1024 }; /* of one peer at a time */

/* The limit on mapped addresses for one peer. Beyond it memory is read instead
 * of mapped. */
#define GLI_SHM_ROOM_MAX \
  (SIZE_MAX > UINT32_MAX ? UINT64_C(1) << 40 : UINT64_C(1) << 28)

typedef struct gli_shm_region {
  uint32_t id;
  int fd;      /* when it could not be mapped: to read from; else -1 */
  uint8_t *at; /* NULL: not mapped */
  size_t bytes;
  size_t room; /* how many addresses there are at `at` */
} gli_shm_region;

typedef struct gli_shm_space {
  uint8_t *at;
  size_t room;
} gli_shm_space;

typedef struct gli_shm_map_cache {
  gli_shm_region *regions; /* by id */
  size_t n, capacity;
  gli_shm_space *spaces; /* addresses of freed regions */
  size_t n_spaces, space_capacity;
  uint64_t room; /* all addresses, including those */
} gli_shm_map_cache;

/* NULL: not there. */
const gli_shm_region *gli_shm_map_cache_find(const gli_shm_map_cache *map_cache,
                                             uint32_t id);

/* Put memory that gli_sealed_check approved of there, under a number that is
 * not. Takes the descriptor; -1: it got lost, so that nothing can be read. What
 * cannot be mapped is kept to be read. 0, ENOSPC (too many regions) or ENOMEM.
 */
int gli_shm_map_cache_add(gli_shm_map_cache *map_cache, uint32_t id,
                          size_t bytes, int fd);

void gli_shm_map_cache_forget(gli_shm_map_cache *map_cache, uint32_t id);
void gli_shm_map_cache_empty(gli_shm_map_cache *map_cache);

#endif
