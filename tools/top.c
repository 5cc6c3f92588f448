#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "tools/tools.h"
#include "tools/top_read.h"
#include "tools/trace_live.h"
#include "tools/watch.h"

static bool once = false;
static double interval_s = 0;
static double patience_s = 0.5;
static gli_watch_choice choice;

static const gli_option options[] = {
    {"once", 0, GLI_OPTION_FLAG, &once, NULL, "show one interval and exit", 0,
     0},
    {"interval", 'i', GLI_OPTION_SECONDS, &interval_s, "S",
     "interval between lines (1; with --once 0.5)", 0, 3600},
    {"pid", 'p', GLI_OPTION_INTEGER, &choice.process, "PID",
     "only the job of this process, a rank or its launcher", 1, INT32_MAX},
    {"job", 'j', GLI_OPTION_TEXT, &choice.job, "JOB",
     "only the job with this name or prefix", 0, 0},
    {"wait", 'w', GLI_OPTION_SECONDS, &patience_s, "S",
     "how long to wait for answers from ranks (0.5)", 0, 60},
};

static const gli_command command = {
    .name = "top",
    .usage = "gloo top [options] [DIRECTORY]",
    .about =
        "Shows live activity of the ranks of this user's jobs on this host.\n"
        "Marks ranks that are stopped or do not answer, with the call in "
        "which\n"
        "others wait for them. With DIRECTORY, shows only the metrics of "
        "ranks\n"
        "started with GLOO_METRICS=DIRECTORY.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* One reading of all processes: figures of the processes with an answer,
 * ordered by job and rank. */
typedef struct reading {
  double begun_s;
  gli_watch watch;
  gli_top_rank *ranks;
  size_t n, silent;
} reading;

/* ---- reading ------------------------------------------------------------- */

static int top_order(const void *left, const void *right) {
  const gli_top_rank *a = left, *b = right;
  if (a->job != b->job) return a->job < b->job ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->process > b->process) - (a->process < b->process);
}

static bool top_add(reading *r, const gli_watched *w) {
  const char *at = w->text;
  while (at != NULL && *at != '\0') {
    gli_top_rank *more = realloc(r->ranks, (r->n + 1) * sizeof *more);
    if (more == NULL) return false;
    r->ranks = more;
    at = gli_top_parse(at, &more[r->n]);
    more[r->n].read_s = w->read_s;
    r->n += at != NULL && gli_watch_is_job(more[r->n].job, &choice);
  }
  return true;
}

static bool is_silent(const gli_watched *w) {
  return w->state == GLI_WATCH_STOPPED || w->state == GLI_WATCH_SILENT;
}

static void top_free(reading *r) {
  gli_watch_free(&r->watch);
  free(r->ranks);
  *r = (reading){.n = 0};
}

/* Returns false, with errno, if there is no such directory, or no memory. */
static bool top_read(reading *r, const char *directory) {
  *r = (reading){.begun_s = (double)uv_hrtime() / 1e9};
  errno = ENOMEM;
  bool all = directory != NULL ? gli_watch_find_in(&r->watch, directory)
                               : gli_watch_find(&r->watch);
  if (!all) return false;
  gli_watch_choose(&r->watch, &choice);
  gli_watch_ask(&r->watch, "/metrics", patience_s);
  for (size_t i = 0; all && i < r->watch.n; i++) {
    if (!gli_watch_is_job(r->watch.all[i].name.job, &choice) &&
        is_silent(&r->watch.all[i]))
      r->watch.all[i].state = GLI_WATCH_GONE;
    r->silent += is_silent(&r->watch.all[i]);
    if (r->watch.all[i].state == GLI_WATCH_ANSWERED)
      all = top_add(r, &r->watch.all[i]);
  }
  if (r->n > 0) qsort(r->ranks, r->n, sizeof *r->ranks, top_order);
  errno = ENOMEM;
  return all;
}

/* Reads current operations. If that fails, none are shown. */
static void top_read_now(const reading *r, gli_live *live) {
  gli_watch answered = {.all = calloc(r->watch.n + 1, sizeof *answered.all)};
  *live = (gli_live){NULL, 0};
  for (size_t i = 0; answered.all != NULL && i < r->watch.n; i++) {
    if (r->watch.all[i].state != GLI_WATCH_ANSWERED) continue;
    gli_watched *w = &answered.all[answered.n++];
    *w = r->watch.all[i];
    w->text = NULL;
  }
  gli_watch_ask(&answered, "/now", patience_s);
  (void)gli_live_read(live, &answered);
  gli_watch_free(&answered);
}

/* ---- what changed -------------------------------------------------------- */

static const gli_top_rank *same_rank(const reading *r, const gli_top_rank *of) {
  for (size_t i = 0; i < r->n; i++) {
    if (top_order(&r->ranks[i], of) == 0) return &r->ranks[i];
  }
  return NULL;
}

static double late_for(const gli_top_rank *r, int64_t peer) {
  for (size_t i = 0; i < r->n_late; i++) {
    if (r->late_rank[i] == peer) return r->late_seconds[i];
  }
  return 0;
}

/* Finds the rank that it waited for longest since `before`; returns for how
 * long. */
static double find_late(const gli_top_rank *now, const gli_top_rank *before,
                        int64_t *peer) {
  double most = 0;
  for (size_t i = 0; i < now->n_late; i++) {
    double more = now->late_seconds[i] - late_for(before, now->late_rank[i]);
    if (more <= most) continue;
    most = more;
    *peer = now->late_rank[i];
  }
  return most;
}

/* ---- what it does now ---------------------------------------------------- */

static bool is_of_job(const gli_trace_file *f, uint64_t job) {
  return strtoull(f->job, NULL, 16) == job;
}

/* Returns the oldest call in progress; NULL: none. */
static const gli_traced *find_call(const gli_live *live, const gli_top_rank *r,
                                   int64_t *now_ns) {
  for (size_t i = 0; i < live->n; i++) {
    const gli_trace_file *f = &live->files[i];
    if (f->rank != r->rank || f->process != r->process || !is_of_job(f, r->job))
      continue;
    *now_ns = f->now_ns;
    for (size_t k = 0; k < f->n_operations; k++)
      if (f->operations[k].state < GLI_TRACED_COMPLETED)
        return &f->operations[k];
  }
  return NULL;
}

/* Returns the first call in which ranks of the job wait for this rank, and
 * lists them. */
static const gli_traced *find_waiting(const gli_live *live, uint64_t job,
                                      int64_t rank, gli_rank_list *waiting) {
  const gli_traced *call = NULL;
  for (size_t i = 0; i < live->n; i++) {
    const gli_trace_file *f = &live->files[i];
    for (size_t k = 0; is_of_job(f, job) && k < f->n_operations; k++) {
      const gli_traced *o = &f->operations[k];
      if (!gli_traced_waits_for(o, rank)) continue;
      if (call == NULL) call = o;
      gli_rank_list_add(waiting, f->rank);
      break;
    }
  }
  return call;
}

/* ---- rows ---------------------------------------------------------------- */

static void show_rank(const gli_top_rank *now, const gli_top_rank *before,
                      const gli_live *live) {
  double s = now->read_s - before->read_s;
  int64_t peer = -1, now_ns = 0;
  double late = find_late(now, before, &peer);
  char waited[48] = "", call[GLI_TRACE_WORDS_BYTES], in[320] = "";
  if (peer >= 0)
    snprintf(waited, sizeof waited, "rank %" PRId64 ", %.0f %%", peer,
             100 * late / s);
  const gli_traced *o = find_call(live, now, &now_ns);
  if (o != NULL)
    snprintf(in, sizeof in, "%s, %.3g s", gli_traced_words(o, call),
             (double)(now_ns - o->started_ns) / 1e9);
  printf("%6" PRId64 " %8" PRId64 " %10.0f %10.1f %10.1f %8.0f %8.0f  %-16s",
         now->rank, now->process, (now->calls - before->calls) / s,
         (now->bytes_sent - before->bytes_sent) / s / 1e6,
         (now->bytes_received - before->bytes_received) / s / 1e6,
         100 * (now->call_seconds - before->call_seconds) / s, now->running,
         now->failed ? "its context has failed" : waited);
  printf("%s%s\n", in[0] != '\0' ? " " : "", in);
}

static void show_silent(const gli_watched *w, const gli_live *live) {
  char call[GLI_TRACE_WORDS_BYTES], where[GLI_TRACE_WORDS_BYTES];
  gli_rank_list waiting = {.n = 0};
  const gli_traced *o = find_waiting(live, w->name.job, w->name.rank, &waiting);
  printf("%6" PRId64 " %8" PRId64 "  %s", w->name.rank, w->name.process,
         gli_watch_state_words(w->state));
  if (o != NULL)
    printf(": %s wait%s for it in %s%s", gli_rank_list_words(&waiting),
           waiting.n == 1 ? "s" : "", gli_traced_words(o, call),
           gli_traced_where(o, where));
  printf("\n");
}

static void show_job(uint64_t job, const reading *now, const reading *before,
                     const gli_live *live) {
  if (job != 0)
    printf("job %012" PRIx64 "\n", job);
  else
    printf("job unknown\n"); /* its ranks have not met, or do not answer */
  for (size_t i = 0; i < now->n; i++) {
    const gli_top_rank *then = same_rank(before, &now->ranks[i]);
    if (now->ranks[i].job == job && then != NULL &&
        now->ranks[i].read_s > then->read_s)
      show_rank(&now->ranks[i], then, live);
  }
  for (size_t i = 0; i < now->watch.n; i++) {
    const gli_watched *w = &now->watch.all[i];
    if (w->name.job == job && is_silent(w)) show_silent(w, live);
  }
}

/* Finds the lowest job above `above`; returns false if there is none. */
static bool next_job(const reading *r, const uint64_t *above, uint64_t *next) {
  bool found = false;
  for (size_t i = 0; i < r->n + r->watch.n; i++) {
    const gli_watched *w = i < r->n ? NULL : &r->watch.all[i - r->n];
    if (w != NULL && !is_silent(w)) continue;
    uint64_t job = w != NULL ? w->name.job : r->ranks[i].job;
    if (above != NULL && job <= *above) continue;
    if (!found || job < *next) *next = job;
    found = true;
  }
  return found;
}

static void show_all(const reading *now, const reading *before,
                     const gli_live *live) {
  uint64_t job = 0, last = 0;
  printf("%6s %8s %10s %10s %10s %8s %8s  %s\n", "rank", "process", "calls/s",
         "MB/s out", "MB/s in", "in calls", "running", "waited most for");
  for (bool more = next_job(now, NULL, &job); more;
       more = next_job(now, &last, &job)) {
    show_job(job, now, before, live);
    last = job;
  }
  fflush(stdout);
}

/* ---- the command --------------------------------------------------------- */

static int top_nothing(const char *directory) {
  if (directory != NULL)
    fprintf(stderr,
            "gloo top: no rank answers in %s; were the ranks started with "
            "GLOO_METRICS=%s?\n",
            directory, directory);
  else
    fprintf(stderr,
            "gloo top: no such job of this user runs on this host, or it was "
            "started with GLOO_OBSERVE=0\n");
  return GLI_EXIT_FAILED;
}

/* Shows lines until no rank is left. */
static bool top_follow(reading *before, const char *directory) {
  bool good = true;
  while (good && before->n + before->silent > 0) {
    reading now;
    gli_live live = {NULL, 0};
    double spent_s = (double)uv_hrtime() / 1e9 - before->begun_s;
    if (spent_s < interval_s)
      uv_sleep((unsigned)((interval_s - spent_s) * 1000) + 1);
    good = top_read(&now, directory);
    if (good && directory == NULL) top_read_now(&now, &live);
    if (good && !once && isatty(STDOUT_FILENO)) printf("\033[H\033[2J");
    if (good) show_all(&now, before, &live);
    gli_live_free(&live);
    top_free(before);
    *before = now;
    if (once) break;
  }
  return good;
}

static int top_watch(const char *directory) {
  reading before;
  bool good = top_read(&before, directory);
  bool nothing = good && before.n + before.silent == 0;
  if (good && !nothing) good = top_follow(&before, directory);
  int code = errno;
  top_free(&before);
  if (nothing) return top_nothing(directory);
  if (good) return GLI_EXIT_OK;
  fprintf(stderr, "gloo top: %s: %s\n", directory != NULL ? directory : "jobs",
          strerror(code));
  return GLI_EXIT_USAGE;
}

int gli_tool_top(int argc, char **argv) {
  int n = 0;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n > 1 || (n == 1 && (choice.process != 0 || choice.job != NULL)))
    return gli_usage_error(&command,
                           "use only one of DIRECTORY, --pid and --job");
  if (interval_s <= 0) interval_s = once ? 0.5 : 1;
  if (n == 0) (void)gli_trace_readable(command.name); /* shown without calls */
  return top_watch(n == 1 ? argv[0] : NULL);
}
