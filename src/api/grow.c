/* gloo_context_grow: the present ranks admit newcomers (join.c).
 *
 * A newcomer takes a number in the store and waits to be called. Rank 0 reads
 * the number of newcomers, and draws the name of a meeting. All present ranks
 * promise to come to it; then rank 0 calls the newcomers, which promise the
 * same, and gives places to those that answer. All ranks meet as for any
 * context, in a separate part of the store. The store has the count of the
 * numbers, because another rank may be rank 0 next time.
 *
 * If a rank dies meanwhile, the promises make the meeting fail at once, and the
 * context of the present ranks does not change. Once all have met, the present
 * ranks choose one of the two contexts by a verdict, a key of the store that is
 * set once. Then all wait for all ranks in the new context: a newcomer that has
 * heard from all ranks was admitted, and any other counts as refused
 * (docs/adr/0061). */
#include "api/grow.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/options.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"
#include "kernels/custom_op.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/store/store.h"

/* ---- the plan of rank 0 -------------------------------------------------- */

typedef struct grow_plan {
  gli_grow_round round;
  int32_t newcomers;
  int32_t status; /* failure of rank 0, with its text, or GLOO_OK */
  char text[GLOO_ERROR_MESSAGE_BYTES];
} grow_plan;

/* Returns true if rank 0 can have sent this plan. */
static bool grow_plan_is_sane(const grow_plan *plan, int size) {
  bool fails = plan->status != GLOO_OK;
  return plan->newcomers >= 0 &&
         plan->newcomers <= (int32_t)GLI_RANKS_MAX - size &&
         (!fails || gli_is_failure(plan->status));
}

/* Broadcasts the plan of rank 0, which `status` and `cause` belong to. Returns
 * rank 0's result. */
static gloo_status grow_tell(gloo_context *context, grow_plan *plan,
                             gloo_status status, const gloo_error *cause,
                             gloo_error *error) {
  plan->status = status;
  if (status != GLOO_OK) memcpy(plan->text, cause->message, sizeof plan->text);
  gloo_options call = GLOO_OPTIONS_INIT;
  call.timeout_ns = GLOO_TIMEOUT_NONE; /* rank 0 may wait */
  status = gloo_broadcast(context, GLOO_IN_PLACE, (uint8_t *)plan, sizeof *plan,
                          GLOO_UINT8, 0, &call, error);
  if (status != GLOO_OK) return status;
  plan->text[sizeof plan->text - 1] = '\0';
  if (!grow_plan_is_sane(plan, gloo_context_size(context)))
    return gli_fail(
        error, GLOO_ERR_PROTOCOL, 0,
        "gloo_context_grow: invalid reply from rank 0: %d newcomers, status "
        "%d; do all ranks run the same version of the library?",
        (int)plan->newcomers, (int)plan->status);
  if (plan->status == GLOO_OK) return GLOO_OK;
  return gli_fail(error, (gloo_status)plan->status, -1,
                  "rank 0 admitted no newcomers: %s", plan->text);
}

/* ---- the promise --------------------------------------------------------- */

/* Promises to come. Newcomers are called once all ranks have promised. */
static gloo_status grow_promise_all(gloo_context *context, gloo_store *store,
                                    int64_t meeting, gloo_error *error) {
  gloo_error later;
  gloo_status own = gli_grow_promise(
      store, meeting, (uint32_t)gloo_context_rank(context), error);
  int32_t well = own == GLOO_OK;
  gloo_status end = gloo_allreduce(context, GLOO_IN_PLACE, &well, 1, GLOO_INT32,
                                   GLOO_MIN, NULL, &later);
  if (own != GLOO_OK) return own;
  if (end == GLOO_OK && well) return GLOO_OK;
  if (end == GLOO_OK)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "another rank cannot use the store, so no newcomers were "
                    "admitted; the context is unchanged");
  *error = later;
  return end;
}

/* Promises to come, and calls the newcomers. A failure on this rank ends the
 * meeting for all its ranks. */
static gloo_status grow_call_in(gloo_context *context, gloo_store *store,
                                gli_grow_called *called, grow_plan *plan,
                                gloo_error *error) {
  int64_t meeting = plan->round.number;
  gloo_status status = grow_promise_all(context, store, meeting, error);
  if (status == GLOO_OK) {
    gloo_error cause;
    gloo_status found = GLOO_OK;
    gli_error_clear(&cause);
    if (gloo_context_rank(context) == 0) {
      found = gli_grow_call(store, gloo_context_size(context), &plan->round,
                            called, &cause);
      plan->newcomers = called->n;
    }
    status = grow_tell(context, plan, found, &cause, error);
  }
  if (status == GLOO_OK && plan->newcomers > 0) return GLOO_OK;
  gli_grow_leave(store, meeting, (uint32_t)gloo_context_rank(context),
                 status != GLOO_OK ? error : NULL);
  return status;
}

/* Agrees on the newcomers. Leaves plan->newcomers at 0 if there are none. */
static gloo_status grow_agree(gloo_context *context, gloo_store *store,
                              const gloo_grow_options *o, grow_plan *plan,
                              gloo_error *error) {
  gloo_error cause;
  gloo_status found = GLOO_OK;
  gli_grow_called called = {NULL, 0, 0};
  gli_error_clear(&cause);
  if (gloo_context_rank(context) == 0) {
    found = gli_grow_find(store, gloo_context_size(context), o, &called,
                          &plan->round, &cause);
    plan->newcomers = found == GLOO_OK ? called.n : 0;
  }
  gloo_status status = grow_tell(context, plan, found, &cause, error);
  if (status == GLOO_OK && plan->newcomers > 0)
    status = grow_call_in(context, store, &called, plan, error);
  free(called.numbers);
  return status;
}

/* ---- the verdict --------------------------------------------------------- */

/* Votes in the store. The first vote is the verdict, and the same for all
 * ranks. */
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
                  "the store's value under %s is not a verdict: use the same "
                  "release of the library on all ranks",
                  key);
}

/* Fails a rank that cannot read the verdict. It continues with neither context,
 * because the other ranks may be in either. */
static gloo_status grow_lose_track(gloo_context *context,
                                   const gloo_error *cause, gloo_error *error) {
  gli_fail(error, GLOO_ERR_STALE, gloo_context_rank(context),
           "rank %d cannot find out whether the other ranks admitted the "
           "newcomers, and must not continue with either group: %s; restart it",
           gloo_context_rank(context), cause->message);
  gli_context_forsake(context, error);
  return GLOO_ERR_STALE;
}

/* Chooses the context. A failure of one rank's meeting is a failure of all.
 * `met` is the result of the meeting on this rank. */
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
                    "another rank could not connect to the newcomers; the "
                    "context is unchanged");
  if (gloo_context_size(context) == 1) return GLOO_OK;
  /* All ranks have met. One may have died since, unknown to some others. */
  gloo_error cause;
  bool taken;
  if (grow_vote(store, round, end == GLOO_OK, &taken, &cause) != GLOO_OK)
    return grow_lose_track(context, &cause, error);
  if (taken) return GLOO_OK;
  if (end == GLOO_OK)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "a rank failed while newcomers were being admitted, so "
                    "none was; call gloo_context_shrink");
  *error = later;
  return end;
}

/* ---- the call ------------------------------------------------------------ */

static gloo_status grow_check(const gloo_context *context,
                              const gloo_store *store,
                              gloo_context *const *successor,
                              const gloo_grow_options *o, gloo_error *error) {
  static const char name[] = "gloo_context_grow";
  if (context == NULL || store == NULL || successor == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    name,
                    context == NULL ? "context"
                    : store == NULL ? "store"
                                    : "successor");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  int size = gloo_context_size(context);
  if (o->newcomers < 0 || o->ranks_max < 0 ||
      (o->ranks_max > 0 && o->ranks_max < size))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: newcomers is %d and ranks_max is %d, but the context "
                    "already has %d ranks",
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
    if (status != GLOO_OK)
      gli_grow_leave(store, plan.round.number,
                     (uint32_t)gloo_context_rank(context), error);
    status = grow_settle(context, store, &plan.round, status, error);
    if (status != GLOO_OK) {
      gloo_context_destroy(made);
      return status;
    }
    (void)gli_grow_confirm(made, NULL); /* otherwise its first call fails */
    gli_context_follow(context, made);
  }
  *successor = made;
  return GLOO_OK;
}
