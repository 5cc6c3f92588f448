#include "tools/trace_live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tools/tools.h"

/* Time between two readings: operations in only one of them were making
 * progress. */
enum { CONFIRM_MS = 100 };

/* ---- answers ------------------------------------------------------------- */

static int live_order(const void *left, const void *right) {
  const gli_trace_file *a = left, *b = right;
  int order = strcmp(a->job, b->job);
  if (order != 0) return order;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->process > b->process) - (a->process < b->process);
}

static bool live_add(gli_live *live, const gli_watched *from, const char *text,
                     size_t bytes) {
  char why[GLI_TRACE_WHY_BYTES];
  gli_trace_file *more =
      realloc(live->files, (live->n + 1) * sizeof *live->files);
  if (more == NULL) return false;
  live->files = more;
  char *copy = malloc(bytes + 1);
  if (copy == NULL) return false;
  memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  live->n += gli_trace_parse(&more[live->n], from->path, copy, bytes, why);
  return true;
}

/* Objects follow each other, and each begins a line as no other line does. */
bool gli_live_read(gli_live *live, const gli_watch *watch) {
  static const char start[] = "\n{\"gloo_trace\"";
  *live = (gli_live){NULL, 0};
  for (size_t i = 0; i < watch->n; i++) {
    const gli_watched *w = &watch->all[i];
    const char *at = w->state == GLI_WATCH_ANSWERED ? w->text : NULL;
    while (at != NULL && *at != '\0') {
      const char *end = strstr(at, start);
      size_t bytes = end != NULL ? (size_t)(end + 1 - at) : strlen(at);
      if (!live_add(live, w, at, bytes)) return false;
      at += bytes;
    }
  }
  if (live->n > 0) qsort(live->files, live->n, sizeof *live->files, live_order);
  return true;
}

void gli_live_free(gli_live *live) {
  for (size_t i = 0; i < live->n; i++) gli_trace_unload(&live->files[i]);
  free(live->files);
  *live = (gli_live){NULL, 0};
}

/* ---- a second look ------------------------------------------------------- */

static bool live_is_same(const gli_traced *a, const gli_traced *b) {
  return strcmp(a->call, b->call) == 0 && strcmp(a->group, b->group) == 0 &&
         a->tag == b->tag && a->request == b->request && a->peer == b->peer &&
         a->sequence == b->sequence;
}

static bool live_is_under_way(const gli_trace_file *f, const gli_traced *o) {
  for (size_t i = 0; i < f->n_operations; i++)
    if (f->operations[i].state < GLI_TRACED_COMPLETED &&
        live_is_same(&f->operations[i], o))
      return true;
  return false;
}

/* Confirms waiting calls: ranks answer one after the other while a running job
 * goes on, so only calls that are still in progress a moment later are waiting.
 */
static void live_confirm(gli_live *live, const gli_live *later) {
  for (size_t i = 0; i < live->n; i++) {
    gli_trace_file *f = &live->files[i];
    const gli_trace_file *now = later->n > 0
                                    ? bsearch(f, later->files, later->n,
                                              sizeof *later->files, live_order)
                                    : NULL;
    for (size_t k = 0; now != NULL && k < f->n_operations; k++) {
      gli_traced *o = &f->operations[k];
      if (o->state >= GLI_TRACED_COMPLETED || live_is_under_way(now, o))
        continue;
      o->state = GLI_TRACED_COMPLETED;
      o->waits = NULL;
    }
  }
}

/* Returns false if out of memory. */
static bool live_look_again(gli_live *live, const gli_watch *watch,
                            double patience_s) {
  gli_live later;
  gli_watch answered = {.all = calloc(watch->n + 1, sizeof *answered.all)};
  if (answered.all == NULL) return false;
  for (size_t i = 0; i < watch->n; i++) {
    if (watch->all[i].state != GLI_WATCH_ANSWERED) continue;
    gli_watched *w = &answered.all[answered.n++];
    *w = watch->all[i];
    w->text = NULL;
  }
  uv_sleep(CONFIRM_MS);
  gli_watch_ask(&answered, "/now", patience_s);
  bool read = gli_live_read(&later, &answered);
  if (read) live_confirm(live, &later);
  gli_live_free(&later);
  gli_watch_free(&answered);
  return read;
}

/* ---- a report of each job ------------------------------------------------ */

static bool live_add_absent(gli_traces *traces, const gli_watched *w) {
  gli_trace_absent *more =
      realloc(traces->absent, (traces->n_absent + 1) * sizeof *more);
  if (more == NULL) return false;
  traces->absent = more;
  more[traces->n_absent++] =
      (gli_trace_absent){.rank = w->name.rank,
                         .process = w->name.process,
                         .how = gli_watch_state_words(w->state)};
  return true;
}

static bool live_is_absent(const gli_watched *w) {
  return w->state == GLI_WATCH_STOPPED || w->state == GLI_WATCH_SILENT;
}

/* Reports files[from .. to - 1], which belong to one job. */
static int live_report(const gli_live *live, size_t from, size_t to,
                       const gli_watch *watch, const char *timeline) {
  gli_traces traces = {.files = live->files + from,
                       .n = to - from,
                       .size = live->files[from].size,
                       .live = true};
  uint64_t job = strtoull(live->files[from].job, NULL, 16);
  bool all = true;
  for (size_t i = 0; all && i < watch->n; i++)
    if (watch->all[i].name.job == job && live_is_absent(&watch->all[i]))
      all = live_add_absent(&traces, &watch->all[i]);
  printf("job %s: ", live->files[from].job);
  int status = all ? gli_trace_report(&traces, timeline) : GLI_EXIT_USAGE;
  free(traces.absent);
  return status;
}

/* Reports ranks of jobs from which no rank has answered, or that have not met.
 */
static int live_report_others(const gli_live *live, const gli_watch *watch,
                              const gli_watch_choice *choice) {
  int status = GLI_EXIT_OK;
  for (size_t i = 0; i < live->n && live->files[i].job[0] == '\0'; i++) {
    const gli_trace_file *f = &live->files[i];
    printf("rank %" PRId64 " of %" PRId64 " (process %" PRId64
           ") waits for the other ranks to meet\n",
           f->rank, f->size, f->process);
    status = GLI_EXIT_FAILED;
  }
  for (size_t i = 0; i < watch->n; i++) {
    const gli_watched *w = &watch->all[i];
    char job[17];
    size_t k = 0;
    snprintf(job, sizeof job, "%012" PRIx64, w->name.job);
    while (k < live->n && strcmp(live->files[k].job, job) != 0) k++;
    if (k < live->n || !live_is_absent(w)) continue;
    if (!gli_watch_is_job(w->name.job, choice)) continue;
    printf("job %s: rank %" PRId64 " %s (process %" PRId64 ")\n", job,
           w->name.rank, gli_watch_state_words(w->state), w->name.process);
    status = GLI_EXIT_FAILED;
  }
  return status;
}

static bool live_is_chosen(const gli_live *live, size_t from, size_t to,
                           const gli_watch *watch,
                           const gli_watch_choice *choice) {
  const char *job = live->files[from].job;
  if (choice->job != NULL)
    return strncmp(job, choice->job, strlen(choice->job)) == 0;
  for (size_t i = 0; i < watch->n; i++) {
    const gli_watched *w = &watch->all[i];
    if (!gli_watch_is_process(w, choice->process)) continue;
    if (w->name.job == strtoull(job, NULL, 16)) return true;
    for (size_t k = from; k < to; k++)
      if (live->files[k].process == w->name.process) return true;
  }
  return false;
}

static int live_report_nothing(void) {
  fprintf(stderr,
          "gloo trace: no such job of this user runs on this host, or it was "
          "started with GLOO_OBSERVE=0; `gloo top` lists running jobs\n");
  return GLI_EXIT_USAGE;
}

static int live_report_all(const gli_live *live, const gli_watch *watch,
                           const gli_watch_choice *choice,
                           const char *timeline) {
  int status = live_report_others(live, watch, choice);
  size_t from = 0;
  bool chosen = status != GLI_EXIT_OK;
  while (from < live->n && live->files[from].job[0] == '\0') from++;
  for (size_t to = from; from < live->n; from = to) {
    while (to < live->n &&
           strcmp(live->files[to].job, live->files[from].job) == 0)
      to++;
    if (!live_is_chosen(live, from, to, watch, choice)) continue;
    int one = live_report(live, from, to, watch, timeline);
    if (one > status) status = one;
    chosen = true;
  }
  return chosen ? status : live_report_nothing();
}

int gli_trace_running(const gli_watch_choice *choice, double patience_s,
                      const char *timeline) {
  gli_watch watch;
  gli_live live = {NULL, 0};
  int status = GLI_EXIT_USAGE;
  bool good = gli_watch_find(&watch);
  size_t n = 0;
  if (good) gli_watch_choose(&watch, choice);
  if (good) gli_watch_ask(&watch, "/trace", patience_s);
  for (size_t i = 0; i < watch.n; i++)
    n += watch.all[i].state != GLI_WATCH_GONE;
  good = good && gli_live_read(&live, &watch);
  good = good && live_look_again(&live, &watch, patience_s);
  if (!good)
    fprintf(stderr, "gloo trace: out of memory\n");
  else if (n == 0)
    (void)live_report_nothing();
  else
    status = live_report_all(&live, &watch, choice, timeline);
  gli_live_free(&live);
  gli_watch_free(&watch);
  return status;
}
