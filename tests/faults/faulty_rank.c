#define _GNU_SOURCE
#include "faults/faulty_rank.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ranks/sanitized.h"

#if defined(SANITIZED_FOR_MEMORY)
int __lsan_do_recoverable_leak_check(void);
#endif

/* Elements per rank of the largest call, and space for those of all ranks. */
enum { LARGE = 50000, ROOM = LARGE * FAULTY_RANKS, KINDS = 10 };
static const size_t counts[] = {1, 1000, LARGE};

/* ---- resources of a process ---------------------------------------------- */

static int entries(const char *path) {
  int n = 0;
  DIR *dir = opendir(path);
  while (dir != NULL && readdir(dir) != NULL) n++;
  if (dir != NULL) closedir(dir);
  return n;
}

/* A joined thread may stay listed for a moment. */
static int threads_left(int before) {
  const struct timespec moment = {0, 1000000};
  int n = entries("/proc/self/task");
  for (int i = 0; i < 2000 && n > before; i++) {
    nanosleep(&moment, NULL);
    n = entries("/proc/self/task");
  }
  return n - before;
}

static void tell_descriptors(void) {
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
    char path[300], target[200] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%s", d->d_name);
    if (readlink(path, target, sizeof target - 1) > 0)
      fprintf(stderr, "descriptor %s is %s\n", d->d_name, target);
  }
  if (dir != NULL) closedir(dir);
}

/* Leaves a region for the next small allocation, as the last one does, unless a
 * failure has made it private. */
static void keep_small_region(void) {
  void *small;
  if (gloo_alloc(1, &small, NULL) == GLOO_OK) gloo_free(small);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- collectives --------------------------------------------------------- */

typedef struct work {
  gloo_context *context;
  int rank, size;
  int32_t *in, *out;
  bool wrong;
} work;

/* Returns element i of the input of rank r. */
static int32_t given(int r, size_t i) {
  return (int32_t)(r * 1000 + (int)(i % 1000));
}

static int32_t sum_given(int first, int end, size_t i) {
  int32_t sum = 0;
  for (int r = first; r < end; r++) sum += given(r, i);
  return sum;
}

/* Returns the expected element i of this rank's output. */
static int32_t expected(const work *w, int kind, size_t count, size_t i) {
  int block = (int)(i / count);
  switch (kind) {
    case 0:
      return sum_given(0, w->size, i);
    case 1:
      return given(1, i);
    case 2:
    case 5:
      return given(block, i % count);
    case 3:
      return sum_given(0, w->size, (size_t)w->rank * count + i);
    case 4:
      return given(block, (size_t)w->rank * count + i % count);
    case 6:
      return sum_given(0, w->rank + 1, i);
    case 8:
      return given(w->size - 1 - block,
                   (size_t)(w->size - 1 - w->rank) * count + i % count);
    default:
      return given((w->rank + w->size - 1) % w->size, i);
  }
}

static size_t expected_count(const work *w, int kind, size_t count) {
  if (kind == 2 || kind == 4 || kind == 8) return count * (size_t)w->size;
  if (kind == 5) return w->rank == 1 ? count * (size_t)w->size : 0;
  return count;
}

/* Sends to the next rank and receives from the previous one; the helper thread
 * may run meanwhile. */
static gloo_status pass_on(const work *w, size_t count) {
  gloo_request *op;
  gloo_status status =
      gloo_send_start(w->context, w->in, count, GLOO_INT32,
                      (w->rank + 1) % w->size, NULL, &op, NULL);
  if (status != GLOO_OK) return status;
  status = gloo_recv(w->context, w->out, count, GLOO_INT32,
                     (w->rank + w->size - 1) % w->size, NULL, NULL);
  gloo_status sent = gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL);
  gloo_request_destroy(op);
  return status == GLOO_OK ? sent : status;
}

/* Lists blocks in reverse order, so that they are not contiguous. */
static gloo_status exchange_lists(const work *w, size_t count) {
  const void *inputs[FAULTY_RANKS];
  void *outputs[FAULTY_RANKS];
  for (int r = 0; r < w->size; r++) {
    size_t first = (size_t)(w->size - 1 - r) * count;
    inputs[r] = w->in + first;
    outputs[r] = w->out + first;
  }
  return gloo_alltoall_list(w->context, inputs, outputs, count, GLOO_INT32,
                            NULL, NULL);
}

/* Puts every other element once more, and flushes by a request. */
static gloo_status put_some_again(const work *w, gloo_window *window,
                                  size_t count) {
  gloo_request *request;
  size_t element = sizeof *w->in;
  gloo_status status = gloo_window_put_strided(
      window, (w->rank + 1) % w->size, 8, 2 * element, w->in, 2 * element,
      element, (count + 1) / 2, NULL);
  if (status == GLOO_OK)
    status = gloo_window_flush_all_start(window, &request, NULL);
  if (status != GLOO_OK) return status;
  status = gloo_request_wait(request, 0, NULL);
  gloo_request_destroy(request);
  return status;
}

/* Puts into the next rank's part of the window, behind a word that signals it;
 * the output is the block put by the previous rank. */
static gloo_status use_window(const work *w, size_t count) {
  gloo_window *window;
  size_t bytes = count * sizeof *w->out;
  gloo_status status =
      gloo_window_create(w->context, NULL, 8 + bytes, NULL, &window, NULL);
  if (status != GLOO_OK) return status;
  status = gloo_window_put_signal(window, (w->rank + 1) % w->size, 8, w->in,
                                  bytes, 0, GLOO_SIGNAL_ADD, 1, NULL);
  if (status == GLOO_OK)
    status =
        gloo_window_wait_until(window, 0, GLOO_COMPARE_EQ, 1, 0, NULL, NULL);
  if (status == GLOO_OK)
    memcpy(w->out, (const char *)gloo_window_memory(window) + 8, bytes);
  if (status == GLOO_OK) status = put_some_again(w, window, count);
  if (status == GLOO_OK) status = gloo_window_fence(window, NULL);
  gloo_status end = gloo_window_destroy(window, NULL);
  return status != GLOO_OK ? status : end;
}

static const char *const kind_names[KINDS] = {
    "allreduce", "broadcast", "allgather",     "reduce_scatter", "alltoall",
    "gather",    "scan",      "send and recv", "alltoall_list",  "a window"};

static gloo_status call(const work *w, int kind, size_t count) {
  switch (kind) {
    case 0:
      return gloo_allreduce(w->context, w->in, w->out, count, GLOO_INT32,
                            GLOO_SUM, NULL, NULL);
    case 1:
      return gloo_broadcast(w->context, w->in, w->out, count, GLOO_INT32, 1,
                            NULL, NULL);
    case 2:
      return gloo_allgather(w->context, w->in, w->out, count, GLOO_INT32, NULL,
                            NULL);
    case 3:
      return gloo_reduce_scatter(w->context, w->in, w->out, count, GLOO_INT32,
                                 GLOO_SUM, NULL, NULL);
    case 4:
      return gloo_alltoall(w->context, w->in, w->out, count, GLOO_INT32, NULL,
                           NULL);
    case 5:
      return gloo_gather(w->context, w->in, w->out, count, GLOO_INT32, 1, NULL,
                         NULL);
    case 6:
      return gloo_scan(w->context, w->in, w->out, count, GLOO_INT32, GLOO_SUM,
                       NULL, NULL);
    case 8:
      return exchange_lists(w, count);
    case 9:
      return use_window(w, count);
    default:
      return pass_on(w, count);
  }
}

static bool check(const work *w, int kind, size_t count) {
  size_t n = expected_count(w, kind, count);
  for (size_t i = 0; i < n; i++)
    if (w->out[i] != expected(w, kind, count, i)) return false;
  return true;
}

/* A refused call leaves the context usable, but the other ranks wait for this
 * one, so it stops. */
static gloo_status all_collectives(work *w, faulty_report *report,
                                   gloo_error *error) {
  for (size_t s = 0; s < sizeof counts / sizeof counts[0]; s++) {
    for (int kind = 0; kind < KINDS; kind++) {
      if (kind == 9 && counts[s] != 1000) continue; /* it takes many calls */
      memset(w->out, 0xff, ROOM * sizeof *w->out);
      gloo_status status = call(w, kind, counts[s]);
      if (status != GLOO_OK) {
        snprintf(report->where, sizeof report->where, "%s", kind_names[kind]);
        gloo_status cause = gloo_context_error(w->context, error);
        return cause != GLOO_OK ? cause : status;
      }
      if (!check(w, kind, counts[s])) report->wrong = true;
    }
  }
  return GLOO_OK;
}

/* The input is in memory that other ranks can map, the output is not. */
static gloo_status use_context(gloo_context *context, faulty_report *report,
                               int32_t *out, gloo_error *error) {
  work w = {.context = context,
            .rank = gloo_context_rank(context),
            .size = gloo_context_size(context),
            .out = out};
  void *in;
  snprintf(report->where, sizeof report->where, "gloo_alloc");
  gloo_status status = gloo_alloc(ROOM * sizeof *w.in, &in, error);
  if (status != GLOO_OK) return status;
  w.in = in;
  for (size_t i = 0; i < ROOM; i++) w.in[i] = given(w.rank, i);
  status = all_collectives(&w, report, error);
  gloo_free(in);
  return status;
}

/* ---- the rank ------------------------------------------------------------ */

static void let_calls_fail(const faulty_plan *plan) {
  if (plan->longest_fallocate > 0)
    failing_calls_interrupt_fallocate(plan->longest_fallocate);
  if (plan->interrupt_often) failing_calls_interrupt_often(true);
  if (plan->n > 0) failing_calls_arm(plan->call, plan->n);
}

void faulty_rank_run(const faulty_plan *plan, bool faulty,
                     faulty_report *report) {
  static int32_t out[ROOM];
  gloo_init_options options = GLOO_INIT_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  options.context = &c;
  options.device = &d;
  c.timeout_ns = plan->timeout_ns;
  c.measure = -1; /* would only take time here */
  d.transport = plan->transport;
  gloo_error error = {.rank = -1};
  gloo_context *context = NULL;
  keep_small_region();
  int descriptors = entries("/proc/self/fd");
  int threads = entries("/proc/self/task");
  int64_t began_ns = now_ns();
  if (faulty) let_calls_fail(plan);
  snprintf(report->where, sizeof report->where, "gloo_init");
  report->status = gloo_init(&options, &context, &error);
  if (report->status == GLOO_OK) {
    report->status = use_context(context, report, out, &error);
    gloo_context_destroy(context);
  }
  report->made = failing_calls_disarm();
  report->interrupted = failing_calls_interrupted();
  failing_calls_interrupt_often(false);
  report->took_ns = now_ns() - began_ns;
  report->named = -1;
  if (report->status != GLOO_OK) {
    report->named = error.rank;
    snprintf(report->message, sizeof report->message, "%.*s",
             (int)sizeof report->message - 1, error.message);
  }
  report->threads_left = threads_left(threads);
  keep_small_region();
  report->descriptors_left = entries("/proc/self/fd") - descriptors;
  if (report->descriptors_left != 0) tell_descriptors();
#if defined(SANITIZED_FOR_MEMORY)
  report->leaked = __lsan_do_recoverable_leak_check() != 0;
#endif
  report->ended = true;
}
