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

/* The lock (ibv_jobs.h) protects the list, and the regions of all its members,
 * because any thread may remove a region. Only the transport's own user adds to
 * its regions. */
static atomic_bool once;
static gli_ibv *registering; /* transports */
static gli_birth birth;      /* creator of the list */

/* ---- removal of a region ------------------------------------------------- */

static void region_deregister(const gli_ibv *t, const gli_ibv_region *region) {
  if (region->mr != NULL) (void)t->port.v->dereg_mr(region->mr);
  for (uint32_t i = 0; i < t->rails.n; i++)
    if (region->of_rail[i] != NULL)
      (void)t->port.v->dereg_mr(region->of_rail[i]);
}

static void region_let_go(gli_ibv *t, size_t i) {
  region_deregister(t, &t->regions[i]);
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
  gli_ibv_lock();
  if (!gli_forked(&birth)) {
    for (gli_ibv *t = registering; t != NULL; t = t->next_registering) {
      size_t i = region_index_of(t, region->serial);
      if (i < t->n_regions) region_let_go(t, i);
    }
  }
  gli_ibv_unlock();
}

/* ---- transports ---------------------------------------------------------- */

static void regions_init(void) {
  birth = gli_birth_here();
  gli_region_on_remove(region_gone);
}

void gli_ibv_regions_begin(gli_ibv *t) {
  gli_once(&once, regions_init);
  gli_ibv_lock();
  if (gli_forked(&birth)) { /* entries of the parent */
    registering = NULL;
    birth = gli_birth_here();
  }
  t->next_registering = registering;
  registering = t;
  gli_ibv_unlock();
}

void gli_ibv_regions_end(gli_ibv *t) {
  gli_ibv_lock();
  gli_ibv **link = &registering;
  while (*link != NULL && *link != t) link = &(*link)->next_registering;
  if (*link != NULL) *link = t->next_registering;
  while (t->n_regions > 0) region_let_go(t, t->n_regions - 1);
  gli_ibv_unlock();
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

/* Shorter regions take some milliseconds at most, and are registered at once. */
#define THREAD_MIN_BYTES ((size_t)16 << 20)

typedef struct gli_ibv_registration {
  gli_ibv_job job; /* first */
  gli_region region;
  struct ibv_mr *mr; /* the result; NULL if refused, or not wanted any more */
} gli_ibv_registration;

/* Registers a region with a port, for reads and `more`. Returns NULL with the
 * cause in `job`. */
static struct ibv_mr *region_register(gli_ibv_job *job,
                                      const gli_region *region,
                                      const gli_ibv_port *port, int more) {
  struct ibv_mr *mr =
      port->v->reg_mr(port->pd, region->base, region->bytes,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | more);
  if (mr == NULL) {
    job->code = errno;
    job->lacks = port->name;
  }
  return mr;
}

/* The region may be removed meanwhile. No peer has the key before the lock is
 * taken. */
static void registration_run(gli_ibv_job *job) {
  gli_ibv *t = job->owner;
  const gli_region *region = &((gli_ibv_registration *)job)->region;
  gli_ibv_region got = {.serial = region->serial};
  got.mr = region_register(job, region, &t->port, IBV_ACCESS_REMOTE_WRITE);
  for (uint32_t i = 0; i < t->rails.n && got.mr != NULL; i++)
    if (t->rails.rail[i].home == i)
      got.of_rail[i] = region_register(job, region, &t->rails.port[i], 0);
  gli_ibv_lock();
  size_t i = region_index_of(t, region->serial);
  bool wanted = i < t->n_regions;
  if (wanted) t->regions[i] = got;
  gli_ibv_unlock();
  if (wanted) ((gli_ibv_registration *)job)->mr = got.mr;
  if (!wanted) region_deregister(t, &got);
}

/* A refusal by the system is final, but a job that has not run may begin
 * again. */
static void registration_end(gli_ibv_job *job) {
  gli_ibv *t = job->owner;
  const gli_region *region = &((gli_ibv_registration *)job)->region;
  bool copies = ((gli_ibv_registration *)job)->mr == NULL;
  gli_ibv_lock();
  size_t i = region_index_of(t, region->serial);
  if (i < t->n_regions && t->regions[i].pending) region_let_go(t, i);
  gli_ibv_unlock();
  if (job->code != 0)
    gli_log(
        GLOO_LOG_INFO,
        "cannot register %zu bytes of %s with %s (%s), so %s; is "
        "RLIMIT_MEMLOCK too low, or the memory not writable?",
        region->bytes,
        gli_region_is_shared(region) ? "gloo_alloc" : "gloo_memory_register",
        copies ? t->port.name : job->lacks, strerror(job->code),
        copies ? "their contents are copied" : "they travel over one port");
  free(job);
}

void gli_ibv_regions_abandon(gli_ibv *t) {
  for (gli_ibv_job *job = t->jobs.first, *next; job != NULL; job = next) {
    next = job->next;
    if (job->end == registration_end) free(job);
  }
  free(t->regions);
}

/* Adds the region to the list, and makes the job that registers it. The caller
 * holds the lock. Returns NULL if out of memory. */
static gli_ibv_registration *registration_new(gli_ibv *t,
                                              const gli_region *region) {
  gli_ibv_registration *one = NULL;
  if (regions_make_room(t)) one = malloc(sizeof *one);
  if (one == NULL) return NULL;
  *one = (gli_ibv_registration){
      .job = {.run = registration_run, .end = registration_end, .owner = t},
      .region = *region};
  t->regions[t->n_regions++] =
      (gli_ibv_region){.serial = region->serial, .pending = true};
  return one;
}

struct ibv_mr *gli_ibv_registered(gli_ibv *t, const void *memory,
                                  size_t bytes) {
  gli_region region;
  gli_ibv_registration *begins = NULL;
  if (!gli_region_find(memory, bytes, &region)) return NULL;
  gli_ibv_lock();
  size_t i = region_index_of(t, region.serial);
  bool known = i < t->n_regions;
  struct ibv_mr *mr = known ? t->regions[i].mr : NULL;
  if (!known) begins = registration_new(t, &region);
  gli_ibv_unlock();
  if (begins == NULL) return mr;
  if (region.bytes >= THREAD_MIN_BYTES) {
    gli_ibv_job_begin(t, &begins->job);
    return NULL;
  }
  registration_run(&begins->job);
  mr = begins->mr;
  registration_end(&begins->job);
  return mr;
}

bool gli_ibv_registered_rails(gli_ibv *t, const void *memory, size_t bytes,
                              struct ibv_mr *mr[GLI_IBV_RAILS_MAX + 1]) {
  gli_region region;
  mr[GLI_IBV_HOME_FIRST] = gli_ibv_registered(t, memory, bytes);
  if (mr[GLI_IBV_HOME_FIRST] == NULL ||
      !gli_region_find(memory, bytes, &region))
    return false;
  gli_ibv_lock();
  size_t i = region_index_of(t, region.serial);
  bool known = i < t->n_regions;
  if (known) memcpy(mr, t->regions[i].of_rail, sizeof t->regions[i].of_rail);
  gli_ibv_unlock();
  return known;
}

bool gli_ibv_registration_pending(gli_ibv *t, const void *memory,
                                  size_t bytes) {
  gli_region region;
  if (!gli_region_find(memory, bytes, &region)) return false;
  gli_ibv_lock();
  size_t i = region_index_of(t, region.serial);
  bool pending = i < t->n_regions && t->regions[i].pending;
  gli_ibv_unlock();
  return pending;
}
