/* Synchronization of the ranks of any library before a call: peer.h says why it
 * differs between libraries. */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/peers/peer.h"
#include "tools/bench_meeting.h"

enum { MAX_RANKS = 256, PATIENCE_S = 60 };

/* Returns the semaphores, one per rank, which follow the area. */
static sem_t *places_of(const gli_meeting *meeting) {
  return (sem_t *)(void *)(meeting->area + 1);
}

static bool prepare(void *memory) {
  sem_t *places = memory;
  for (int i = 0; i < MAX_RANKS; i++) {
    if (sem_init(&places[i], 1, 0) != 0) return false;
  }
  return true;
}

static gloo_status sleep_until_woken(gli_meeting *meeting, gloo_error *error) {
  struct timespec ends;
  clock_gettime(CLOCK_REALTIME, &ends);
  ends.tv_sec += PATIENCE_S;
  int self = gloo_context_rank(meeting->context);
  while (sem_timedwait(&places_of(meeting)[self], &ends) != 0) {
    if (errno != EINTR) return gli_meeting_late(error);
  }
  bool broken = atomic_load(&meeting->area->broken) != 0;
  return broken ? gli_meeting_broken(error) : GLOO_OK;
}

static void wake_others(const gli_meeting *meeting) {
  unsigned self = (unsigned)gloo_context_rank(meeting->context);
  for (unsigned i = 0; i < meeting->ranks; i++) {
    if (i != self) sem_post(&places_of(meeting)[i]);
  }
}

static const gli_meeting_manner yields = {.poke = gli_peer_poke};
static const gli_meeting_manner sleeps = {
    .bytes = MAX_RANKS * sizeof(sem_t),
    .max_ranks = MAX_RANKS,
    .prepare = prepare,
    .sleep = sleep_until_woken,
    .wake = wake_others,
};

void gli_peer_choose_meeting(void) {
  const char *chosen = getenv("PEER_MEETING");
  bool sleep = gli_peer_sleeps;
  if (chosen != NULL && strcmp(chosen, "sleep") == 0) sleep = true;
  if (chosen != NULL && strcmp(chosen, "yield") == 0) sleep = false;
  gli_meeting_choose(sleep ? &sleeps : &yields);
}
