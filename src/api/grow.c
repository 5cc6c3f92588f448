/* gloo_context_grow: the ranks that are there take in others (join.c).
 *
 * A newcomer takes a number in the store and waits for its place. Rank 0 of the
 * ranks that are there looks how many numbers have been taken, gives places to
 * those that have none yet, and tells the others; then all of them, newcomers
 * too, meet in a part of the store that is new, as for any context. What was
 * given out is counted in the store, for rank 0 may be another rank next time.
 *
 * A rank may die then. Those that were there settle on one of two contexts by a
 * verdict, which is in the store and set once. Then they wait for all ranks in
 * the new one, and so do newcomers: one that has heard from all of them knows
 * that it was taken in, and one that has not takes itself for refused
 * (docs/adr/0061). */
#include "api/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/create.h"
#include "core/custom_op.h"
#include "core/error.h"
#include "core/options.h"
#include "core/random.h"
#include "core/timeout.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"
#include "rendezvous/bootstrap.h"
#include "rendezvous/store.h"
#include "security/trust.h"

/* In the store: those newcomers that have been dealt with, and the meetings
 * that were called. */
#define PLACED "gloo/grow/placed"
#define ROUND "gloo/grow/round"
/* And whether the store can hold a verdict. */
#define JUDGES "gloo/grow/judges"

/* No program is in a meeting yet. */
#define TAG UINT32_MAX

enum { PAUSE_MS = 20 };

void gli_grow_key(char key[GLI_GROW_KEY_BYTES], const char *what,
                  int64_t number) {
  snprintf(key, GLI_GROW_KEY_BYTES, "gloo/grow/%s/%" PRId64, what, number);
}

/* ---- the meeting --------------------------------------------------------- */

gloo_status gli_grow_meet(gloo_store *store, const gli_grow_round *round,
                          int rank, int size, gloo_device *device,
                          const gloo_context_options *options,
                          const uint8_t *job_key, gloo_context **context,
                          gloo_error *error) {
  char prefix[GLI_GROW_KEY_BYTES];
  gloo_store *part;
  gli_origin origin = {.scope = {.job = "", .round = round->number},
                       .job_key = job_key};
  memcpy(origin.scope.number, round->drawn, sizeof round->drawn);
  snprintf(prefix, sizeof prefix, "gloo/grow/meeting/%" PRId64 "/",
           round->number);
  gloo_status status = gloo_store_prefix_create(store, prefix, &part, error);
  if (status != GLOO_OK) return status;
  status = gli_context_create(rank, size, part, device, options, &origin,
                              context, NULL, error);
  gloo_store_destroy(part);
  return status;
}

gloo_status gli_grow_check_secret(const gloo_store *store,
                                  const gloo_context_options *options,
                                  gloo_error *error) {
  gloo_context_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_context_options", error);
  if (status != GLOO_OK) return status;
  return gli_trust_check(o.secret, o.secret_bytes, &store->told, error);
}

/* ---- those that are there ------------------------------------------------ */

/* What rank 0 tells the others. */
typedef struct grow_plan {
  gli_grow_round round;
  int32_t newcomers;
  int32_t status; /* else why it came to nothing: */
  char text[GLOO_ERROR_MESSAGE_BYTES];
} grow_plan;

static bool newcomer_gave_up(gloo_store *store, int64_t number) {
  char key[GLI_GROW_KEY_BYTES];
  gloo_value value;
  gli_grow_key(key, "gone", number);
  if (gloo_store_get(store, key, GLOO_TIMEOUT_NOW, &value, NULL) != GLOO_OK)
    return false;
  free(value.data);
  return true;
}

/* Newcomers between two numbers that still wait, as many as there is room for.
 * Returns the last number that was looked at. */
static int64_t grow_choose(gloo_store *store, int64_t from, int64_t to,
                           int32_t room, int64_t *chosen, int32_t *n) {
  gloo_store *visit;
  *n = 0;
  /* Files: who leaves a will, and be it none, carries out those of the dead. */
  if (gli_store_visit(store, GLI_NEVER, &visit, NULL) == GLOO_OK) {
    (void)gli_store_leave_will(visit, &(gli_will){.n = 0}, NULL);
    gli_store_visit_end(visit, store);
  }
  int64_t at = from;
  while (at < to && *n < room)
    if (!newcomer_gave_up(store, ++at)) chosen[(*n)++] = at;
  return at;
}

static gloo_status grow_give_places(gloo_store *store, int size,
                                    const int64_t *chosen, grow_plan *plan,
                                    gloo_error *error) {
  gli_grow_round *round = &plan->round;
  gloo_status status = gloo_store_add(store, ROUND, 1, &round->number, error);
  if (status == GLOO_OK)
    status = gli_random_draw(round->drawn, sizeof round->drawn, error);
  for (int32_t i = 0; i < plan->newcomers && status == GLOO_OK; i++) {
    char key[GLI_GROW_KEY_BYTES], place[GLI_GROW_PLACE_BYTES];
    gli_grow_key(key, "place", chosen[i]);
    int bytes = snprintf(place, sizeof place, "%" PRId64 " %d %d ",
                         round->number, size + i, size + plan->newcomers);
    for (size_t k = 0; k < sizeof round->drawn; k++)
      bytes += snprintf(place + bytes, sizeof place - (size_t)bytes, "%02x",
                        (unsigned)round->drawn[k]);
    status = gloo_store_set(store, key, place, (size_t)bytes, error);
  }
  return status;
}

/* How many have come that have no place yet; waits for as many as are wanted.
 */
static gloo_status grow_await(gloo_store *store, const gloo_grow_options *o,
                              int64_t *placed, int64_t *came,
                              gloo_error *error) {
  int64_t timeout_ns;
  gloo_status read = gli_timeout_of_start(o->timeout_ns, &timeout_ns, error);
  if (read != GLOO_OK) return read;
  uint64_t deadline_ns = gli_deadline_after(timeout_ns);
  for (;;) {
    gloo_status status = gloo_store_add(store, PLACED, 0, placed, error);
    if (status == GLOO_OK)
      status = gloo_store_add(store, GLI_GROW_CAME, 0, came, error);
    if (status != GLOO_OK) return status;
    if (*placed < 0 || *came < *placed || *came - *placed > GLI_RANKS_MAX)
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "the store's count of ranks that came makes no sense: "
                      "%" PRId64 " after %" PRId64,
                      *came, *placed);
    if (*came - *placed >= o->newcomers) return GLOO_OK;
    if (gli_deadline_left(deadline_ns) == 0) return GLOO_OK;
    uv_sleep(PAUSE_MS);
  }
}

/* A rank alone needs no verdict. A store that cannot give one is an error
 * before any newcomer has a place. */
static gloo_status grow_check_store(gloo_store *store, int size,
                                    gloo_error *error) {
  if (size == 1) return GLOO_OK;
  gloo_status status =
      gloo_store_compare_and_set(store, JUDGES, NULL, 0, "1", 1, NULL, error);
  return status == GLOO_ERR_COMPARE ? GLOO_OK : status;
}

static gloo_status grow_call_in(gloo_store *store, int size,
                                const gloo_grow_options *o, grow_plan *plan,
                                gloo_error *error) {
  int64_t placed = 0, came = 0, ignored;
  gloo_status status = gli_grow_check_secret(store, o->context, error);
  if (status == GLOO_OK) status = grow_await(store, o, &placed, &came, error);
  if (status != GLOO_OK || came == placed) return status;
  status = grow_check_store(store, size, error);
  if (status != GLOO_OK) return status;
  int32_t most = o->ranks_max > 0 ? o->ranks_max : (int32_t)GLI_RANKS_MAX;
  int64_t *chosen = calloc((size_t)(came - placed), sizeof *chosen);
  if (chosen == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %" PRId64 " ranks that came",
                    came - placed);
  int64_t last =
      grow_choose(store, placed, came, most - size, chosen, &plan->newcomers);
  if (last > placed)
    status = gloo_store_add(store, PLACED, last - placed, &ignored, error);
  if (status == GLOO_OK && plan->newcomers > 0)
    status = grow_give_places(store, size, chosen, plan, error);
  free(chosen);
  return status;
}

/* Returns true if rank 0 can have found that. */
static bool grow_plan_is_sane(const grow_plan *plan, int size) {
  bool fails = plan->status != GLOO_OK;
  return plan->newcomers >= 0 &&
         plan->newcomers <= (int32_t)GLI_RANKS_MAX - size &&
         (!fails || gli_is_failure(plan->status));
}

/* All ranks learn what rank 0 has found. */
static gloo_status grow_agree(gloo_context *context, gloo_store *store,
                              const gloo_grow_options *o, grow_plan *plan,
                              gloo_error *error) {
  if (gloo_context_rank(context) == 0) {
    gloo_error cause;
    gli_error_clear(&cause);
    plan->status =
        grow_call_in(store, gloo_context_size(context), o, plan, &cause);
    memcpy(plan->text, cause.message, sizeof plan->text);
  }
  gloo_options call = GLOO_OPTIONS_INIT;
  call.timeout_ns = GLOO_TIMEOUT_NONE; /* rank 0 may wait */
  gloo_status status =
      gloo_broadcast(context, GLOO_IN_PLACE, (uint8_t *)plan, sizeof *plan,
                     GLOO_UINT8, 0, &call, error);
  if (status != GLOO_OK) return status;
  plan->text[sizeof plan->text - 1] = '\0';
  if (!grow_plan_is_sane(plan, gloo_context_size(context)))
    return gli_fail(error, GLOO_ERR_PROTOCOL, 0,
                    "gloo_context_grow: what rank 0 says makes no sense: %d "
                    "newcomers, status %d; do all ranks run the same version "
                    "of the library?",
                    (int)plan->newcomers, (int)plan->status);
  if (plan->status == GLOO_OK) return GLOO_OK;
  return gli_fail(error, (gloo_status)plan->status, -1,
                  "rank 0 took nobody in: %s", plan->text);
}

/* ---- the verdict --------------------------------------------------------- */

/* The first vote in the store is the verdict, and the same for all ranks. */
static gloo_status grow_vote(gloo_store *store, const gli_grow_round *round,
                             bool in, bool *taken, gloo_error *error) {
  static const char in_text[] = "taken", out_text[] = "refused";
  const char *vote = in ? in_text : out_text;
  char key[GLI_GROW_KEY_BYTES];
  gloo_value value = {NULL, 0};
  gli_grow_key(key, "verdict", round->number);
  gloo_status status = gloo_store_compare_and_set(store, key, NULL, 0, vote,
                                                  strlen(vote), &value, error);
  if (status != GLOO_OK && status != GLOO_ERR_COMPARE) return status;
  *taken = value.bytes == strlen(in_text) &&
           memcmp(value.data, in_text, value.bytes) == 0;
  bool refused = value.bytes == strlen(out_text) &&
                 memcmp(value.data, out_text, value.bytes) == 0;
  free(value.data);
  if (*taken || refused) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "what the store has under %s is no verdict: use the same "
                  "release of the library on all ranks",
                  key);
}

/* A rank that cannot read the verdict goes on with neither context: the other
 * ranks may be in either. */
static gloo_status grow_lose_track(gloo_context *context,
                                   const gloo_error *cause, gloo_error *error) {
  gli_fail(error, GLOO_ERR_STALE, gloo_context_rank(context),
           "rank %d cannot learn whether the others have taken in those that "
           "came, and goes on with neither: %s; start it again",
           gloo_context_rank(context), cause->message);
  gli_context_forsake(context, error);
  return GLOO_ERR_STALE;
}

/* Where it did not work for one rank it has not for any. `met`: what came of
 * the meeting here. */
static gloo_status grow_settle(gloo_context *context, gloo_store *store,
                               const gli_grow_round *round, gloo_status met,
                               gloo_error *error) {
  int32_t well = met == GLOO_OK;
  gloo_error later;
  gloo_status end = gloo_allreduce(context, GLOO_IN_PLACE, &well, 1, GLOO_INT32,
                                   GLOO_MIN, NULL, &later);
  if (met != GLOO_OK) return met;
  if (end == GLOO_OK && !well)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "another rank could not meet those that came; the context "
                    "is as it was");
  if (gloo_context_size(context) == 1) return GLOO_OK;
  /* All have met. A rank may be gone since, which not all need to have seen. */
  gloo_error cause;
  bool taken;
  if (grow_vote(store, round, end == GLOO_OK, &taken, &cause) != GLOO_OK)
    return grow_lose_track(context, &cause, error);
  if (taken) return GLOO_OK;
  if (end == GLOO_OK)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "a rank failed while those that came were taken in, and "
                    "none of them was; the context is to be shrunk");
  *error = later;
  return end;
}

gloo_status gli_grow_confirm(gloo_context *made, gloo_error *error) {
  gloo_options call = GLOO_OPTIONS_INIT;
  call.tag = TAG;
  return gloo_barrier(made, &call, error);
}

/* ---- the call ------------------------------------------------------------ */

static gloo_status grow_check(const gloo_context *context,
                              const gloo_store *store,
                              gloo_context *const *successor,
                              const gloo_grow_options *o, gloo_error *error) {
  static const char name[] = "gloo_context_grow";
  if (context == NULL || store == NULL || successor == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: no %s", name,
                    context == NULL ? "context"
                    : store == NULL ? "store"
                                    : "place for the successor");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  int size = gloo_context_size(context);
  if (o->newcomers < 0 || o->ranks_max < 0 ||
      (o->ranks_max > 0 && o->ranks_max < size))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: newcomers is %d and ranks_max %d, where %d ranks are "
                    "there already",
                    name, o->newcomers, o->ranks_max, size);
  return gli_context_usable(context, error);
}

gloo_status gloo_context_grow(gloo_context *context, gloo_store *store,
                              const gloo_grow_options *options,
                              gloo_context **successor, gloo_error *error) {
  gloo_grow_options o;
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_grow_options", error);
  if (status == GLOO_OK)
    status = grow_check(context, store, successor, &o, error);
  if (status != GLOO_OK) return status;
  grow_plan plan;
  memset(&plan, 0, sizeof plan);
  status = grow_agree(context, store, &o, &plan, error);
  if (status != GLOO_OK) return status;
  gloo_context *made = NULL;
  if (plan.newcomers > 0) {
    status = gli_grow_meet(store, &plan.round, gloo_context_rank(context),
                           gloo_context_size(context) + plan.newcomers,
                           gloo_context_device(context), o.context,
                           gli_context_job_key(context), &made, error);
    status = grow_settle(context, store, &plan.round, status, error);
    if (status != GLOO_OK) {
      gloo_context_destroy(made);
      return status;
    }
    (void)gli_grow_confirm(made, NULL); /* else its first call fails */
    gli_context_share_device(context, made);
  }
  *successor = made;
  return GLOO_OK;
}
