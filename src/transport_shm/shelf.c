#include "transport_shm/shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/sealed.h"

/* How many regions have a smaller number. */
static size_t rank_of(const gli_shm_shelf *shelf, uint32_t id) {
  size_t low = 0, high = shelf->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (shelf->regions[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static gli_shm_region *find(const gli_shm_shelf *shelf, uint32_t id) {
  size_t rank = rank_of(shelf, id);
  if (rank == shelf->n || shelf->regions[rank].id != id) return NULL;
  return &shelf->regions[rank];
}

const gli_shm_region *gli_shm_shelf_find(const gli_shm_shelf *shelf,
                                         uint32_t id) {
  return find(shelf, id);
}

/* ---- adding -------------------------------------------------------------- */

/* Room for one more region, and for the addresses of all of them. */
static bool make_room(gli_shm_shelf *shelf) {
  if (shelf->n == shelf->capacity) {
    size_t capacity = shelf->capacity * 2 + 8;
    gli_shm_region *more =
        realloc(shelf->regions, capacity * sizeof(gli_shm_region));
    if (more == NULL) return false;
    shelf->regions = more;
    shelf->capacity = capacity;
  }
  if (shelf->n + shelf->n_spaces >= shelf->space_capacity) {
    size_t capacity = shelf->space_capacity * 2 + 8;
    gli_shm_space *more =
        realloc(shelf->spaces, capacity * sizeof(gli_shm_space));
    if (more == NULL) return false;
    shelf->spaces = more;
    shelf->space_capacity = capacity;
  }
  return true;
}

/* The smallest that is large enough; n_spaces: none. */
static size_t best_space(const gli_shm_shelf *shelf, size_t bytes) {
  size_t best = shelf->n_spaces;
  for (size_t i = 0; i < shelf->n_spaces; i++) {
    if (shelf->spaces[i].room < bytes) continue;
    if (best == shelf->n_spaces ||
        shelf->spaces[i].room < shelf->spaces[best].room)
      best = i;
  }
  return best;
}

static bool map_again(gli_shm_shelf *shelf, gli_shm_region *region) {
  size_t i = best_space(shelf, region->bytes);
  if (i == shelf->n_spaces) return false;
  gli_shm_space space = shelf->spaces[i];
  if (gli_sealed_map_over(region->fd, region->bytes, space.at) != 0)
    return false;
  shelf->spaces[i] = shelf->spaces[--shelf->n_spaces];
  region->at = space.at;
  region->room = space.room;
  return true;
}

static bool map_anew(gli_shm_shelf *shelf, gli_shm_region *region) {
  if (shelf->n + shelf->n_spaces >= 2 * GLI_SHM_REGIONS_MAX) return false;
  if (region->bytes > GLI_SHM_ROOM_MAX - shelf->room) return false;
  void *at;
  if (gli_sealed_map(region->fd, region->bytes, &at) != 0) return false;
  region->at = at;
  region->room = region->bytes;
  shelf->room += region->room;
  return true;
}

int gli_shm_shelf_add(gli_shm_shelf *shelf, uint32_t id, size_t bytes, int fd) {
  gli_shm_region region = {.id = id, .fd = fd, .bytes = bytes};
  int code = shelf->n >= GLI_SHM_REGIONS_MAX ? ENOSPC : 0;
  if (code == 0 && !make_room(shelf)) code = ENOMEM;
  if (code != 0) {
    gli_sealed_close(fd);
    return code;
  }
  if (fd >= 0 && (map_again(shelf, &region) || map_anew(shelf, &region))) {
    gli_sealed_close(fd);
    region.fd = -1;
  }
  size_t at = rank_of(shelf, id);
  memmove(shelf->regions + at + 1, shelf->regions + at,
          (shelf->n - at) * sizeof region);
  shelf->regions[at] = region;
  shelf->n++;
  return 0;
}

/* ---- removing ------------------------------------------------------------ */

void gli_shm_shelf_forget(gli_shm_shelf *shelf, uint32_t id) {
  gli_shm_region *region = find(shelf, id);
  if (region == NULL) return;
  gli_sealed_close(region->fd);
  if (region->at != NULL) {
    /* If this fails the memory stays until the pair is closed. */
    (void)gli_sealed_blank(region->at, region->bytes);
    shelf->spaces[shelf->n_spaces++] =
        (gli_shm_space){region->at, region->room};
  }
  size_t after = (size_t)(shelf->regions + shelf->n - (region + 1));
  memmove(region, region + 1, after * sizeof *region);
  shelf->n--;
}

void gli_shm_shelf_empty(gli_shm_shelf *shelf) {
  while (shelf->n > 0) {
    gli_shm_region *region = &shelf->regions[--shelf->n];
    gli_sealed_close(region->fd);
    gli_sealed_unmap(region->at, region->room);
  }
  while (shelf->n_spaces > 0) {
    gli_shm_space *space = &shelf->spaces[--shelf->n_spaces];
    gli_sealed_unmap(space->at, space->room);
  }
  free(shelf->regions);
  free(shelf->spaces);
  *shelf = (gli_shm_shelf){.n = 0};
}
