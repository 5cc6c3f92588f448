/* PMIx: rank 0 puts the text, a fence publishes it, and the other ranks get it.
 *
 * The functions of PMIx have no deadline that all launchers keep: a fence waits
 * for a missing rank as long as the launcher lives, and any function waits for
 * a launcher that is stopped. So a separate thread calls them, and is abandoned
 * after the deadline. MPI uses the same library, which counts its users. */
#include "rendezvous/launch/pmi_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/environment.h"
#include "core/fork.h"
#include "core/signals.h"
#include "core/text.h"
#include "rendezvous/launch/pmi_line.h"
#include "rendezvous/launch/pmix_library.h"
#include "rendezvous/store/store.h"

/* A call of the library in a separate thread. */
typedef struct pmix_call {
  void (*body)(struct pmix_call *call);
  /* Guarded by pmix.lock: */
  bool done, left_alone;
  const char *step; /* current or failed function of PMIx */
  /* Owned by the thread until `done`: */
  int code;  /* result of that function */
  bool sane; /* true if the answer is plausible */
  gli_pmix_proc self;
  uint32_t size;
  char key[GLI_PMIX_KEY_BYTES];
  char text[GLI_PMI_TEXT_BYTES]; /* text to put, or got */
} pmix_call;

static atomic_bool pmix_once;
static struct {
  bool made;
  uv_mutex_t lock;
  uv_cond_t done;
  gli_pmix_library library;
  bool loaded;
  bool begun; /* true after PMIx_Init; PMIx_Finalize may crash without it */
  gli_pmix_proc self;
  gloo_error broken; /* first failure; GLOO_OK if there is none */
} pmix;

static void pmix_make(void) {
  if (uv_mutex_init(&pmix.lock) != 0) return;
  pmix.made = uv_cond_init(&pmix.done) == 0;
  if (!pmix.made) uv_mutex_destroy(&pmix.lock);
}

/* ---- the thread ---------------------------------------------------------- */

static void *pmix_thread(void *argument) {
  pmix_call *call = argument;
  call->body(call);
  uv_mutex_lock(&pmix.lock);
  bool left_alone = call->left_alone;
  call->done = true;
  uv_cond_broadcast(&pmix.done);
  uv_mutex_unlock(&pmix.lock);
  if (left_alone) free(call);
  return NULL;
}

static pmix_call *pmix_call_make(void (*body)(pmix_call *call),
                                 gloo_error *error) {
  pmix_call *call = calloc(1, sizeof *call);
  if (call == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for calling PMIx");
    return NULL;
  }
  call->body = body;
  call->self = pmix.self;
  call->step = "PMIx";
  return call;
}

static gloo_status pmix_explain(const pmix_call *call, gloo_error *error) {
  bool fence = strcmp(call->step, "PMIx_Fence") == 0;
  if (call->code != GLI_PMIX_SUCCESS)
    return gli_fail(error, GLOO_ERR_PEER, -1, "%s: %s says %s (%d)",
                    fence ? "a rank of the job or the launcher exited before "
                            "all ranks called gloo_init"
                          : "cannot reach the launcher",
                    call->step,
                    gli_quote(pmix.library.error_string(call->code)).text,
                    call->code);
  if (!call->sane)
    return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                    "the launcher's answer to %s is invalid", call->step);
  return GLOO_OK;
}

/* Makes the call in a thread. On success the caller frees it; otherwise the
 * thread does. Any failure is permanent. */
static gloo_status pmix_visit(pmix_call *call, uint64_t deadline_ns,
                              const char *late, gloo_error *error) {
  int code = gli_thread_start(pmix_thread, call);
  if (code != 0) {
    free(call);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "cannot start a thread for PMIx: %s",
                    uv_strerror(uv_translate_sys_error(code)));
  }
  uv_mutex_lock(&pmix.lock);
  while (!call->done) {
    int64_t left = gli_deadline_left(deadline_ns);
    if (left == 0) break;
    if (left < 0) {
      uv_cond_wait(&pmix.done, &pmix.lock);
    } else {
      (void)uv_cond_timedwait(&pmix.done, &pmix.lock, (uint64_t)left);
    }
  }
  bool done = call->done;
  const char *step = call->step;
  call->left_alone = !done;
  uv_mutex_unlock(&pmix.lock);
  gloo_status status =
      done ? pmix_explain(call, &pmix.broken)
           : gli_fail(&pmix.broken, GLOO_ERR_TIMEOUT, -1,
                      "%s (%s did not return in time)", late, step);
  if (status == GLOO_OK) return status;
  if (done) free(call);
  return gli_fail(error, status, -1, "%s", pmix.broken.message);
}

/* Notes the function that the thread calls. */
static void pmix_step(pmix_call *call, const char *step) {
  uv_mutex_lock(&pmix.lock);
  call->step = step;
  uv_mutex_unlock(&pmix.lock);
}

/* ---- joining ------------------------------------------------------------- */

static void pmix_begin(pmix_call *call) {
  gli_pmix_value *value = NULL;
  pmix_step(call, "PMIx_Init");
  call->code = pmix.library.init(&call->self, NULL, 0);
  if (call->code != GLI_PMIX_SUCCESS) return;
  uv_mutex_lock(&pmix.lock);
  pmix.begun = true;
  uv_mutex_unlock(&pmix.lock);
  /* Without a launcher the library makes up a job of one rank. */
  call->sane = memchr(call->self.name, '\0', sizeof call->self.name) != NULL &&
               strcmp(call->self.name, call->text) == 0;
  if (!call->sane) return;
  pmix_step(call, "PMIx_Get of the job's size");
  gli_pmix_proc all = call->self;
  all.rank = GLI_PMIX_RANK_ALL;
  strcpy(call->key, "pmix.job.size");
  call->code = pmix.library.get(&all, call->key, NULL, 0, &value);
  if (call->code != GLI_PMIX_SUCCESS) return;
  call->sane = value != NULL && value->type == GLI_PMIX_TYPE_UINT32 &&
               value->data.uint32 > call->self.rank &&
               value->data.uint32 <= GLI_RANKS_MAX;
  if (call->sane) call->size = value->data.uint32;
  free(value);
}

static gloo_status pmix_join(uint64_t deadline_ns, gli_pmi_job *job,
                             gloo_error *error) {
  const char *name = gli_environment_read("PMIX_NAMESPACE");
  gli_once(&pmix_once, pmix_make);
  if (!pmix.made)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for PMIx");
  if (pmix.broken.status != GLOO_OK)
    return gli_fail(error, pmix.broken.status, -1, "%s", pmix.broken.message);
  if (name == NULL || strlen(name) > GLI_PMI_NAME_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the environment variable PMIX_NAMESPACE is %s, expected "
                    "the name of the job, as the launcher sets it",
                    name == NULL ? "not set" : "too long");
  gloo_status status =
      pmix.loaded ? GLOO_OK : gli_pmix_load(&pmix.library, error);
  if (status != GLOO_OK) return status;
  pmix.loaded = true;
  pmix_call *call = pmix_call_make(pmix_begin, error);
  if (call == NULL) return GLOO_ERR_NO_MEMORY;
  strcpy(call->text, name);
  status = pmix_visit(call, deadline_ns, "the launcher does not answer", error);
  if (status != GLOO_OK) return status;
  pmix.self = call->self;
  job->rank = call->self.rank;
  job->size = call->size;
  strcpy(job->name, call->self.name);
  free(call);
  return GLOO_OK;
}

/* ---- telling ------------------------------------------------------------- */

static bool pmix_put(pmix_call *call) {
  gli_pmix_value value = {.type = GLI_PMIX_TYPE_STRING,
                          .data.string = call->text};
  pmix_step(call, "PMIx_Put");
  call->code = pmix.library.put(GLI_PMIX_GLOBAL, call->key, &value);
  if (call->code != GLI_PMIX_SUCCESS) return false;
  pmix_step(call, "PMIx_Commit");
  call->code = pmix.library.commit();
  return call->code == GLI_PMIX_SUCCESS;
}

static void pmix_get(pmix_call *call) {
  gli_pmix_value *value = NULL;
  gli_pmix_proc first = call->self;
  first.rank = 0;
  pmix_step(call, "PMIx_Get");
  call->code = pmix.library.get(&first, call->key, NULL, 0, &value);
  if (call->code != GLI_PMIX_SUCCESS) return;
  bool text = value != NULL && value->type == GLI_PMIX_TYPE_STRING &&
              value->data.string != NULL;
  call->sane = text && strlen(value->data.string) < GLI_PMI_TEXT_BYTES;
  if (call->sane) strcpy(call->text, value->data.string);
  if (text) free(value->data.string);
  free(value);
}

static void pmix_round(pmix_call *call) {
  gli_pmix_proc all = call->self;
  gli_pmix_info collect = {
      .key = "pmix.collect",
      .value = {.type = GLI_PMIX_TYPE_BOOL, .data.flag = true}};
  all.rank = GLI_PMIX_RANK_ALL;
  call->sane = true;
  if (call->self.rank == 0 && !pmix_put(call)) return;
  pmix_step(call, "PMIx_Fence");
  call->code = pmix.library.fence(&all, 1, &collect, 1);
  if (call->code != GLI_PMIX_SUCCESS || call->self.rank == 0) return;
  pmix_get(call);
}

static gloo_status pmix_tell(const gli_pmi_job *job, uint64_t round,
                             const char *text, char *out, size_t room,
                             uint64_t deadline_ns, gloo_error *error) {
  char late[GLI_PMI_NAME_MAX + 200];
  if (pmix.broken.status != GLOO_OK)
    return gli_fail(error, pmix.broken.status, -1, "%s", pmix.broken.message);
  pmix_call *call = pmix_call_make(pmix_round, error);
  if (call == NULL) return GLOO_ERR_NO_MEMORY;
  snprintf(call->key, sizeof call->key, "gloo_c-%" PRIu64, round);
  if (job->rank == 0) strcpy(call->text, text);
  gli_pmi_late(job, late, sizeof late);
  gloo_status status = pmix_visit(call, deadline_ns, late, error);
  if (status != GLOO_OK) return status;
  if (strlen(call->text) < room) {
    strcpy(out, call->text);
  } else {
    status = gli_fail(
        error, GLOO_ERR_PROTOCOL, -1,
        "the value that rank 0 published through the launcher is too long");
  }
  free(call);
  return status;
}

/* ---- leaving ------------------------------------------------------------- */

static void pmix_end(pmix_call *call) {
  pmix_step(call, "PMIx_Finalize");
  call->code = pmix.library.finalize(NULL, 0);
  call->sane = true;
}

/* Ends the session, unless an abandoned thread is still in the library. */
static void pmix_leave(uint64_t deadline_ns) {
  if (pmix.broken.status == GLOO_ERR_TIMEOUT || !pmix.begun) return;
  pmix_call *call = pmix_call_make(pmix_end, NULL);
  if (call == NULL) return;
  if (pmix_visit(call, deadline_ns, "", NULL) == GLOO_OK) free(call);
}

const gli_pmi_ops gli_pmix_ops = {pmix_join, pmix_tell, pmix_leave};
