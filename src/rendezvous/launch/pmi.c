/* The session with the launcher: one thread at a time uses it. */
#include "rendezvous/launch/pmi_kinds.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/fork.h"
#include "core/text.h"
#include "rendezvous/store/store.h"

/* Time limit for the launcher's reply to the farewell. */
#define FAREWELL_NS INT64_C(5000000000)

typedef struct pmi_side {
  const gli_pmi_ops *ops;
  bool joined;
  gli_pmi_job job;
  uint64_t rounds;
} pmi_side;

static struct {
  uv_mutex_t lock; /* guards the other members */
  uv_cond_t quiet;
  gli_fork_guard forks;
  gli_birth birth; /* process that owns the session */
  bool begun;      /* true once a thread has used it */
  bool busy;       /* true while a thread uses it: the thread owns the sides */
  pmi_side sides[2];
} pmi = {.sides = {{.ops = &gli_pmi_simple_ops}, {.ops = &gli_pmix_ops}}};

static atomic_bool pmi_once;
static bool pmi_made;

static void pmi_leave_library(void);

static void pmi_make(void) {
  if (uv_mutex_init(&pmi.lock) != 0) return;
  if (uv_cond_init(&pmi.quiet) != 0) goto destroy_lock;
  if (!gli_fork_guard_begin(&pmi.forks, GLI_FORK_OBJECTS, &pmi.lock,
                            &pmi.quiet))
    goto destroy_quiet;
  if (atexit(pmi_leave_library) != 0) goto end_guard;
  pmi_made = true;
  return;

end_guard:
  gli_fork_guard_end(&pmi.forks);
destroy_quiet:
  uv_cond_destroy(&pmi.quiet);
destroy_lock:
  uv_mutex_destroy(&pmi.lock);
}

/* ---- one thread at a time ------------------------------------------------ */

static gloo_status pmi_enter(uint64_t deadline_ns, gloo_error *error) {
  gloo_status status = GLOO_OK;
  gli_once(&pmi_once, pmi_make);
  if (!pmi_made)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the connection to the launcher");
  uv_mutex_lock(&pmi.lock);
  while (status == GLOO_OK) {
    if (pmi.begun && gli_forked(&pmi.birth)) {
      status = gli_fail(error, GLOO_ERR_FORKED, -1,
                        "the parent of this forked process, process %ld, "
                        "already uses the launcher, which serves only one of "
                        "the two: give this process its own rank (GLOO_RANK, "
                        "GLOO_SIZE, GLOO_STORE), or fork before gloo_init",
                        (long)pmi.birth.pid);
    } else if (!pmi.busy) {
      break;
    } else {
      int64_t left = gli_deadline_left(deadline_ns);
      if (left == 0) {
        status = gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                          "another thread of this process is in gloo_init and "
                          "did not finish in time");
      } else if (left < 0) {
        uv_cond_wait(&pmi.quiet, &pmi.lock);
      } else {
        (void)uv_cond_timedwait(&pmi.quiet, &pmi.lock, (uint64_t)left);
      }
    }
  }
  if (status == GLOO_OK) {
    if (!pmi.begun) pmi.birth = gli_birth_here();
    pmi.begun = pmi.busy = true;
  }
  uv_mutex_unlock(&pmi.lock);
  return status;
}

static void pmi_exit(void) {
  uv_mutex_lock(&pmi.lock);
  pmi.busy = false;
  uv_cond_broadcast(&pmi.quiet);
  uv_mutex_unlock(&pmi.lock);
}

/* ---- the farewell -------------------------------------------------------- */

/* Ends the session when the process exits or the library is unloaded. The last
 * context is too early: the program may make another, or call MPI_Init, and the
 * launcher accepts no request after the farewell. A process that ends without
 * it (_exit, a signal) looks to the launcher like a crashed one, and takes the
 * job with it; hydra's mpiexec then still returns 0.
 *
 * If a thread is still in gloo_init, its rank never joined, which is no regular
 * end: no farewell then. */
static void pmi_leave(gli_pmi_kind kind) {
  pmi_side *side = &pmi.sides[kind];
  if (!pmi_made) return;
  uv_mutex_lock(&pmi.lock);
  bool ours = pmi.begun && !pmi.busy && !gli_forked(&pmi.birth);
  if (ours) pmi.busy = true;
  uv_mutex_unlock(&pmi.lock);
  if (!ours) return;
  side->ops->leave(gli_deadline_after(FAREWELL_NS));
  side->joined = false;
  pmi_exit();
}

/* Ends the PMIx session. It runs before the exit handlers of libpmix, which was
 * loaded later. */
static void pmi_leave_library(void) {
  pmi_leave(GLI_PMI_PMIX);
}

/* Ends the PMI-1 session after all atexit handlers: MPICH 5 sends the farewell
 * in one of them, and dies if the socket is closed already. */
#if defined(__GNUC__)
__attribute__((__destructor__))
#endif
static void
pmi_leave_socket(void) {
  pmi_leave(GLI_PMI_SIMPLE);
}

void gli_pmi_late(const gli_pmi_job *job, char *out, size_t room) {
  snprintf(out, room,
           "not all %" PRIu32
           " ranks of the job '%s' called gloo_init in time; the launcher does "
           "not report which did not",
           job->size, gli_quote(job->name).text);
}

/* ---- requests ------------------------------------------------------------ */

static gloo_status side_join(pmi_side *side, uint64_t deadline_ns,
                             gloo_error *error) {
  if (side->joined) return GLOO_OK;
  gloo_status status = side->ops->join(deadline_ns, &side->job, error);
  side->joined = status == GLOO_OK;
  return status;
}

gloo_status gli_pmi_join(gli_pmi_kind kind, int64_t timeout_ns,
                         gli_pmi_job *job, gloo_error *error) {
  uint64_t deadline = gli_deadline_after(timeout_ns);
  gloo_status status = pmi_enter(deadline, error);
  if (status != GLOO_OK) return status;
  pmi_side *side = &pmi.sides[kind];
  status = side_join(side, deadline, error);
  if (status == GLOO_OK) *job = side->job;
  pmi_exit();
  return status;
}

gloo_status gli_pmi_tell(gli_pmi_kind kind, const char *text, char *out,
                         size_t room, int64_t timeout_ns, gloo_error *error) {
  uint64_t deadline = gli_deadline_after(timeout_ns);
  gloo_status status = pmi_enter(deadline, error);
  if (status != GLOO_OK) return status;
  pmi_side *side = &pmi.sides[kind];
  status = side_join(side, deadline, error);
  if (status == GLOO_OK && side->job.rank == 0 &&
      (strlen(text) >= room || strlen(text) >= GLI_PMI_TEXT_BYTES))
    status = gli_fail(error, GLOO_ERR_INVALID, -1,
                      "a text of %zu bytes is too long for the launcher",
                      strlen(text));
  if (status == GLOO_OK)
    status = side->ops->tell(&side->job, ++side->rounds, text, out, room,
                             deadline, error);
  pmi_exit();
  return status;
}
