/* Faults of a simulated job, and the errors that ranks must report. */
#include "engine/state/context.h"
#include "job_parts.h"

/* ---- faults -------------------------------------------------------------- */

static void cancel_something(job *j, rank *r) {
  int first = (int)job_draw(j, SCRIPT_CALLS_MAX);
  for (int k = 0; k < SCRIPT_CALLS_MAX; k++) {
    int i = (first + k) % SCRIPT_CALLS_MAX;
    run *n = &r->runs[i];
    /* Messages may be withdrawn unnoticed. */
    if (!n->started || n->done) continue;
    if (j->script.calls[i].collective == GLI_SENDRECV) continue;
    gloo_request_cancel(n->operation[0], NULL);
    j->struck = true;
    return;
  }
}

static void leave_early(job *j, rank *r) {
  for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
    if (r->runs[i].started && !r->runs[i].done) return; /* between calls only */
  }
  job_leave(j, r);
  j->struck = true;
}

/* Returns true if any other rank notices the end of the culprit. */
static bool culprit_is_known(const job *j) {
  for (uint32_t i = 0; i < j->script.ranks; i++) {
    const rank *r = &j->ranks[i];
    if (i == j->culprit || r->device == NULL) continue;
    const gloo_context *context = r->root != NULL ? r->root : r->context;
    if (context == NULL) continue;
    const gli_link *link =
        context->family->root->peers[job_root_rank(j, j->culprit)].link;
    if (link != NULL && !link->leaving.departed) return true;
  }
  return false;
}

void job_strike(job *j) {
  rank *r = &j->ranks[j->culprit];
  if (j->struck || r->context == NULL) return;
  switch (j->fault) {
    case JOB_KILL:
      j->unknown = !j->holding && !culprit_is_known(j);
      sim_kill(j->world, j->culprit);
      r->dead = j->struck = true;
      break;
    case JOB_FREEZE:
      sim_freeze(j->world, j->culprit);
      r->frozen = j->struck = true;
      break;
    case JOB_CUT:
      j->struck = sim_cut(j->world, job_root_rank(j, j->culprit),
                          job_root_rank(j, j->other));
      break;
    case JOB_LEAVE:
      leave_early(j, r);
      break;
    case JOB_CANCEL:
      cancel_something(j, r);
      break;
    case JOB_NO_FAULT:
    case JOB_DISAGREE:
    case JOB_FAULTS:
      break;
  }
}

/* ---- verdict ------------------------------------------------------------- */

bool job_may_take_a_timeout(const job *j) {
  if (j->fault == JOB_FREEZE) return true;
  if (j->fault != JOB_LEAVE && !j->unknown) return false;
  for (int i = 0; i < j->script.n_calls; i++) {
    if (j->script.calls[i].any) return true;
  }
  return false;
}

static bool names_culprit(const job *j, const gloo_error *error) {
  if (error->root_rank == (int)job_root_rank(j, j->culprit)) return true;
  return j->fault == JOB_CUT &&
         error->root_rank == (int)job_root_rank(j, j->other);
}

/* Returns true if the error names a rank that failed and left. Such a rank
 * cannot report the cause, so a rank that contacts it later learns only that it
 * left. */
static bool names_casualty(const job *j, const gloo_error *error) {
  if (error->status != GLOO_ERR_PEER || error->root_rank < 0) return false;
  const rank *r = &j->ranks[job_rank_of_root(j, (uint32_t)error->root_rank)];
  return r->failed && r->context == NULL;
}

static bool is_right(const job *j, const gloo_error *error) {
  if (j->struck && names_casualty(j, error)) return true;
  if (error->status == GLOO_ERR_TIMEOUT) return job_may_take_a_timeout(j);
  switch (j->fault) {
    case JOB_KILL:
    case JOB_CUT:
    case JOB_LEAVE:
      return j->struck && error->status == GLOO_ERR_PEER &&
             names_culprit(j, error);
    case JOB_CANCEL:
      return j->struck && error->status == GLOO_ERR_CANCELLED &&
             names_culprit(j, error);
    case JOB_DISAGREE: /* a rank without data in the call may differ */
      return (error->status == GLOO_ERR_MISMATCH && error->root_rank < 0) ||
             ((error->status == GLOO_ERR_MISMATCH ||
               error->status == GLOO_ERR_PEER) &&
              names_culprit(j, error));
    case JOB_FREEZE: /* only timeouts, which name the rank waited for */
    case JOB_NO_FAULT:
    case JOB_FAULTS:
      break;
  }
  return false;
}

void job_judge(job *j, rank *r) {
  if (r->dead || r->frozen) return;
  if (!r->failed) {
    if (j->fault == JOB_NO_FAULT) job_check_any(j, r);
    return;
  }
  const gloo_error *e = &r->error;
  if (is_right(j, e)) return;
  job_complain(j, "culprit %u, but rank %u says %s, rank %d: %s",
               job_root_rank(j, j->culprit), job_root_rank(j, r->number),
               gloo_status_string(e->status), e->root_rank, e->message);
}
