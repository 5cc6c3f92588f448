/* tools/bench_meeting.h for ranks of any library: see peer.h for why they do
 * not all wait in the same way. */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "bench/peers/peer.h"
#include "core/error.h"
#include "tools/bench_meeting.h"
#include "tools/bench_shared.h"

/* Ranks that come within YIELDS_UNPOKED yields of each other, some tens of
 * microseconds, are left alone: a poke would delay the call after it. */
enum { MAX_RANKS = 256, YIELDS_UNPOKED = 64 };
enum { PATIENCE_S = 60 };

typedef struct peer_area {
  gli_meeting_area common; /* first: a meeting points to it */
  sem_t places[MAX_RANKS];
} peer_area;

static bool sleeps = false;

static void choose_how_to_wait(void) {
  const char *chosen = getenv("PEER_MEETING");
  sleeps = gli_peer_sleeps;
  if (chosen != NULL && strcmp(chosen, "sleep") == 0) sleeps = true;
  if (chosen != NULL && strcmp(chosen, "yield") == 0) sleeps = false;
}

static peer_area *area_of(const gli_meeting *meeting) {
  return (peer_area *)(void *)meeting->area;
}

/* ---- shared memory ------------------------------------------------------ */

static peer_area *create_area(gli_shared_key *key) {
  peer_area *area = gli_shared_create(sizeof *area, key);
  for (int i = 0; area != NULL && i < MAX_RANKS; i++) {
    if (sem_init(&area->places[i], 1, 0) == 0) continue;
    gli_shared_close_key(key);
    gli_shared_unmap(area, sizeof *area);
    memset(key, 0, sizeof *key);
    return NULL;
  }
  return area;
}

gloo_status gli_meeting_open(gli_meeting *meeting, gloo_context *context,
                             gloo_error *error) {
  memset(meeting, 0, sizeof *meeting);
  meeting->context = context;
  meeting->ranks = (unsigned)gloo_context_size(context);
  if (meeting->ranks > MAX_RANKS) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "more than %d ranks",
                    MAX_RANKS);
  }
  choose_how_to_wait();
  bool first = gloo_context_rank(context) == 0;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.error = error;

  gli_shared_key key = {{0}};
  peer_area *area = first ? create_area(&key) : NULL;
  gloo_status status =
      gloo_broadcast(context, GLOO_IN_PLACE, key.words, GLI_SHARED_KEY_WORDS,
                     GLOO_UINT64, 0, &options);
  if (status == GLOO_OK && !first) area = gli_shared_open(sizeof *area, &key);
  int32_t all = area != NULL;
  if (status == GLOO_OK) {
    status = gloo_allreduce(context, GLOO_IN_PLACE, &all, 1, GLOO_INT32,
                            GLOO_MIN, &options);
  }
  if (first) gli_shared_close_key(&key);
  meeting->area = area != NULL ? &area->common : NULL;
  meeting->mapped = area != NULL;
  if (status == GLOO_OK && all == 1) return status;
  gli_meeting_close(meeting);
  if (status != GLOO_OK) return status;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "the ranks cannot share memory to meet in");
}

void gli_meeting_share(gli_meeting *meeting, gloo_context *context,
                       gli_meeting_area *area) {
  (void)context, (void)area;
  memset(meeting, 0, sizeof *meeting);
}

void gli_meeting_close(gli_meeting *meeting) {
  if (meeting->mapped) gli_shared_unmap(meeting->area, sizeof(peer_area));
  meeting->area = NULL;
  meeting->mapped = false;
}

/* ---- meeting ------------------------------------------------------------ */

static void wake_others(const gli_meeting *meeting) {
  unsigned self = (unsigned)gloo_context_rank(meeting->context);
  for (unsigned i = 0; i < meeting->ranks; i++) {
    if (i != self) sem_post(&area_of(meeting)->places[i]);
  }
}

void gli_meeting_break(gli_meeting *meeting) {
  if (meeting->area == NULL) return;
  atomic_store(&meeting->area->broken, 1);
  if (sleeps) wake_others(meeting);
}

static gloo_status broken(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_PEER, -1,
                  "another rank gave up, see its own message");
}

static gloo_status late(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                  "another rank has not come to the next iteration for a "
                  "minute");
}

static gloo_status sleep_until_woken(gli_meeting *meeting, gloo_error *error) {
  struct timespec ends;
  clock_gettime(CLOCK_REALTIME, &ends);
  ends.tv_sec += PATIENCE_S;
  int self = gloo_context_rank(meeting->context);
  while (sem_timedwait(&area_of(meeting)->places[self], &ends) != 0) {
    if (errno != EINTR) return late(error);
  }
  return atomic_load(&meeting->area->broken) ? broken(error) : GLOO_OK;
}

static gloo_status yield_until(gli_meeting_area *area, unsigned round,
                               gloo_error *error) {
  uint64_t ends = uv_hrtime() + PATIENCE_S * UINT64_C(1000000000);
  unsigned yields = 0;
  while (atomic_load_explicit(&area->round, memory_order_acquire) == round) {
    if (atomic_load_explicit(&area->broken, memory_order_relaxed)) {
      return broken(error);
    }
    if (++yields % 4096 == 0 && uv_hrtime() > ends) return late(error);
    if (yields > YIELDS_UNPOKED) gli_peer_poke();
    sched_yield();
  }
  return GLOO_OK;
}

gloo_status gli_meeting_wait(gli_meeting *meeting, gloo_error *error) {
  gli_meeting_area *area = meeting->area;
  unsigned round = atomic_load_explicit(&area->round, memory_order_acquire);
  unsigned before =
      atomic_fetch_add_explicit(&area->arrived, 1, memory_order_acq_rel);
  if (before + 1 < meeting->ranks) {
    return sleeps ? sleep_until_woken(meeting, error)
                  : yield_until(area, round, error);
  }
  atomic_store_explicit(&area->arrived, 0, memory_order_relaxed);
  atomic_store_explicit(&area->round, round + 1, memory_order_release);
  if (sleeps) wake_others(meeting);
  return GLOO_OK;
}
