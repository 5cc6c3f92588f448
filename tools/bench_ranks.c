#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/environment.h"
#include "tools/bench.h"
#include "tools/tools.h"

/* ---- one rank ------------------------------------------------------------ */

/* Allocates buffers that all points share, large enough for the largest. */
static bool allocate_sets(gli_bench_rank *rank) {
  const gli_bench_settings *settings = rank->settings;
  rank->sets = NULL;
  if (settings->sets == 0) return true;
  uint64_t largest = 0;
  for (size_t i = 0; i < settings->n_sizes; i++) {
    if (settings->sizes[i] > largest) largest = settings->sizes[i];
  }
  gli_bench_case *c = malloc(sizeof *c);
  if (c == NULL) return false;
  bool good = gli_case_init(c, &settings->call, rank->context, largest);
  rank->sets = calloc((size_t)settings->sets, sizeof *rank->sets);
  good = good && rank->sets != NULL;
  for (int64_t i = 0; good && i < settings->sets; i++) {
    good = gli_case_allocate(c, &rank->sets[i]);
  }
  gli_case_destroy(c);
  free(c);
  return good;
}

static void free_sets(gli_bench_rank *rank) {
  if (rank->sets == NULL) return;
  for (int64_t i = 0; i < rank->settings->sets; i++) {
    gli_case_free(&rank->sets[i]);
  }
  free(rank->sets);
}

/* Measures with a context and a meeting that exist already. */
static int work(gli_bench_rank *rank) {
  int status = GLI_EXIT_FAILED;
  rank->times_us = malloc(GLI_BENCH_MAX_ITERATIONS * sizeof(double));
  if (rank->times_us != NULL && allocate_sets(rank)) {
    status = gli_bench_measure_all(rank);
  } else {
    fprintf(stderr, "gloo bench: rank %d: out of memory for its buffers\n",
            gloo_context_rank(rank->context));
  }
  if (status != GLI_EXIT_OK) gli_meeting_break(&rank->meeting);
  free_sets(rank);
  free(rank->times_us);
  return status;
}

static gloo_device_options device_options(const gli_bench_settings *settings) {
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = settings->transport;
  options.streams = (int)settings->streams;
  return options;
}

/* ---- a rank is a process ------------------------------------------------- */

static int be_a_process(const gli_bench_settings *settings) {
  gloo_error error;
  gli_bench_rank rank = {.settings = settings};
  gloo_device_options device = device_options(settings);
  gloo_context_options context = GLOO_CONTEXT_OPTIONS_INIT;
  context.shared_buffers = gli_bench_promises_buffers(&settings->call);
  gloo_init_options options = GLOO_INIT_OPTIONS_INIT;
  options.device = &device;
  options.context = &context;
  if (gloo_init(&options, &rank.context, &error) != GLOO_OK) {
    const char *name = gli_environment_read("RANK");
    fprintf(stderr, "gloo bench: rank %s: %s\n", name != NULL ? name : "0",
            error.message);
    return GLI_EXIT_FAILED;
  }
  int status = GLI_EXIT_FAILED;
  if (gli_meeting_open(&rank.meeting, rank.context, &error) == GLOO_OK) {
    status = work(&rank);
    gli_meeting_close(&rank.meeting);
  } else {
    gli_bench_complain(gloo_context_rank(rank.context), &error);
  }
  gloo_context_destroy(rank.context);
  return status;
}

/* ---- ranks are threads --------------------------------------------------- */

typedef struct rank_thread {
  uv_thread_t thread;
  const gli_bench_settings *settings;
  gloo_store *store;
  gli_meeting_area *area;
  int rank, status;
} rank_thread;

/* Each rank has its own device, because ranks that share one take turns. */
static void thread_main(void *user) {
  rank_thread *t = user;
  gloo_error error;
  gli_bench_rank rank = {.settings = t->settings};
  gloo_device_options options = device_options(t->settings);
  gloo_device *device = NULL;
  gloo_status status = gloo_device_create(&options, &device, &error);
  if (status == GLOO_OK) {
    status = gloo_context_create(t->rank, (int)t->settings->threads, t->store,
                                 device, NULL, &rank.context, &error);
  }
  t->status = GLI_EXIT_FAILED;
  if (status == GLOO_OK) {
    gli_meeting_share(&rank.meeting, rank.context, t->area);
    t->status = work(&rank);
    gli_meeting_close(&rank.meeting);
    gloo_context_destroy(rank.context);
  } else {
    gli_bench_complain(t->rank, &error);
    atomic_store(&t->area->broken, 1);
  }
  gloo_device_destroy(device);
}

static int be_threads(const gli_bench_settings *settings) {
  static gli_meeting_area area;
  gloo_error error;
  gloo_store *store;
  if (gloo_store_memory_create(&store, &error) != GLOO_OK) {
    fprintf(stderr, "gloo bench: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  size_t count = (size_t)settings->threads, started = 0;
  rank_thread *threads = calloc(count, sizeof *threads);
  int status = threads != NULL ? GLI_EXIT_OK : GLI_EXIT_FAILED;
  for (; threads != NULL && started < count; started++) {
    rank_thread *t = &threads[started];
    t->settings = settings;
    t->store = store;
    t->area = &area;
    t->rank = (int)started;
    if (uv_thread_create(&t->thread, thread_main, t) != 0) break;
  }
  if (started < count) {
    fprintf(stderr, "gloo bench: cannot start thread %zu of %zu\n", started + 1,
            count);
    atomic_store(&area.broken, 1);
    status = GLI_EXIT_FAILED;
  }
  for (size_t i = 0; i < started; i++) {
    uv_thread_join(&threads[i].thread);
    if (threads[i].status != GLI_EXIT_OK) status = threads[i].status;
  }
  free(threads);
  gloo_store_destroy(store);
  return status;
}

int gli_bench_ranks(const gli_bench_settings *settings) {
  return settings->threads > 0 ? be_threads(settings) : be_a_process(settings);
}
