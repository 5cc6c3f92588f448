#include "tools/bench_meeting.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "core/error.h"
#include "tools/bench_shared.h"

enum { SPINS_PER_CLOCK = 4096 };
#define PATIENCE_NS (UINT64_C(60) * 1000000000)

/* ---- shared memory ------------------------------------------------------ */

gloo_status gli_meeting_open(gli_meeting *meeting, gloo_context *context,
                             gloo_error *error) {
  memset(meeting, 0, sizeof *meeting);
  meeting->context = context;
  meeting->ranks = (unsigned)gloo_context_size(context);
  bool first = gloo_context_rank(context) == 0;
  gloo_options options = GLOO_OPTIONS_INIT;
  options.error = error;

  gli_shared_key key = {{0}};
  gli_meeting_area *area = NULL;
  if (first) area = gli_shared_create(sizeof *area, &key);
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
  if (status == GLOO_OK && all == 0 && first) {
    fprintf(stderr,
            "gloo bench: the ranks share no memory, so they meet in "
            "gloo_barrier before each call\n");
  }
  meeting->area = area;
  meeting->mapped = area != NULL;
  if (status == GLOO_OK && all == 1) return status;
  gli_meeting_close(meeting);
  return status;
}

void gli_meeting_share(gli_meeting *meeting, gloo_context *context,
                       gli_meeting_area *area) {
  meeting->area = area;
  meeting->mapped = false;
  meeting->context = context;
  meeting->ranks = (unsigned)gloo_context_size(context);
}

void gli_meeting_close(gli_meeting *meeting) {
  if (meeting->mapped) gli_shared_unmap(meeting->area, sizeof *meeting->area);
  meeting->area = NULL;
  meeting->mapped = false;
}

/* ---- meeting ------------------------------------------------------------ */

void gli_meeting_break(gli_meeting *meeting) {
  if (meeting->area != NULL) atomic_store(&meeting->area->broken, 1);
}

static gloo_status wait_for_round(gli_meeting_area *area, unsigned round,
                                  gloo_error *error) {
  uint64_t patience_ends = uv_hrtime() + PATIENCE_NS;
  unsigned spins = 0;
  while (atomic_load_explicit(&area->round, memory_order_acquire) == round) {
    if (atomic_load_explicit(&area->broken, memory_order_relaxed)) {
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "another rank gave up, see its own message");
    }
    if (++spins % SPINS_PER_CLOCK == 0 && uv_hrtime() > patience_ends) {
      return gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                      "another rank has not come to the next iteration for "
                      "a minute");
    }
    sched_yield();
  }
  return GLOO_OK;
}

gloo_status gli_meeting_wait(gli_meeting *meeting, gloo_error *error) {
  gli_meeting_area *area = meeting->area;
  if (area == NULL) {
    gloo_options options = GLOO_OPTIONS_INIT;
    options.error = error;
    return gloo_barrier(meeting->context, &options);
  }
  unsigned round = atomic_load_explicit(&area->round, memory_order_acquire);
  unsigned before =
      atomic_fetch_add_explicit(&area->arrived, 1, memory_order_acq_rel);
  if (before + 1 < meeting->ranks) return wait_for_round(area, round, error);
  atomic_store_explicit(&area->arrived, 0, memory_order_relaxed);
  atomic_store_explicit(&area->round, round + 1, memory_order_release);
  return GLOO_OK;
}
