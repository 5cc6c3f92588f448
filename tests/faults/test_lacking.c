/* A lack of resources is reported as the error of the process concerned:
 * between the creation of the context and the first call, rank 1 runs out of
 * descriptors, or of epoll watches. All ranks name rank 1. Jobs whose processes
 * have closed their first three descriptors work. Linux only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

/* Messages too long for a socket's buffer. */
enum { RANKS = 3, COUNT = 4 * 1024 * 1024 };
static const int64_t timeout_ns = 60000000000;

static const char *transport;

/* ---- refused system calls ------------------------------------------------ */

struct epoll_event;
int __real_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event);

static bool no_watches;

int __wrap_epoll_ctl(int epoll, int operation, int fd,
                     struct epoll_event *event) {
  if (!no_watches) return __real_epoll_ctl(epoll, operation, fd, event);
  errno = ENOSPC;
  return -1;
}

typedef void (*trouble_fn)(void);

static void none(void) {}

static void lack_descriptors(void) {
  struct rlimit limit;
  int next = dup(STDERR_FILENO);
  close(next);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(90);
  limit.rlim_cur = (rlim_t)next;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(91);
}

static void lack_watches(void) {
  no_watches = true;
}

/* Rank 2 continues once rank 1 lacks the resource. */
static int begin[2];

/* ---- a rank -------------------------------------------------------------- */

typedef struct outcome {
  gloo_status status;
  bool right;
  int standard; /* number of the first three descriptors that are open */
  gloo_error error;
} outcome;

static gloo_status pass_on(gloo_context *context, float *data, int from,
                           int to) {
  int rank = gloo_context_rank(context);
  if (rank == from)
    return gloo_send(context, data, COUNT, GLOO_FLOAT32, to, NULL, NULL);
  if (rank == to)
    return gloo_recv(context, data, COUNT, GLOO_FLOAT32, from, NULL, NULL);
  return GLOO_OK;
}

/* Connects rank 0 with its two neighbours. */
static gloo_status meet(gloo_context *context, float *data) {
  gloo_status status = pass_on(context, data, 0, 1);
  return status == GLOO_OK ? pass_on(context, data, 0, 2) : status;
}

/* Sends around the ring over the two pairs that are not connected yet. */
static gloo_status go_round(gloo_context *context, float *data) {
  gloo_status status = pass_on(context, data, 1, 2);
  if (status == GLOO_OK) status = pass_on(context, data, 2, 0);
  return status;
}

static gloo_status call(gloo_context *context, trouble_fn trouble,
                        outcome *out) {
  float *data = malloc(COUNT * sizeof *data);
  char byte = 0;
  if (data == NULL) return GLOO_ERR_NO_MEMORY;
  int rank = gloo_context_rank(context);
  for (int i = 0; i < COUNT; i++) data[i] = (float)(rank + i);
  gloo_status status = meet(context, data);
  trouble();
  if (rank == 1 && write(begin[1], &byte, 1) != 1) _exit(93);
  if (rank == 2 && read(begin[0], &byte, 1) != 1) _exit(94);
  if (status == GLOO_OK) status = go_round(context, data);
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    out->standard += fcntl(fd, F_GETFD) != -1;
  out->right = true; /* all ranks have the data of rank 0 */
  for (int i = 0; i < COUNT; i++)
    out->right = out->right && data[i] == (float)i;
  free(data);
  return status;
}

static void run(int rank, const char *directory, trouble_fn trouble,
                outcome *out) {
  gloo_store *store = NULL;
  gloo_device *device = NULL;
  gloo_context *context = NULL;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  f.directory = directory;
  d.transport = transport;
  c.timeout_ns = timeout_ns;
  out->status = gloo_store_file_create(&f, &store, &out->error);
  if (out->status == GLOO_OK)
    out->status = gloo_device_create(&d, &device, &out->error);
  if (out->status == GLOO_OK)
    out->status = gloo_context_create(rank, RANKS, store, device, &c, &context,
                                      &out->error);
  if (out->status == GLOO_OK) {
    out->status = call(context, trouble, out);
    (void)gloo_context_error(context, &out->error);
    gloo_context_destroy(context);
  }
  if (device != NULL) gloo_device_destroy(device);
  if (store != NULL) gloo_store_destroy(store);
}

static int be_a_rank(int rank, const char *directory, trouble_fn trouble,
                     int to) {
  outcome out = {.status = GLOO_ERR_INTERNAL};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  run(rank, directory, trouble, &out);
  return write(to, &out, sizeof out) == (ssize_t)sizeof out ? 0 : 92;
}

/* ---- a job --------------------------------------------------------------- */

static void remove_all(const char *directory) {
  char line[256];
  (void)snprintf(line, sizeof line, "rm -rf %s", directory);
  assert_int_equal(system(line), 0);
}

/* Runs a job in which rank 1 lacks the resource. If `closed`, all ranks close
 * their first three descriptors. */
static void run_job(trouble_fn trouble, bool closed, outcome outcomes[RANKS]) {
  char directory[] = "/tmp/gloo_c_lacking_XXXXXX";
  int ends[RANKS][2];
  pid_t pids[RANKS];
  assert_non_null(mkdtemp(directory));
  assert_int_equal(pipe(begin), 0);
  for (int rank = 0; rank < RANKS; rank++)
    assert_int_equal(pipe(ends[rank]), 0);
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] != 0) continue;
    if (closed) {
      gloo_log_set_level(GLOO_LOG_DEBUG); /* causes log lines */
      for (int fd = 0; fd <= STDERR_FILENO; fd++) close(fd);
    }
    _exit(
        be_a_rank(rank, directory, rank == 1 ? trouble : none, ends[rank][1]));
  }
  for (int rank = 0; rank < RANKS; rank++) {
    int status;
    close(ends[rank][1]);
    ssize_t got = read(ends[rank][0], &outcomes[rank], sizeof outcomes[rank]);
    assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
    assert_true(WIFEXITED(status)); /* no signal ended the process */
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(got, sizeof outcomes[rank]);
    close(ends[rank][0]);
  }
  close(begin[0]);
  close(begin[1]);
  remove_all(directory);
}

/* ---- the tests ----------------------------------------------------------- */

static void expect_own(const outcome *out, gloo_status status,
                       const char *advice) {
  print_message("# %s\n", out->error.message);
  assert_int_equal(out->status, status);
  assert_true(out->error.rank == 1 || out->error.rank == -1);
  assert_non_null(strstr(out->error.message, advice));
  assert_null(strstr(out->error.message, "network"));
}

static void expect_of_others(const outcome outcomes[RANKS]) {
  for (int rank = 0; rank < RANKS; rank += 2) {
    print_message("# rank %d: %s\n", rank, outcomes[rank].error.message);
    assert_int_not_equal(outcomes[rank].status, GLOO_OK);
    assert_int_equal(outcomes[rank].error.rank, 1);
  }
}

static void lack_of_descriptors_is_ones_own_error(void **state) {
  (void)state;
  outcome outcomes[RANKS];
  run_job(lack_descriptors, false, outcomes);
  expect_own(&outcomes[1], GLOO_ERR_IO, "ulimit -n");
  expect_of_others(outcomes);
}

static void lack_of_watches_is_ones_own_error(void **state) {
  (void)state;
  outcome outcomes[RANKS];
  run_job(lack_watches, false, outcomes);
  expect_own(&outcomes[1], GLOO_ERR_NO_MEMORY, "max_user_watches");
  expect_of_others(outcomes);
}

static void closed_standard_streams_stay_out_of_it(void **state) {
  (void)state;
  outcome outcomes[RANKS];
  run_job(none, true, outcomes);
  for (int rank = 0; rank < RANKS; rank++) {
    if (outcomes[rank].status != GLOO_OK)
      print_message("# %s\n", outcomes[rank].error.message);
    assert_int_equal(outcomes[rank].status, GLOO_OK);
    assert_true(outcomes[rank].right);
    /* A log line for standard error would be written to a descriptor with its
     * number. */
    assert_int_equal(outcomes[rank].standard, 0);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) return 99;
  transport = argv[1];
  /* Heartbeats would connect pairs before the fault. */
  setenv("GLOO_HEARTBEAT", "0", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lack_of_descriptors_is_ones_own_error),
      cmocka_unit_test(lack_of_watches_is_ones_own_error),
      cmocka_unit_test(closed_standard_streams_stay_out_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
