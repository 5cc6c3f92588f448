/* Registered memory: the regions of memory/region.h, each registered once with
 * each device that has had a long message in it. When a region is removed from
 * that table, it is deregistered from all devices before its owner gets it
 * back. The pages of malloc remain with the program, and a peer that still has
 * their key could otherwise write to them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/fork.h"
#include "core/log.h"
#include "memory/region.h"
#include "transport_ibv/ibv.h"

static uv_once_t once = UV_ONCE_INIT;
static bool usable;
/* Protects the list, and the regions of all its members, because any thread may
 * remove a region. Only the transport's own user adds to its regions. */
static uv_mutex_t lock;
static gli_ibv *registering; /* transports */
static gli_birth birth;      /* creator of the list */

/* ---- removal of a region ------------------------------------------------- */

static void region_let_go(gli_ibv *t, size_t i) {
  if (t->regions[i].mr != NULL) (void)t->port.v->dereg_mr(t->regions[i].mr);
  t->regions[i] = t->regions[--t->n_regions];
}

/* Returns the index of the region, or n_regions if it is unknown. */
static size_t region_index_of(const gli_ibv *t, uint64_t serial) {
  size_t i = 0;
  while (i < t->n_regions && t->regions[i].serial != serial) i++;
  return i;
}

/* Deregisters a region; in a forked child, the memory is not registered. */
static void region_gone(const gli_region *region) {
  uv_mutex_lock(&lock);
  if (!gli_forked(&birth)) {
    for (gli_ibv *t = registering; t != NULL; t = t->next_registering) {
      size_t i = region_index_of(t, region->serial);
      if (i < t->n_regions) region_let_go(t, i);
    }
  }
  uv_mutex_unlock(&lock);
}

/* ---- transports ---------------------------------------------------------- */

static void regions_init(void) {
  static gli_fork_guard guard;
  if (uv_mutex_init(&lock) != 0) return;
  birth = gli_birth_here();
  usable = gli_fork_guard_begin(&guard, GLI_FORK_MEMORY, &lock, NULL);
  if (usable) gli_region_on_remove(region_gone);
}

gloo_status gli_ibv_regions_begin(gli_ibv *t, gloo_error *error) {
  uv_once(&once, regions_init);
  if (!usable)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the RDMA transport");
  uv_mutex_lock(&lock);
  if (gli_forked(&birth)) { /* entries of the parent */
    registering = NULL;
    birth = gli_birth_here();
  }
  t->next_registering = registering;
  registering = t;
  uv_mutex_unlock(&lock);
  return GLOO_OK;
}

void gli_ibv_regions_end(gli_ibv *t) {
  uv_once(&once, regions_init);
  if (!usable) return;
  uv_mutex_lock(&lock);
  gli_ibv **link = &registering;
  while (*link != NULL && *link != t) link = &(*link)->next_registering;
  if (*link != NULL) *link = t->next_registering;
  while (t->n_regions > 0) region_let_go(t, t->n_regions - 1);
  uv_mutex_unlock(&lock);
  free(t->regions);
}

/* ---- registering --------------------------------------------------------- */

static bool regions_make_room(gli_ibv *t) {
  if (t->n_regions < t->regions_capacity) return true;
  size_t capacity = 2 * t->regions_capacity + 8;
  gli_ibv_region *more = realloc(t->regions, capacity * sizeof *more);
  if (more == NULL) return false;
  t->regions = more;
  t->regions_capacity = capacity;
  return true;
}

/* Registers a region. A refusal by the system is final. The list stays unlocked
 * meanwhile, because registering locks pages and may take long. */
static struct ibv_mr *region_register(gli_ibv *t, const gli_region *region) {
  struct ibv_mr *mr =
      t->port.v->reg_mr(t->port.pd, region->base, region->bytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ);
  if (mr == NULL)
    gli_log(
        GLOO_LOG_INFO,
        "cannot register %zu bytes of %s with %s (%s), so their contents are "
        "copied; is RLIMIT_MEMLOCK too low, or the memory not writable?",
        region->bytes,
        gli_region_is_shared(region) ? "gloo_alloc" : "gloo_memory_register",
        t->port.name, strerror(errno));
  uv_mutex_lock(&lock);
  t->regions[t->n_regions++] = (gli_ibv_region){region->serial, mr};
  uv_mutex_unlock(&lock);
  return mr;
}

struct ibv_mr *gli_ibv_registered(gli_ibv *t, const void *memory,
                                  size_t bytes) {
  gli_region region;
  if (!gli_region_find(memory, bytes, &region)) return NULL;
  uv_mutex_lock(&lock);
  size_t i = region_index_of(t, region.serial);
  bool known = i < t->n_regions, room = known || regions_make_room(t);
  struct ibv_mr *mr = known ? t->regions[i].mr : NULL;
  uv_mutex_unlock(&lock);
  return known || !room ? mr : region_register(t, &region);
}
