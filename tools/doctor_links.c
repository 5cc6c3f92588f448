/* Measures pairs of ranks, and clocks. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tools/doctor.h"

enum { ROUNDS_MAX = 63, PINGS = 20, LARGE_TIMES = 4 };
#define LARGE_BYTES ((size_t)1 << 20)

static bool ping(gloo_context *context, int peer, bool first, void *data,
                 size_t bytes, gloo_error *error) {
  for (int turn = 0; turn < 2; turn++) {
    bool sends = first == (turn == 0);
    gloo_status status =
        sends ? gloo_send(context, data, bytes, GLOO_UINT8, peer, NULL, error)
              : gloo_recv(context, data, bytes, GLOO_UINT8, peer, NULL, error);
    if (status != GLOO_OK) return false;
  }
  return true;
}

/* Keeps the fastest of a few round trips, because other processes may have the
 * core. */
static bool measure_pair(gloo_context *context, int peer, uint8_t *large,
                         gli_doctor_link *link, gloo_error *error) {
  bool first = gloo_context_rank(context) < peer;
  uint64_t best = UINT64_MAX, best_large = UINT64_MAX;
  for (int i = 0; i < PINGS; i++) {
    uint64_t begun = uv_hrtime();
    if (!ping(context, peer, first, large, 1, error)) return false;
    uint64_t took = uv_hrtime() - begun;
    if (took < best) best = took;
  }
  for (int i = 0; i < LARGE_TIMES; i++) {
    uint64_t begun = uv_hrtime();
    if (!ping(context, peer, first, large, LARGE_BYTES, error)) return false;
    uint64_t took = uv_hrtime() - begun;
    if (took < best_large) best_large = took;
  }
  link->us = (float)best / 2000;
  link->gb_per_s = 2 * (float)LARGE_BYTES / (float)best_large;
  return true;
}

/* Reads how the pair communicates, once it has done so. */
static void ask_route(gloo_context *context, int peer, gli_doctor_link *link) {
  gloo_answer answer = {"", ""};
  link->same_host = gloo_context_host(context, peer) ==
                    gloo_context_host(context, gloo_context_rank(context));
  if (gloo_context_route(context, peer, &answer, NULL) != GLOO_OK) return;
  link->shared = strstr(answer.text, "tcp") == NULL;
  memcpy(link->why, answer.why, sizeof link->why);
}

/* Returns the partner in round r of a tournament: all pairs in n - 1 rounds,
 * for even n. With an odd number, the last rank has a free round. */
static int partner_of(int rank, int ranks, int round) {
  int n = ranks + ranks % 2, partner;
  if (rank == n - 1) {
    partner = round;
  } else if (rank == round) {
    partner = n - 1;
  } else {
    partner = (2 * round - rank + 2 * (n - 1)) % (n - 1);
  }
  return partner < ranks ? partner : -1;
}

bool gli_doctor_measure(gloo_context *context, gli_doctor_link *row,
                        gloo_error *error) {
  int rank = gloo_context_rank(context), ranks = gloo_context_size(context);
  int rounds = ranks + ranks % 2 - 1;
  if (rounds > ROUNDS_MAX) rounds = ROUNDS_MAX;
  uint8_t *large = calloc(1, LARGE_BYTES);
  if (large == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, rank, "out of memory");
    return false;
  }
  bool good = true;
  for (int round = 0; good && round < rounds; round++) {
    int peer = partner_of(rank, ranks, round);
    if (peer >= 0 && peer != rank) {
      good = measure_pair(context, peer, large, &row[peer], error);
      if (good) ask_route(context, peer, &row[peer]);
    }
    /* So that pairs do not disturb those of the next round. */
    good = good && gloo_barrier(context, NULL, error) == GLOO_OK;
  }
  free(large);
  return good;
}

/* ---- clocks -------------------------------------------------------------- */

static double now(void) {
  uv_timeval64_t time;
  if (uv_gettimeofday(&time) != 0) return 0;
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Compares clocks: the peer's clock is read between two readings of this one.
 */
static bool compare_clock(gloo_context *context, int peer, double *ahead,
                          double *off, gloo_error *error) {
  *off = 1e9;
  for (int i = 0; i < PINGS; i++) {
    double theirs = 0, begun = now();
    if (gloo_send(context, &theirs, 1, GLOO_FLOAT64, peer, NULL, error) !=
            GLOO_OK ||
        gloo_recv(context, &theirs, 1, GLOO_FLOAT64, peer, NULL, error) !=
            GLOO_OK)
      return false;
    double ended = now();
    if ((ended - begun) / 2 >= *off) continue;
    *off = (ended - begun) / 2;
    *ahead = theirs - (begun + ended) / 2;
  }
  return true;
}

static bool tell_clock(gloo_context *context, gloo_error *error) {
  for (int i = 0; i < PINGS; i++) {
    double time;
    if (gloo_recv(context, &time, 1, GLOO_FLOAT64, 0, NULL, error) != GLOO_OK)
      return false;
    time = now();
    if (gloo_send(context, &time, 1, GLOO_FLOAT64, 0, NULL, error) != GLOO_OK)
      return false;
  }
  return true;
}

bool gli_doctor_clocks(gloo_context *context, double *ahead, double *off,
                       gloo_error *error) {
  int ranks = gloo_context_size(context);
  if (gloo_context_rank(context) > 0) return tell_clock(context, error);
  ahead[0] = off[0] = 0;
  for (int peer = 1; peer < ranks; peer++)
    if (!compare_clock(context, peer, &ahead[peer], &off[peer], error))
      return false;
  return true;
}
