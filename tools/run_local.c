/* A job whose ranks all run on this host. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/run.h"
#include "tools/tools.h"

enum { LOCAL_TICK_MS = 10 };

typedef struct local_job {
  const gli_run_options *options;
  uv_loop_t loop;
  uv_timer_t tick;
  uv_signal_t signals[GLI_RUN_FORWARDED];
  bool signal_used[GLI_RUN_FORWARDED];
  gli_run_job *ranks;
  gli_run_policy policy;
  int lost_output; /* why standard output could not be written, or 0 */
} local_job;

/* ---- what the policy asks for -------------------------------------------- */

static void local_signal_all(void *user, int signum) {
  gli_run_job_signal(((local_job *)user)->ranks, signum);
}

static bool local_runs(void *user, int rank) {
  return gli_run_job_runs(((local_job *)user)->ranks, rank);
}

/* A newcomer needs ranks that it can join. */
static bool local_replace(void *user, int rank) {
  local_job *j = user;
  return gli_run_job_running(j->ranks) > 0 &&
         gli_run_job_replace(j->ranks, rank) == 0;
}

static void local_say(void *user, const char *line) {
  (void)user;
  fprintf(stderr, "gloo run: %s\n", line);
}

static void local_on_tick(uv_timer_t *timer) {
  local_job *j = timer->data;
  if (!gli_run_policy_tick(&j->policy, uv_now(&j->loop))) uv_timer_stop(timer);
}

static void local_need_ticks(local_job *j) {
  if (j->policy.failed && !uv_is_active((uv_handle_t *)&j->tick))
    uv_timer_start(&j->tick, local_on_tick, 0, LOCAL_TICK_MS);
}

/* ---- what the ranks report ----------------------------------------------- */

static void local_ended(void *user, const gli_run_end *end) {
  local_job *j = user;
  gli_run_policy_ended(&j->policy, uv_now(&j->loop), end);
  local_need_ticks(j);
}

/* Prefixes, lines and newlines are one write, so that lines of other writers to
 * the same file stay whole, too. */
static bool local_output(void *user, int rank, int fd, const char *data,
                         size_t bytes) {
  local_job *j = user;
  char prefix[16];
  size_t made;
  snprintf(prefix, sizeof prefix, "[%d] ", rank);
  char *text = gli_run_prefixed(prefix, data, bytes, &made);
  errno = ENOMEM;
  bool good = text != NULL && gli_run_write_all(fd, text, made);
  if (!good && fd == 1) j->lost_output = errno;
  free(text);
  return good;
}

static void local_taken(void *user) {
  (void)user;
}

static void local_done(void *user) {
  local_job *j = user;
  uv_close((uv_handle_t *)&j->tick, NULL);
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (j->signal_used[i]) uv_close((uv_handle_t *)&j->signals[i], NULL);
  }
}

/* ---- the job ------------------------------------------------------------- */

static void local_on_signal(uv_signal_t *handle, int signum) {
  gli_run_policy_signal(handle->data, signum);
}

static void local_watch_signals(local_job *j) {
  for (int i = 0; i < GLI_RUN_FORWARDED; i++) {
    if (gli_run_ignores(gli_run_forwarded[i])) continue;
    if (uv_signal_init(&j->loop, &j->signals[i]) != 0) continue;
    j->signals[i].data = &j->policy;
    j->signal_used[i] = true;
    uv_signal_start(&j->signals[i], local_on_signal, gli_run_forwarded[i]);
  }
}

static void local_start(local_job *j) {
  int rank, result = gli_run_job_start(j->ranks, &rank);
  if (result == 0) return;
  char text[256];
  snprintf(text, sizeof text, "cannot start rank %d of %d: %s", rank,
           j->options->ranks, uv_strerror(result));
  gli_run_policy_stop(&j->policy, uv_now(&j->loop), text, GLI_EXIT_CANNOT_RUN);
  if (!uv_is_closing((uv_handle_t *)&j->tick)) local_need_ticks(j);
}

int gli_run_local(void *with, const sigset_t *mask) {
  static const gli_run_policy_ops ops = {local_signal_all, local_runs,
                                         local_say, local_replace};
  static const gli_run_events events = {local_ended, local_output, local_taken,
                                        local_done};
  static local_job j; /* handles must not move */
  gli_run_options *options = with;
  gloo_store *store = NULL;
  gloo_error error;
  if (options->serves &&
      gli_run_store_serve(options->store, &options->environment, &store,
                          &error) != GLOO_OK) {
    fprintf(stderr, "gloo run: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  memset(&j, 0, sizeof j);
  j.options = options;
  j.policy = (gli_run_policy){.ops = &ops,
                              .user = &j,
                              .ranks = options->ranks,
                              .min_ranks = options->min_ranks,
                              .max_restarts = options->max_restarts,
                              .grace_ms = (uint64_t)options->grace_ms};
  if (uv_loop_init(&j.loop) == 0)
    j.ranks = gli_run_job_open(&j.loop, options, &events, &j);
  if (j.ranks == NULL) {
    fprintf(stderr, "gloo run: out of memory or descriptors\n");
    gloo_store_destroy(store);
    return GLI_EXIT_CANNOT_RUN;
  }
  signal(SIGPIPE, SIG_IGN);
  uv_timer_init(&j.loop, &j.tick);
  j.tick.data = &j;
  local_watch_signals(&j);
  sigprocmask(SIG_SETMASK, mask, NULL);
  local_start(&j);
  uv_run(&j.loop, UV_RUN_DEFAULT);
  gli_run_policy_finish(&j.policy, options->ranks > 1);
  uv_loop_close(&j.loop);
  gli_run_job_free(j.ranks);
  gloo_store_destroy(store);
  return gli_run_output_status(j.lost_output, j.policy.exit_status);
}
