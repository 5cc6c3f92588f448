/* Ranks of `gloo doctor --selftest`: processes, threads, and a rank that kills
 * itself. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tools/selftest.h"
#include "tools/tools.h"

static bool complain(const char *what, const gloo_error *error) {
  gli_selftest_say(GLI_SELFTEST_FAILED, what, "%s", error->message);
  return false;
}

/* ---- processes ----------------------------------------------------------- */

/* Stores are checked on one host only: others lack its files and its
 * loopback. */
static bool check_processes(gloo_context *context) {
  gloo_error error;
  gli_meeting meeting;
  bool right = false;
  if (gli_meeting_open(&meeting, context, &error) != GLOO_OK)
    return complain("start", &error);
  bool good = gli_selftest_checks(context, &meeting, &right);
  if (good && gloo_context_hosts(context) == 1)
    good = gli_selftest_stores(context, NULL);
  if (!good) gli_meeting_break(&meeting);
  gli_meeting_close(&meeting);
  return good && right;
}

/* Kills the last rank. The others wait for it in a collective, and must get an
 * error that names it. */
static bool check_killed(gloo_context *context, double limit_s) {
  static const char what[] = "killed rank";
  int last = gloo_context_size(context) - 1, rank = gloo_context_rank(context);
  gloo_error error;
  int32_t sum = 1;
  gloo_status status = gloo_barrier(context, NULL, &error);
  if (status != GLOO_OK) return complain(what, &error);
  if (rank == last) (void)uv_kill(uv_os_getpid(), SIGKILL);
  uint64_t begun = uv_hrtime();
  while (status == GLOO_OK)
    status = gloo_allreduce(context, GLOO_IN_PLACE, &sum, 1, GLOO_INT32,
                            GLOO_MIN, NULL, &error);
  double seconds = (double)(uv_hrtime() - begun) / 1e9;
  bool named = error.rank == last && seconds <= limit_s;
  gli_selftest_say(named ? GLI_SELFTEST_PASSED : GLI_SELFTEST_FAILED, what,
                   "rank %d %s rank %d after %.3g s: %s", rank,
                   named ? "named" : "should have named", last, seconds,
                   error.message);
  return named;
}

static int be_process(bool kills, double timeout_s) {
  gloo_context_options with = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options options = GLOO_INIT_OPTIONS_INIT;
  gloo_context *context;
  gloo_error error;
  with.timeout_ns = (int64_t)(timeout_s * 1e9);
  options.context = &with;
  if (gloo_init(&options, &context, &error) != GLOO_OK) {
    (void)complain("start", &error);
    return GLI_EXIT_FAILED;
  }
  bool good =
      kills ? check_killed(context, timeout_s) : check_processes(context);
  gloo_context_destroy(context);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

/* ---- threads ------------------------------------------------------------- */

typedef struct thread_rank {
  uv_thread_t thread;
  gloo_store *store;
  gli_meeting_area *area;
  int rank;
  double timeout_s;
  bool good;
} thread_rank;

static bool check_thread(const thread_rank *t, gloo_context *context) {
  gli_meeting meeting;
  bool right = false;
  gli_meeting_share(&meeting, context, t->area);
  bool good = gli_selftest_checks(context, &meeting, &right) &&
              gli_selftest_stores(context, t->store);
  if (!good) gli_meeting_break(&meeting);
  gli_meeting_close(&meeting);
  return good && right;
}

static void thread_main(void *argument) {
  thread_rank *t = argument;
  gloo_device_options with = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options options = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device *device = NULL;
  gloo_context *context;
  gloo_error error;
  with.transport = "inproc";
  options.timeout_ns = (int64_t)(t->timeout_s * 1e9);
  gloo_status status = gloo_device_create(&with, &device, &error);
  if (status == GLOO_OK)
    status = gloo_context_create(t->rank, GLI_SELFTEST_RANKS, t->store, device,
                                 &options, &context, &error);
  if (status == GLOO_OK) {
    t->good = check_thread(t, context);
    gloo_context_destroy(context);
  } else {
    t->good = complain("start", &error);
  }
  gloo_device_destroy(device);
}

static int be_threads(double timeout_s) {
  static gli_meeting_area area;
  thread_rank ranks[GLI_SELFTEST_RANKS];
  gloo_store *store;
  gloo_error error;
  int n = 0, code = 0;
  bool good = true;
  if (gloo_store_memory_create(&store, &error) != GLOO_OK) {
    (void)complain("start", &error);
    return GLI_EXIT_FAILED;
  }
  for (; n < GLI_SELFTEST_RANKS; n++) {
    thread_rank *t = &ranks[n];
    *t = (thread_rank){
        .store = store, .area = &area, .rank = n, .timeout_s = timeout_s};
    code = uv_thread_create(&t->thread, thread_main, t);
    if (code != 0) break;
  }
  if (code != 0) {
    good = false;
    gli_selftest_say(GLI_SELFTEST_FAILED, "start",
                     "cannot start thread %d of %d: %s", n + 1,
                     GLI_SELFTEST_RANKS, uv_strerror(code));
    atomic_store(&area.broken, 1);
  }
  for (int i = 0; i < n; i++) {
    uv_thread_join(&ranks[i].thread);
    good = good && ranks[i].good;
  }
  gloo_store_destroy(store);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

int gli_selftest_part(const char *part, double timeout_s) {
  if (strcmp(part, "threads") == 0) return be_threads(timeout_s);
  return be_process(strcmp(part, "killed") == 0, timeout_s);
}
