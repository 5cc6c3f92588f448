/* A rank that waits for a late peer leaves its core to others. More ranks than
 * cores run, one arrives a second late, and the test measures the CPU time of
 * the others meanwhile. Linux only: all ranks are pinned to one core. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

enum { RANKS = 4, TRIES = 3, COUNT = 100000 };
static const int64_t late_ns = 1000000000;
static const double share_max = 0.05; /* of a core */

static const char *transport;

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- what a rank does ---------------------------------------------------- */

typedef gloo_status (*call_fn)(gloo_context *context, float *data);

static gloo_status call_barrier(gloo_context *context, float *data) {
  (void)data;
  return gloo_barrier(context, NULL, NULL);
}

static gloo_status call_allreduce(gloo_context *context, float *data) {
  return gloo_allreduce(context, GLOO_IN_PLACE, data, COUNT, GLOO_FLOAT32,
                        GLOO_SUM, NULL, NULL);
}

/* All ranks wait for the last one, without other traffic. */
static gloo_status call_recv(gloo_context *context, float *data) {
  int rank = gloo_context_rank(context);
  if (rank < RANKS - 1)
    return gloo_recv(context, data, COUNT, GLOO_FLOAT32, RANKS - 1, NULL, NULL);
  gloo_status status = GLOO_OK;
  for (int peer = 0; peer < rank && status == GLOO_OK; peer++)
    status = gloo_send(context, data, COUNT, GLOO_FLOAT32, peer, NULL, NULL);
  return status;
}

/* Cost of a call on this rank. */
typedef struct cost {
  int64_t used_ns; /* CPU time */
  int64_t ns;
} cost;

static gloo_status measure_call(gloo_context *context, call_fn call,
                                float *data, cost *out) {
  int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  int64_t used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  gloo_status status = call(context, data);
  out->used_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used_ns;
  out->ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
  return status;
}

/* Returns the share of a core used while waiting for the last rank, or a
 * negative number after a failed call. The cost of a call without a late rank
 * is subtracted. The first call, which connects, is not measured. */
static double measure(gloo_context *context, call_fn call) {
  float *data = calloc(COUNT, sizeof *data);
  if (data == NULL) return -1;
  cost first, prompt, late = {0, 1};
  gloo_status status = measure_call(context, call, data, &first);
  if (status == GLOO_OK) status = gloo_barrier(context, NULL, NULL);
  if (status == GLOO_OK) status = measure_call(context, call, data, &prompt);
  if (status == GLOO_OK) status = gloo_barrier(context, NULL, NULL);
  if (gloo_context_rank(context) == RANKS - 1) {
    struct timespec t = {late_ns / 1000000000, late_ns % 1000000000};
    nanosleep(&t, NULL);
  }
  if (status == GLOO_OK) status = measure_call(context, call, data, &late);
  free(data);
  if (status != GLOO_OK) return -1;
  int64_t waiting_ns = late.used_ns - prompt.used_ns;
  return waiting_ns > 0 ? (double)waiting_ns / (double)late.ns : 0;
}

/* Writes the share to `out`. Returns the exit status. */
static int be_a_rank(int rank, const char *directory, call_fn call, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  gloo_error error;
  gloo_store *store;
  gloo_device *device;
  gloo_context *context;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  f.directory = directory;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = transport;
  gloo_status status = gloo_store_file_create(&f, &store, &error);
  if (status == GLOO_OK) status = gloo_device_create(&d, &device, &error);
  if (status == GLOO_OK)
    status =
        gloo_context_create(rank, RANKS, store, device, NULL, &context, &error);
  if (status != GLOO_OK) {
    fprintf(stderr, "# rank %d: %s\n", rank, error.message);
    return 1;
  }
  double share = measure(context, call);
  if (share < 0) {
    gloo_context_error(context, &error);
    fprintf(stderr, "# rank %d: %s\n", rank, error.message);
  }
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  if (rank == RANKS - 1) return share < 0;
  return write(out, &share, sizeof share) != (ssize_t)sizeof share || share < 0;
}

/* ---- the test ------------------------------------------------------------ */

/* Returns the largest share among the waiting ranks. */
static double try_once(call_fn call) {
  char directory[] = "/tmp/gloo_c_waiting_XXXXXX";
  int ends[2];
  assert_non_null(mkdtemp(directory));
  assert_int_equal(pipe(ends), 0);
  pid_t pids[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    assert_true(pids[rank] >= 0);
    if (pids[rank] == 0) _exit(be_a_rank(rank, directory, call, ends[1]));
  }
  close(ends[1]);
  double worst = 0, share;
  int n = 0;
  while (read(ends[0], &share, sizeof share) == (ssize_t)sizeof share) {
    if (share > worst) worst = share;
    n++;
  }
  close(ends[0]);
  for (int rank = 0; rank < RANKS; rank++) {
    int status = 0;
    waitpid(pids[rank], &status, 0);
    assert_int_equal(status, 0);
  }
  pid_t remover = fork();
  if (remover == 0) {
    execlp("rm", "rm", "-rf", directory, (char *)NULL);
    _exit(1);
  }
  waitpid(remover, NULL, 0);
  assert_int_equal(n, RANKS - 1);
  return worst;
}

/* CPU time also depends on other load, through caches and interrupts, so the
 * best of a few tries counts. */
static void assert_leaves_the_core(const char *what, call_fn call) {
  double best = 1;
  for (int i = 0; i < TRIES && best > share_max; i++) {
    double share = try_once(call);
    if (share < best) best = share;
  }
  print_message("# %s, %s: a rank that waits uses at most %.2f %% of a core\n",
                transport, what, best * 100);
  assert_true(best <= share_max);
}

static void barrier_leaves_the_core(void **state) {
  (void)state;
  assert_leaves_the_core("barrier", call_barrier);
}

static void allreduce_leaves_the_core(void **state) {
  (void)state;
  assert_leaves_the_core("allreduce", call_allreduce);
}

static void recv_leaves_the_core(void **state) {
  (void)state;
  assert_leaves_the_core("recv", call_recv);
}

/* Pins the process to one of its allowed cores. */
static void stay_on_one_core(void) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  size_t cpu = 0;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

/* Argument: the transport. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  stay_on_one_core();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(barrier_leaves_the_core),
      cmocka_unit_test(allreduce_leaves_the_core),
      cmocka_unit_test(recv_leaves_the_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
