#include "tools/bench_meeting.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "core/cpu.h"
#include "core/error.h"
#include "tools/bench_shared.h"

/* Ranks that arrive within YIELDS_UNPOKED yields of each other, some tens of
 * microseconds, are not poked, because a poke would delay the next call. */
enum { YIELDS_PER_CLOCK = 4096, YIELDS_UNPOKED = 64 };

/* With a core for each rank, a rank first spins this often without yielding,
 * about ten microseconds: a rank that is in the kernel when the others arrive
 * leaves up to half a microsecond after them, which would count as part of the
 * call. */
enum { LOOKS_AT_FIRST = 400 };

#define PATIENCE_NS (UINT64_C(60) * 1000000000)

static const gli_meeting_manner just_yield = {.poke = NULL};
static const gli_meeting_manner *manner = &just_yield;

void gli_meeting_choose(const gli_meeting_manner *chosen) {
  manner = chosen;
}

unsigned gli_meeting_cores(void) {
  uv_cpu_info_t *cores = NULL;
  int n = 0;
  if (uv_cpu_info(&cores, &n) != 0) return 0;
  uv_free_cpu_info(cores, n);
  return (unsigned)n;
}

static bool sleeps(const gli_meeting *meeting) {
  return meeting->mapped && manner->sleep != NULL;
}

/* Ignores the process's own affinity, because some launchers bind each rank to
 * a core. */
static void set_up(gli_meeting *meeting, gloo_context *context) {
  memset(meeting, 0, sizeof *meeting);
  meeting->context = context;
  meeting->ranks = (unsigned)gloo_context_size(context);
  meeting->core_each = gli_meeting_cores() >= meeting->ranks;
}

/* ---- shared memory ------------------------------------------------------- */

static size_t area_bytes(void) {
  return sizeof(gli_meeting_area) + manner->bytes;
}

static gli_meeting_area *create_area(gli_shared_key *key) {
  gli_meeting_area *area = gli_shared_create(area_bytes(), key);
  if (area == NULL || manner->sleep == NULL) return area;
  if (manner->prepare(area + 1)) return area;
  gli_shared_close_key(key);
  gli_shared_unmap(area, area_bytes());
  memset(key, 0, sizeof *key);
  return NULL;
}

gloo_status gli_meeting_open(gli_meeting *meeting, gloo_context *context,
                             gloo_error *error) {
  set_up(meeting, context);
  if (manner->sleep != NULL && meeting->ranks > manner->max_ranks) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "more than %u ranks cannot wait asleep", manner->max_ranks);
  }
  bool first = gloo_context_rank(context) == 0;
  gloo_options options = GLOO_OPTIONS_INIT;

  gli_shared_key key = {{0}};
  gli_meeting_area *area = first ? create_area(&key) : NULL;
  gloo_status status =
      gloo_broadcast(context, GLOO_IN_PLACE, key.words, GLI_SHARED_KEY_WORDS,
                     GLOO_UINT64, 0, &options, error);
  if (status == GLOO_OK && !first) area = gli_shared_open(area_bytes(), &key);
  int32_t all = area != NULL;
  if (status == GLOO_OK) {
    status = gloo_allreduce(context, GLOO_IN_PLACE, &all, 1, GLOO_INT32,
                            GLOO_MIN, &options, error);
  }
  if (first) gli_shared_close_key(&key);
  if (status == GLOO_OK && all == 0 && first) {
    fprintf(stderr,
            "gloo bench: the ranks share no memory, so they call gloo_barrier "
            "before each call\n");
  }
  meeting->area = area;
  meeting->mapped = area != NULL;
  if (status == GLOO_OK && all == 1) return status;
  gli_meeting_close(meeting);
  return status;
}

void gli_meeting_share(gli_meeting *meeting, gloo_context *context,
                       gli_meeting_area *area) {
  set_up(meeting, context);
  meeting->area = area;
}

void gli_meeting_close(gli_meeting *meeting) {
  if (meeting->mapped) gli_shared_unmap(meeting->area, area_bytes());
  meeting->area = NULL;
  meeting->mapped = false;
}

/* ---- meeting ------------------------------------------------------------- */

void gli_meeting_break(gli_meeting *meeting) {
  if (meeting->area == NULL) return;
  atomic_store(&meeting->area->broken, 1);
  if (sleeps(meeting)) manner->wake(meeting);
}

gloo_status gli_meeting_broken(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PEER, -1,
                  "another rank gave up; see its message");
}

gloo_status gli_meeting_late(gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_TIMEOUT, -1,
      "another rank has not reached the next iteration for a minute");
}

static bool others_came(gli_meeting_area *area, unsigned round) {
  return atomic_load_explicit(&area->round, memory_order_acquire) != round;
}

static gloo_status wait_until(const gli_meeting *meeting, unsigned round,
                              gloo_error *error) {
  gli_meeting_area *area = meeting->area;
  for (int i = 0; meeting->core_each && i < LOOKS_AT_FIRST; i++) {
    if (others_came(area, round)) return GLOO_OK;
    gli_cpu_relax();
  }
  uint64_t patience_ends = uv_hrtime() + PATIENCE_NS;
  unsigned yields = 0;
  while (!others_came(area, round)) {
    if (atomic_load_explicit(&area->broken, memory_order_relaxed)) {
      return gli_meeting_broken(error);
    }
    if (++yields % YIELDS_PER_CLOCK == 0 && uv_hrtime() > patience_ends) {
      return gli_meeting_late(error);
    }
    if (yields > YIELDS_UNPOKED && manner->poke != NULL) manner->poke();
    sched_yield();
  }
  return GLOO_OK;
}

gloo_status gli_meeting_wait(gli_meeting *meeting, gloo_error *error) {
  gli_meeting_area *area = meeting->area;
  if (area == NULL) {
    gloo_options options = GLOO_OPTIONS_INIT;
    return gloo_barrier(meeting->context, &options, error);
  }
  unsigned round = atomic_load_explicit(&area->round, memory_order_acquire);
  unsigned before =
      atomic_fetch_add_explicit(&area->arrived, 1, memory_order_acq_rel);
  if (before + 1 < meeting->ranks) {
    return sleeps(meeting) ? manner->sleep(meeting, error)
                           : wait_until(meeting, round, error);
  }
  atomic_store_explicit(&area->arrived, 0, memory_order_relaxed);
  atomic_store_explicit(&area->round, round + 1, memory_order_release);
  if (sleeps(meeting)) manner->wake(meeting);
  return GLOO_OK;
}

/* ---- how near ranks are -------------------------------------------------- */

enum { FLAG_BATCHES = 8, FLAG_TRIPS = 64 };
#define HALF (UINT32_C(1) << 31) /* differences from here on are negative */
#define FLAG_PATIENCE_NS (UINT64_C(2) * 1000000)

/* Raises the own flag each time after the other has been raised; rank 0 begins.
 */
static bool raise_flags(gli_meeting *meeting, unsigned self, uint64_t ends_ns) {
  atomic_uint *own = &meeting->area->flag[self][0];
  atomic_uint *other = &meeting->area->flag[1 - self][0];
  for (int i = 0; i < FLAG_TRIPS; i++) {
    unsigned now = ++meeting->flags, looks = 0;
    if (self == 0) atomic_store_explicit(own, now, memory_order_release);
    while (atomic_load_explicit(other, memory_order_acquire) - now >= HALF) {
      gli_cpu_relax();
      if (++looks % 4096 == 0 && uv_hrtime() > ends_ns) {
        meeting->flags += (unsigned)(FLAG_TRIPS - 1 - i);
        return false;
      }
    }
    if (self == 1) atomic_store_explicit(own, now, memory_order_release);
  }
  return true;
}

double gli_meeting_flag_ns(gli_meeting *meeting) {
  if (meeting->area == NULL || meeting->ranks != 2 || !meeting->core_each)
    return 0;
  unsigned self = (unsigned)gloo_context_rank(meeting->context);
  uint64_t begin_ns = uv_hrtime(), ends_ns = begin_ns + FLAG_PATIENCE_NS;
  double least = 0;
  for (int batch = 0; batch < FLAG_BATCHES; batch++) {
    uint64_t start_ns = uv_hrtime();
    if (!raise_flags(meeting, self, ends_ns)) continue;
    double ns = (double)(uv_hrtime() - start_ns) / (2 * FLAG_TRIPS);
    if (least == 0 || ns < least) least = ns;
  }
  return least;
}
