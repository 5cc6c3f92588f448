/* Registered memory: regions that gloo_alloc made, once for each device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "memory/region.h"
#include "transport_ibv/ibv.h"

/* What the system refuses once is not asked for again. */
static struct ibv_mr *register_region(gli_ibv *t, const gli_region *region) {
  if (t->n_regions == t->regions_capacity) {
    size_t capacity = 2 * t->regions_capacity + 8;
    gli_ibv_region *more = realloc(t->regions, capacity * sizeof *more);
    if (more == NULL) return NULL;
    t->regions = more;
    t->regions_capacity = capacity;
  }
  gli_ibv_forget_freed(t); /* there may be no room for more */
  struct ibv_mr *mr =
      t->port.v->reg_mr(t->port.pd, region->base, region->bytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (mr == NULL)
    gli_log(GLOO_LOG_INFO,
            "%zu bytes of gloo_alloc cannot be registered with %s (%s): what "
            "is there is copied; is RLIMIT_MEMLOCK too low?",
            region->bytes, t->port.name, strerror(errno));
  t->regions[t->n_regions++] =
      (gli_ibv_region){region->serial, region->base, mr};
  return mr;
}

struct ibv_mr *gli_ibv_registered(gli_ibv *t, const void *memory,
                                  size_t bytes) {
  gli_region region;
  if (!gli_region_find(memory, bytes, &region)) return NULL;
  for (size_t i = 0; i < t->n_regions; i++)
    if (t->regions[i].serial == region.serial) return t->regions[i].mr;
  return register_region(t, &region);
}

static void region_forget(gli_ibv *t, size_t i) {
  if (t->regions[i].mr != NULL) (void)t->port.v->dereg_mr(t->regions[i].mr);
  t->regions[i] = t->regions[--t->n_regions];
}

void gli_ibv_forget_freed(gli_ibv *t) {
  uint64_t generation = gli_region_generation();
  if (generation == t->region_generation) return;
  t->region_generation = generation;
  for (size_t i = t->n_regions; i-- > 0;)
    if (!gli_region_lives(t->regions[i].base, t->regions[i].serial))
      region_forget(t, i);
}

void gli_ibv_forget_all(gli_ibv *t) {
  while (t->n_regions > 0) region_forget(t, t->n_regions - 1);
  free(t->regions);
  t->regions = NULL;
}
