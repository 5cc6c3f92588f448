#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "tools/bench.h"
#include "tools/options.h"
#include "tools/progress.h"
#include "tools/tools.h"

/* Barriers are timed several in a row: no meeting is needed before a barrier,
 * which is a meeting itself, and the shortest take no longer than reading the
 * clock. */
enum { MIN_ITERATIONS = 5, BARRIERS_IN_A_ROW = 10 };

/* A point that is measured. */
typedef struct point {
  gli_bench_rank *rank;
  gli_bench_case c;
  gli_bench_buffers *sets;
  size_t n_sets;
} point;

bool gli_bench_complain(int rank, const gloo_error *error) {
  fprintf(stderr, "gloo bench: rank %d: %s\n", rank, error->message);
  return false;
}

static bool complain(const point *p, const gloo_error *error) {
  return gli_bench_complain(p->c.rank, error);
}

/* Returns true if all ranks are good, and false if the exchange fails. */
static bool agree(const point *p, bool good) {
  gloo_error error;
  gloo_options options = GLOO_OPTIONS_INIT;
  int32_t all = good;
  if (gloo_allreduce(p->c.context, GLOO_IN_PLACE, &all, 1, GLOO_INT32, GLOO_MIN,
                     &options, &error) != GLOO_OK) {
    return complain(p, &error);
  }
  return all == 1;
}

/* Distributes rank 0's number. */
static bool take_from_first(const point *p, uint64_t *number) {
  gloo_error error;
  gloo_options options = GLOO_OPTIONS_INIT;
  if (gloo_broadcast(p->c.context, GLOO_IN_PLACE, number, 1, GLOO_UINT64, 0,
                     &options, &error) != GLOO_OK) {
    return complain(p, &error);
  }
  return true;
}

/* ---- verifying ----------------------------------------------------------- */

static void sleep_ms(long ms) {
  struct timespec pause = {.tv_sec = 0, .tv_nsec = ms * 1000000};
  nanosleep(&pause, NULL);
}

/* Checks that no rank leaves a barrier before the last has entered: `late`
 * enters late. Ranks that share memory share a clock. */
static bool barrier_holds(const point *p, int late) {
  gloo_error error;
  if (p->c.rank == late) sleep_ms(2);
  int64_t entered = (int64_t)uv_hrtime();
  if (gli_case_run(&p->c, &p->sets[0], &error) != GLOO_OK) {
    return complain(p, &error);
  }
  int64_t times[2] = {entered, -(int64_t)uv_hrtime()};
  gloo_options options = GLOO_OPTIONS_INIT;
  if (gloo_allreduce(p->c.context, GLOO_IN_PLACE, times, 2, GLOO_INT64,
                     GLOO_MAX, &options, &error) != GLOO_OK) {
    return complain(p, &error);
  }
  int64_t last_entered = times[0], first_left = -times[1];
  if (p->rank->meeting.area == NULL || first_left >= last_entered) return true;
  if (p->c.rank != 0) return false;
  gli_fail(&error, GLOO_ERR_INTERNAL, -1,
           "a rank left the barrier %" PRId64 " ns before rank %d entered",
           last_entered - first_left, late);
  return complain(p, &error);
}

static bool verify_barrier(const point *p) {
  if (!barrier_holds(p, 0)) return false;
  return barrier_holds(p, p->c.ranks - 1);
}

static bool verify_set(const point *p, const gli_bench_buffers *set,
                       const char *when) {
  gloo_error error;
  if (!gli_case_fill(&p->c, set)) return agree(p, false);
  if (gli_case_run(&p->c, set, &error) != GLOO_OK) return complain(p, &error);
  char where[GLI_CASE_WHERE];
  bool right = gli_case_check(&p->c, set, where);
  if (!right) {
    const gli_bench_call *call = &p->c.call;
    gli_fail(&error, GLOO_ERR_INTERNAL, -1,
             "wrong result %s timing: %s (%s), %s %s, %" PRIu64
             " bytes on %d ranks: %s",
             when, gli_collective_name(call->collective),
             call->algorithm != NULL ? call->algorithm : "auto",
             gloo_dtype_name(call->dtype), gloo_op_name(call->op), p->c.bytes,
             p->c.ranks, where);
    complain(p, &error);
  }
  return agree(p, right);
}

/* Verifies every set once; `when` is "before" or "after". */
static bool verify(const point *p, const char *when) {
  if (p->c.call.collective == GLI_BARRIER) return verify_barrier(p);
  for (size_t i = 0; i < p->n_sets; i++) {
    if (!verify_set(p, &p->sets[i], when)) return false;
  }
  return true;
}

/* ---- timing -------------------------------------------------------------- */

/* Times `count` calls into rank->times_us. *each_s is the time of one call with
 * everything around it. */
static bool run(const point *p, uint64_t count, double *each_s) {
  gli_bench_rank *rank = p->rank;
  gloo_error error;
  uint64_t begin = uv_hrtime();
  int calls = p->c.call.collective == GLI_BARRIER ? BARRIERS_IN_A_ROW : 1;
  for (uint64_t i = 0; i < count; i++) {
    const gli_bench_buffers *set = &p->sets[i % p->n_sets];
    if (!rank->settings->untouched) gli_case_produce(&p->c, set);
    bool meet = calls == 1 || i == 0;
    if (meet && gli_meeting_wait(&rank->meeting, &error) != GLOO_OK) {
      return complain(p, &error);
    }
    gloo_status status = GLOO_OK;
    uint64_t start = uv_hrtime();
    for (int k = 0; k < calls && status == GLOO_OK; k++) {
      status = gli_case_run(&p->c, set, &error);
    }
    uint64_t end = uv_hrtime();
    if (status != GLOO_OK) return complain(p, &error);
    if (!rank->settings->untouched) gli_case_consume(&p->c, set);
    rank->times_us[i] = (double)(end - start) / 1e3 / calls;
  }
  *each_s = (double)(uv_hrtime() - begin) / 1e9 / (double)count;
  return true;
}

static uint64_t fit(double seconds, double each_s, uint64_t least) {
  const double most = (double)GLI_BENCH_MAX_ITERATIONS;
  double count = each_s > 0 ? seconds / each_s : most;
  if (count > most) return GLI_BENCH_MAX_ITERATIONS;
  return count > (double)least ? (uint64_t)count : least;
}

/* Runs as many warm-up calls as requested, but fewer if calls are so slow that
 * the warm-up would take longer than the measurement: rank 0 decides after the
 * first. */
static bool warm_up(const point *p, double *each_s) {
  const gli_bench_settings *settings = p->rank->settings;
  uint64_t calls = (uint64_t)settings->warmup;
  if (settings->iterations > 0) return calls == 0 || run(p, calls, each_s);
  if (!run(p, 1, each_s)) return false;
  if (calls <= 1) return true;
  uint64_t rest = fit(settings->seconds, *each_s, 1);
  if (!take_from_first(p, &rest)) return false;
  return run(p, rest < calls - 1 ? rest : calls - 1, each_s);
}

/* Warms up, and computes how many iterations fit into the time: rank 0 decides,
 * after the warm-up and again after a tenth of the time. */
static bool choose_iterations(const point *p, uint64_t *iterations) {
  const gli_bench_settings *settings = p->rank->settings;
  double each_s = 0;
  if (!warm_up(p, &each_s)) return false;
  *iterations = (uint64_t)settings->iterations;
  if (*iterations > 0) return true;
  uint64_t trial = fit(settings->seconds / 10, each_s, 1);
  if (!take_from_first(p, &trial)) return false;
  if (!run(p, trial, &each_s)) return false;
  *iterations = fit(settings->seconds, each_s, MIN_ITERATIONS);
  return take_from_first(p, iterations);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Combines times: the figure of an iteration is the time of its slowest rank.
 */
static bool combine(const point *p, uint64_t n, gli_bench_result *result) {
  gloo_error error;
  gloo_options options = GLOO_OPTIONS_INIT;
  double *times = p->rank->times_us;
  if (gloo_allreduce(p->c.context, GLOO_IN_PLACE, times, (size_t)n,
                     GLOO_FLOAT64, GLOO_MAX, &options, &error) != GLOO_OK) {
    return complain(p, &error);
  }
  qsort(times, (size_t)n, sizeof *times, compare);
  result->call = p->c.call;
  result->transport = p->rank->settings->transport;
  result->ranks = p->c.ranks;
  result->bytes = p->c.bytes;
  result->iterations = n;
  result->min_us = times[0];
  result->p50_us = times[n / 2];
  result->p99_us = times[n - 1 - n / 100];
  double us = result->p50_us > 0 ? result->p50_us : 1e-3;
  result->algbw_gbps = (double)p->c.bytes / us / 1e3;
  result->busbw_gbps = result->algbw_gbps *
                       gli_bench_bus_factor(p->c.call.collective, p->c.ranks);
  result->verified = false;
  return true;
}

static bool measure(const point *p, gli_bench_result *result) {
  if (!verify(p, "before")) return false;
  uint64_t iterations;
  double each_s;
  if (!choose_iterations(p, &iterations)) return false;
  double before_ns = gli_meeting_flag_ns(&p->rank->meeting);
  if (!run(p, iterations, &each_s)) return false;
  double after_ns = gli_meeting_flag_ns(&p->rank->meeting);
  if (!combine(p, iterations, result)) return false;
  bool known = before_ns > 0 && after_ns > 0;
  result->flag_ns = known ? (before_ns + after_ns) / 2 : 0;
  if (!verify(p, "after")) return false;
  result->verified = true;
  return true;
}

static bool measure_fresh(const point *at, gli_bench_result *result) {
  gli_bench_buffers fresh;
  point with = *at, *p = &with;
  bool allocated = gli_case_allocate(&p->c, &fresh);
  if (!allocated) {
    fprintf(stderr,
            "gloo bench: rank %d: out of memory for buffers of %" PRIu64
            " bytes\n",
            p->c.rank, p->c.bytes);
  }
  p->sets = &fresh;
  p->n_sets = 1;
  bool good = agree(p, allocated) && measure(p, result);
  if (allocated) gli_case_free(&fresh);
  return good;
}

bool gli_bench_measure(gli_bench_rank *rank, const gli_bench_call *call,
                       uint64_t bytes, gli_bench_result *result) {
  uint64_t begin = uv_hrtime();
  point p = {.rank = rank};
  if (!gli_case_init(&p.c, call, rank->context, bytes)) {
    fprintf(stderr,
            "gloo bench: rank %d: out of memory for the list of blocks\n",
            p.c.rank);
    return false;
  }
  p.sets = rank->sets;
  p.n_sets = (size_t)rank->settings->sets;
  bool good =
      rank->sets != NULL ? measure(&p, result) : measure_fresh(&p, result);
  gli_case_destroy(&p.c);
  result->seconds = (double)(uv_hrtime() - begin) / 1e9;
  return good;
}

/* Reports a point, on rank 0. */
static void take_result(const gli_bench_settings *settings,
                        gli_bench_plot *plot, const gli_bench_result *result) {
  gli_progress_hide();
  gli_progress_step();
  gli_bench_report(settings, result);
  if (plot != NULL) gli_bench_plot_add(plot, result);
}

/* Measures all algorithms at one size. */
static bool measure_size(gli_bench_rank *rank, uint64_t bytes,
                         gli_bench_plot *plot) {
  const gli_bench_settings *settings = rank->settings;
  char text[GLI_BYTES_TEXT];
  gli_format_bytes(bytes, text);
  for (size_t a = 0; a < settings->n_algorithms; a++) {
    gli_bench_call call = settings->call;
    call.algorithm = settings->algorithms[a];
    gli_bench_result result;
    bool first = gloo_context_rank(rank->context) == 0;
    if (first)
      gli_progress_say("%s %s%s%s", gli_collective_name(call.collective), text,
                       call.algorithm != NULL ? " " : "",
                       call.algorithm != NULL ? call.algorithm : "");
    if (!gli_bench_measure(rank, &call, bytes, &result)) return false;
    if (first) take_result(settings, plot, &result);
  }
  return true;
}

static bool measure_sizes(gli_bench_rank *rank, gli_bench_plot *plot) {
  const gli_bench_settings *settings = rank->settings;
  int ranks = gloo_context_size(rank->context);
  uint64_t previous = UINT64_MAX;
  for (size_t i = 0; i < settings->n_sizes; i++) {
    uint64_t bytes = gli_case_bytes(&settings->call, ranks, settings->sizes[i]);
    if (bytes == previous) continue; /* rounded to the same size */
    previous = bytes;
    if (!measure_size(rank, bytes, plot)) return false;
  }
  return true;
}

int gli_bench_measure_all(gli_bench_rank *rank) {
  const gli_bench_settings *settings = rank->settings;
  if (gloo_context_rank(rank->context) != 0)
    return measure_sizes(rank, NULL) ? GLI_EXIT_OK : GLI_EXIT_FAILED;
  int ranks = gloo_context_size(rank->context);
  char title[256];
  gli_bench_plot *plot = NULL;
  if (settings->svg != NULL) {
    plot = gli_bench_plot_open(settings);
    if (plot == NULL) return GLI_EXIT_FAILED;
  }
  gli_bench_report_begin(settings, ranks);
  gli_bench_describe(settings, ranks, title, sizeof title);
  gli_progress_begin("gloo bench", settings->n_sizes * settings->n_algorithms);
  bool good = measure_sizes(rank, plot);
  gli_progress_end();
  if (plot != NULL) good = gli_bench_plot_close(plot, title) && good;
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
