/* Elastic jobs: shrink, grow, and the state that all ranks continue from. */
#include <inttypes.h>
#include <stdlib.h>
#include <uv.h>

#include "core/environment.h"
#include "core/error.h"
#include "core/log.h"
#include "core/options.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"
#include "gloo_c/elastic.h"
#include "kernels/custom_op.h"

/* Interval between two looks for newcomers, in time and at most in steps, so
 * that steps that become slower do not delay the next look for long. */
#define LOOK_NS UINT64_C(1000000000)
#define LOOK_STEPS 256

/* Rank of a state in the choice of the root: a whole state counts by its steps;
 * a state that `sync` has overwritten in part is below it; a state that was
 * never shared is further below, with this added to its steps. */
#define TORN INT64_C(-1)
#define NEVER_SHARED INT64_MIN

struct gloo_elastic {
  gloo_elastic_options o;
  gloo_context *context;
  gloo_store *own_store; /* the store that GLOO_STORE names, or NULL */
  bool shared, torn;     /* the state of this rank */
  bool together;         /* all ranks have the same state */
  bool no_loss;          /* the last shrink has lost no rank */
  gloo_elastic_reason reason;
  int64_t step;
  int64_t stuck;           /* step repeated after such a shrink, or -1 */
  int64_t look_at, looked; /* steps of the next look and of the last */
  uint64_t looked_ns;
};

/* ---- creation ------------------------------------------------------------ */

static gloo_status elastic_open(gloo_elastic *job, gloo_error *error) {
  bool joins;
  const char *url = gli_environment_read("GLOO_STORE");
  gloo_status status = gli_switch_read(0, "GLOO_JOIN", false, &joins, error);
  if (status == GLOO_OK && job->o.store == NULL && url != NULL) {
    status = gloo_store_open(url, GLOO_TIMEOUT_DEFAULT, &job->own_store, error);
    job->o.store = job->own_store;
  }
  if (status != GLOO_OK || job->context != NULL) return status;
  if (!joins) return gloo_init(NULL, &job->context, error);
  if (job->o.store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_elastic_create: GLOO_JOIN is 1, but a store to join "
                    "by is missing: set GLOO_STORE, or options->store");
  return gloo_context_join(job->o.store, NULL, NULL, GLOO_TIMEOUT_DEFAULT,
                           &job->context, error);
}

gloo_status gloo_elastic_create(gloo_context *context,
                                const gloo_elastic_options *options,
                                gloo_elastic **job, gloo_error *error) {
  gloo_elastic_options o;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_elastic_options", error);
  if (status != GLOO_OK) return status;
  if (job == NULL || o.sync == NULL || o.steps < 1)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_elastic_create: `job` and options->sync must not be "
                    "NULL, and options->steps (%" PRId64 ") be at least 1",
                    o.steps);
  if (gli_custom_op_inside())
    return gli_custom_op_refuse("gloo_elastic_create", error);
  gloo_elastic *made = calloc(1, sizeof *made);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "gloo_elastic_create: out of memory");
  *made = (gloo_elastic){.o = o, .context = context, .stuck = -1};
  status = elastic_open(made, error);
  if (status == GLOO_OK) {
    *job = made;
    return GLOO_OK;
  }
  gloo_store_destroy(made->own_store);
  free(made);
  return status;
}

/* ---- changes ------------------------------------------------------------- */

static void elastic_take(gloo_elastic *job, gloo_context *context,
                         gloo_elastic_reason reason) {
  gloo_context_destroy(job->context);
  job->context = context;
  job->reason = reason;
  job->together = false;
}

/* Shrinks a failed context. Returns `last` if it has not failed. */
static gloo_status elastic_recover(gloo_elastic *job, gloo_status last,
                                   gloo_error *error) {
  gloo_context *left;
  gloo_error cause;
  if (gli_context_usable(job->context, &cause) == GLOO_OK) return last;
  gloo_status status =
      gloo_context_shrink(job->context, job->o.shrink, &left, error);
  if (status != GLOO_OK) return status;
  job->no_loss = gloo_context_size(left) == gloo_context_size(job->context);
  elastic_take(job, left, GLOO_ELASTIC_SHRINK);
  if (!job->no_loss || job->stuck != job->step) return GLOO_OK;
  return gli_fail(error, cause.cause, cause.rank,
                  "gloo_elastic_next: step %" PRId64
                  " has failed twice, though no rank was lost: %s",
                  job->step, cause.message);
}

/* Returns the step of the look after this one: at the pace of the last steps,
 * and at most twice as far ahead as the last one was. */
static int64_t elastic_next_look(const gloo_elastic *job) {
  uint64_t steps = (uint64_t)(job->step - job->looked);
  uint64_t each_ns = (uv_hrtime() - job->looked_ns) / (steps + 1) + 1;
  uint64_t most = steps < LOOK_STEPS / 2 ? 2 * steps : LOOK_STEPS;
  uint64_t ahead = LOOK_NS / each_ns < most ? LOOK_NS / each_ns : most;
  return job->step + (ahead > 0 ? (int64_t)ahead : 1);
}

/* Admits newcomers if a look is due. After the last step the ranks find out
 * here that all have completed it. */
static gloo_status elastic_look(gloo_elastic *job, gloo_error *error) {
  if (job->step < job->o.steps &&
      (job->o.store == NULL || job->step < job->look_at))
    return GLOO_OK;
  int64_t next = elastic_next_look(job); /* rank 0 has the clock */
  gloo_status status = gloo_broadcast(job->context, GLOO_IN_PLACE, &next, 1,
                                      GLOO_INT64, 0, NULL, error);
  if (status != GLOO_OK || job->o.store == NULL) return status;
  job->looked = job->step;
  job->looked_ns = uv_hrtime();
  job->look_at = next;
  gloo_context *more = NULL;
  status =
      gloo_context_grow(job->context, job->o.store, job->o.grow, &more, error);
  if (status == GLOO_OK && more != NULL)
    elastic_take(job, more, GLOO_ELASTIC_GROW);
  if (status == GLOO_OK || gli_context_usable(job->context, NULL) != GLOO_OK)
    return status;
  gli_log(GLOO_LOG_WARN, "gloo_elastic_next: no newcomers were admitted: %s",
          error->message);
  return GLOO_OK;
}

/* Chooses the root, the lowest rank among the ranks that have completed most
 * steps, and gives all ranks its state. */
static gloo_status elastic_share(gloo_elastic *job, gloo_error *error) {
  int64_t own = job->torn     ? TORN
                : job->shared ? job->step
                              : NEVER_SHARED + job->step;
  int64_t best = own;
  gloo_status status = gloo_allreduce(job->context, GLOO_IN_PLACE, &best, 1,
                                      GLOO_INT64, GLOO_MAX, NULL, error);
  if (status != GLOO_OK) return status;
  if (best == TORN)
    return gli_fail(error, GLOO_ERR_PEER, -1,
                    "gloo_elastic_next: no rank has a whole state, because the "
                    "rank that had it failed while the others received it: "
                    "restart the job from a checkpoint");
  int32_t root = own == best ? gloo_context_rank(job->context) : INT32_MAX;
  status = gloo_allreduce(job->context, GLOO_IN_PLACE, &root, 1, GLOO_INT32,
                          GLOO_MIN, NULL, error);
  if (status != GLOO_OK) return status;
  job->torn = own != best;
  status = job->o.sync(job->context, root, job->reason, job->o.user, error);
  if (status != GLOO_OK) return status;
  job->torn = false;
  job->shared = job->together = true;
  job->step = job->looked = best < 0 ? best - NEVER_SHARED : best;
  job->look_at = job->step + 1;
  job->looked_ns = uv_hrtime();
  job->stuck = job->no_loss ? job->step : -1;
  job->no_loss = false;
  return GLOO_OK;
}

/* ---- the loop ------------------------------------------------------------ */

gloo_status gloo_elastic_next(gloo_elastic *job, gloo_status last,
                              int64_t *step, gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (job == NULL || step == NULL || *step < 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_elastic_next: `job` and `step` must not be NULL, and "
                    "*step not be negative");
  if (gli_custom_op_inside())
    return gli_custom_op_refuse("gloo_elastic_next", error);
  job->step = *step;
  do {
    if (last != GLOO_OK || gli_context_usable(job->context, NULL) != GLOO_OK)
      last = elastic_recover(job, last, error);
    if (last != GLOO_OK) return last;
    if (job->together) last = elastic_look(job, error);
    if (last == GLOO_OK && !job->together) last = elastic_share(job, error);
  } while (last != GLOO_OK);
  *step = job->step;
  return GLOO_OK;
}

gloo_context *gloo_elastic_context(const gloo_elastic *job) {
  return job == NULL ? NULL : job->context;
}

void gloo_elastic_destroy(gloo_elastic *job) {
  if (job == NULL) return;
  gloo_context_destroy(job->context);
  gloo_store_destroy(job->own_store);
  free(job);
}
