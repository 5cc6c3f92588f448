#include "transport_shm/map_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/sealed.h"

/* Returns the number of regions with a smaller id. */
static size_t shm_map_cache_rank_of(const gli_shm_map_cache *map_cache,
                                    uint32_t id) {
  size_t low = 0, high = map_cache->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (map_cache->regions[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static gli_shm_region *shm_map_cache_find(const gli_shm_map_cache *map_cache,
                                          uint32_t id) {
  size_t rank = shm_map_cache_rank_of(map_cache, id);
  if (rank == map_cache->n || map_cache->regions[rank].id != id) return NULL;
  return &map_cache->regions[rank];
}

const gli_shm_region *gli_shm_map_cache_find(const gli_shm_map_cache *map_cache,
                                             uint32_t id) {
  return shm_map_cache_find(map_cache, id);
}

/* ---- adding -------------------------------------------------------------- */

/* Reserves space for one more region, and for all regions' addresses. */
static bool shm_map_cache_make_room(gli_shm_map_cache *map_cache) {
  if (map_cache->n == map_cache->capacity) {
    size_t capacity = map_cache->capacity * 2 + 8;
    gli_shm_region *more =
        realloc(map_cache->regions, capacity * sizeof(gli_shm_region));
    if (more == NULL) return false;
    map_cache->regions = more;
    map_cache->capacity = capacity;
  }
  if (map_cache->n + map_cache->n_spaces >= map_cache->space_capacity) {
    size_t capacity = map_cache->space_capacity * 2 + 8;
    gli_shm_space *more =
        realloc(map_cache->spaces, capacity * sizeof(gli_shm_space));
    if (more == NULL) return false;
    map_cache->spaces = more;
    map_cache->space_capacity = capacity;
  }
  return true;
}

/* Returns the smallest space that is large enough, or n_spaces if none is. */
static size_t best_space(const gli_shm_map_cache *map_cache, size_t bytes) {
  size_t best = map_cache->n_spaces;
  for (size_t i = 0; i < map_cache->n_spaces; i++) {
    if (map_cache->spaces[i].room < bytes) continue;
    if (best == map_cache->n_spaces ||
        map_cache->spaces[i].room < map_cache->spaces[best].room)
      best = i;
  }
  return best;
}

static bool map_again(gli_shm_map_cache *map_cache, gli_shm_region *region) {
  size_t i = best_space(map_cache, region->bytes);
  if (i == map_cache->n_spaces) return false;
  gli_shm_space space = map_cache->spaces[i];
  if (gli_sealed_map_over(region->fd, region->bytes, space.at) != 0)
    return false;
  map_cache->spaces[i] = map_cache->spaces[--map_cache->n_spaces];
  region->at = space.at;
  region->room = space.room;
  return true;
}

static bool map_anew(gli_shm_map_cache *map_cache, gli_shm_region *region) {
  if (map_cache->n + map_cache->n_spaces >= 2 * GLI_SHM_REGIONS_MAX)
    return false;
  if (region->bytes > GLI_SHM_ROOM_MAX - map_cache->room) return false;
  void *at;
  if (gli_sealed_map(region->fd, region->bytes, &at) != 0) return false;
  region->at = at;
  region->room = region->bytes;
  map_cache->room += region->room;
  return true;
}

int gli_shm_map_cache_add(gli_shm_map_cache *map_cache, uint32_t id,
                          size_t bytes, int fd) {
  gli_shm_region region = {.id = id, .fd = fd, .bytes = bytes};
  int code = map_cache->n >= GLI_SHM_REGIONS_MAX ? ENOSPC : 0;
  if (code == 0 && !shm_map_cache_make_room(map_cache)) code = ENOMEM;
  if (code != 0) {
    gli_sealed_close(fd);
    return code;
  }
  if (fd >= 0 &&
      (map_again(map_cache, &region) || map_anew(map_cache, &region))) {
    gli_sealed_close(fd);
    region.fd = -1;
  }
  size_t at = shm_map_cache_rank_of(map_cache, id);
  memmove(map_cache->regions + at + 1, map_cache->regions + at,
          (map_cache->n - at) * sizeof region);
  map_cache->regions[at] = region;
  map_cache->n++;
  return 0;
}

/* ---- removing ------------------------------------------------------------ */

void gli_shm_map_cache_forget(gli_shm_map_cache *map_cache, uint32_t id) {
  gli_shm_region *region = shm_map_cache_find(map_cache, id);
  if (region == NULL) return;
  gli_sealed_close(region->fd);
  if (region->at != NULL) {
    /* If this fails the memory stays until the pair is closed. */
    (void)gli_sealed_blank(region->at, region->bytes);
    map_cache->spaces[map_cache->n_spaces++] =
        (gli_shm_space){region->at, region->room};
  }
  size_t after = (size_t)(map_cache->regions + map_cache->n - (region + 1));
  memmove(region, region + 1, after * sizeof *region);
  map_cache->n--;
}

void gli_shm_map_cache_empty(gli_shm_map_cache *map_cache) {
  while (map_cache->n > 0) {
    gli_shm_region *region = &map_cache->regions[--map_cache->n];
    gli_sealed_close(region->fd);
    gli_sealed_unmap(region->at, region->room);
  }
  while (map_cache->n_spaces > 0) {
    gli_shm_space *space = &map_cache->spaces[--map_cache->n_spaces];
    gli_sealed_unmap(space->at, space->room);
  }
  free(map_cache->regions);
  free(map_cache->spaces);
  *map_cache = (gli_shm_map_cache){.n = 0};
}
