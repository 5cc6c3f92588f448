/* Ranks that are processes: the errors of the others when one is killed or
 * stopped during the rendezvous, or was in an earlier run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "kinds.h"
#include "rendezvous/join/exchange.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/store/store.h"

enum { SIZE = 4, HERE = 3 }; /* the last rank never arrives */

/* Bounds far below and far above the time to report a death. */
#define SOON (10 * SECOND)
#define LATE (20 * SECOND)

/* The result of a rank, sent to the parent. */
typedef struct verdict {
  gloo_status status;
  uint64_t ended_ns;
  gloo_error error;
} verdict;

typedef struct rank_process {
  pid_t pid;
  int told; /* read end of the pipe for the verdict */
} rank_process;

typedef struct job {
  char directory[64];
  uint16_t port;
  int64_t timeout_ns;
  bool finishes, forks;
  int ports[2]; /* rank 0 writes its port here */
} job;

static const char *kind;

static bool over_tcp(void) {
  return strcmp(kind, "tcp4") == 0;
}

static gloo_status job_store(const job *j, bool serve, int64_t timeout_ns,
                             gloo_store **store, gloo_error *error) {
  if (!over_tcp()) {
    gloo_store_file_options o = GLOO_STORE_FILE_OPTIONS_INIT;
    o.directory = j->directory;
    return gloo_store_file_create(&o, store, error);
  }
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = "127.0.0.1";
  o.port = serve ? 0 : j->port;
  o.serve = serve;
  o.timeout_ns = timeout_ns;
  return gloo_store_tcp_create(&o, store, error);
}

/* ---- a rank -------------------------------------------------------------- */

static void fork_one(void *argument) {
  (void)argument;
  uv_sleep(50);
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  (void)waitpid(pid, NULL, 0);
}

static verdict rank_meets(const job *j, uint32_t rank) {
  verdict v = {.status = GLOO_OK};
  gloo_store *store;
  gloo_value blobs[SIZE] = {{NULL, 0}};
  gli_attempt attempt = {.finishes = j->finishes};
  uv_thread_t thread;
  v.status = job_store(j, rank == 0, LONG_TIME, &store, &v.error);
  if (v.status != GLOO_OK) return v;
  if (over_tcp() && rank == 0) {
    uint16_t port = gloo_store_tcp_port(store);
    if (write(j->ports[1], &port, sizeof port) != sizeof port) abort();
  }
  if (j->forks && uv_thread_create(&thread, fork_one, NULL) != 0) abort();
  v.status = gli_bootstrap_exchange(store, rank, SIZE, "blob", 4, 4,
                                    j->timeout_ns, blobs, &attempt, &v.error);
  if (j->forks) uv_thread_join(&thread);
  if (v.status == GLOO_OK && j->finishes)
    v.status = gli_bootstrap_finish(store, rank, SIZE, j->timeout_ns, &v.error);
  v.ended_ns = uv_hrtime();
  gloo_store_destroy(store);
  return v;
}

static rank_process rank_start(const job *j, uint32_t rank) {
  rank_process p;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  p.pid = fork();
  assert_true(p.pid >= 0);
  if (p.pid == 0) {
    close(ends[0]);
    verdict v = rank_meets(j, rank);
    _exit(write(ends[1], &v, sizeof v) == sizeof v ? 0 : 1);
  }
  close(ends[1]);
  p.told = ends[0];
  return p;
}

static verdict rank_end(rank_process p) {
  verdict v;
  int status;
  ssize_t got = read(p.told, &v, sizeof v);
  close(p.told);
  assert_true(waitpid(p.pid, &status, 0) == p.pid);
  assert_int_equal(status, 0);
  assert_int_equal(got, sizeof v);
  return v;
}

static void rank_kill(rank_process p) {
  kill(p.pid, SIGCONT);
  kill(p.pid, SIGKILL);
  waitpid(p.pid, NULL, 0);
  close(p.told);
}

/* ---- a job --------------------------------------------------------------- */

static void job_open(job *j, int64_t timeout_ns) {
  *j = (job){.timeout_ns = timeout_ns};
  test_directory_name(j->directory);
  assert_int_equal(pipe(j->ports), 0);
}

/* Starts ranks 0 to n - 1. Rank 0 comes first, since the others need its
 * port. */
static void job_start(job *j, rank_process *ranks, uint32_t n) {
  ranks[0] = rank_start(j, 0);
  if (over_tcp())
    assert_int_equal(read(j->ports[0], &j->port, sizeof j->port),
                     sizeof j->port);
  for (uint32_t r = 1; r < n; r++) ranks[r] = rank_start(j, r);
}

/* Waits until ranks 0 to n - 1 have published their records. */
static gloo_store *job_await(const job *j, uint32_t n) {
  gloo_store *store;
  gloo_error e;
  if (job_store(j, false, LONG_TIME, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  for (uint32_t r = 0; r < n; r++) {
    gli_rank_key key = gli_bootstrap_key("rank", r);
    const char *text = key.text;
    if (gloo_store_wait(store, &text, 1, LONG_TIME, &e) != GLOO_OK)
      fail_msg("%s", e.message);
  }
  return store;
}

static void job_close(job *j) {
  close(j->ports[0]);
  close(j->ports[1]);
  if (!over_tcp()) test_directory_remove(j->directory);
}

static void expect(const verdict *v, gloo_status status, int rank,
                   const char *word) {
  if (v->status != status || v->error.rank != rank ||
      strstr(v->error.message, word) == NULL)
    fail_msg("%s, rank %d: %s", gloo_status_string(v->status), v->error.rank,
             v->error.message);
}

static void expect_soon(const verdict *v, uint64_t since_ns) {
  if (v->ended_ns > since_ns && v->ended_ns - since_ns > (uint64_t)SOON)
    fail_msg("after %.1f s: %s", (double)(v->ended_ns - since_ns) * 1e-9,
             v->error.message);
}

/* ---- killed -------------------------------------------------------------- */

static void a_killed_rank_is_named_on_all_others(void **state) {
  (void)state;
  for (unsigned round = 0; round < 8; round++) {
    job j;
    rank_process ranks[HERE];
    uint32_t victim = 1 + round % (HERE - 1);
    job_open(&j, LATE);
    j.finishes = round % 2 == 1;
    job_start(&j, ranks, HERE);
    gloo_store *store = job_await(&j, HERE);
    uv_sleep(round * round); /* a different moment in each round */
    uint64_t killed_ns = uv_hrtime();
    rank_kill(ranks[victim]);
    for (uint32_t r = 0; r < HERE; r++) {
      if (r == victim) continue;
      verdict v = rank_end(ranks[r]);
      expect(&v, GLOO_ERR_PEER, (int)victim, "exited during the rendezvous");
      expect_soon(&v, killed_ns);
    }
    gloo_store_destroy(store);
    job_close(&j);
  }
}

/* The last rank is killed after it has met the others, while it waits for the
 * end. */
static void a_rank_that_is_killed_before_the_end_is_named(void **state) {
  (void)state;
  job j;
  rank_process ranks[SIZE];
  job_open(&j, LATE);
  j.finishes = true;
  job_start(&j, ranks, HERE); /* these ranks wait for rank 3 */
  gloo_store *store = job_await(&j, HERE);
  j.finishes = false; /* rank 3 does not report that it is done */
  gloo_error e;
  gloo_store *own;
  gloo_value blobs[SIZE] = {{NULL, 0}};
  fflush(stdout);
  pid_t last = fork();
  assert_true(last >= 0);
  if (last == 0) {
    gli_attempt attempt = {.finishes = true};
    if (job_store(&j, false, LONG_TIME, &own, &e) != GLOO_OK ||
        gli_bootstrap_exchange(own, 3, SIZE, "blob", 4, 4, LATE, blobs,
                               &attempt, &e) != GLOO_OK)
      _exit(1);
    raise(SIGKILL);
  }
  int status;
  waitpid(last, &status, 0);
  assert_true(WIFSIGNALED(status));
  uint64_t killed_ns = uv_hrtime();
  for (uint32_t r = 0; r < HERE; r++) {
    verdict v = rank_end(ranks[r]);
    expect(&v, GLOO_ERR_PEER, 3, "exited during the rendezvous");
    expect_soon(&v, killed_ns);
  }
  gloo_store_destroy(store);
  job_close(&j);
}

static void rank_0_that_is_killed_is_named(void **state) {
  (void)state;
  job j;
  rank_process ranks[HERE];
  job_open(&j, LATE);
  job_start(&j, ranks, HERE);
  gloo_store_destroy(job_await(&j, HERE));
  uv_sleep(500); /* ranks check for deaths periodically, and have learned which
                  * rank serves */
  uint64_t killed_ns = uv_hrtime();
  rank_kill(ranks[0]);
  for (uint32_t r = 1; r < HERE; r++) {
    verdict v = rank_end(ranks[r]);
    expect(&v, GLOO_ERR_PEER, 0, over_tcp() ? "serves the store" : "exited");
    expect_soon(&v, killed_ns);
  }
  job_close(&j);
}

/* ---- stopped ------------------------------------------------------------- */

static void rank_0_that_is_stopped_is_noticed_at_the_deadline(void **state) {
  (void)state;
  job j;
  rank_process ranks[HERE];
  job_open(&j, 2 * SECOND);
  job_start(&j, ranks, HERE);
  gloo_store_destroy(job_await(&j, HERE));
  uv_sleep(500);
  uint64_t stopped_ns = uv_hrtime();
  kill(ranks[0].pid, SIGSTOP);
  for (uint32_t r = 1; r < HERE; r++) {
    verdict v = rank_end(ranks[r]);
    if (over_tcp()) {
      expect(&v, GLOO_ERR_PEER, 0, "did not answer in time");
    } else { /* the store works, and rank 0 had published its record */
      expect(&v, GLOO_ERR_TIMEOUT, 3, "rank 3 of 4 did not connect");
    }
    expect_soon(&v, stopped_ns);
  }
  rank_kill(ranks[0]);
  job_close(&j);
}

/* The store's own timeout is two minutes. */
static void a_stopped_server_does_not_hold_up_the_first_request(void **state) {
  (void)state;
  job j;
  rank_process ranks[1];
  gloo_store *store;
  gloo_error e;
  gloo_value blobs[SIZE] = {{NULL, 0}};
  job_open(&j, LATE);
  job_start(&j, ranks, 1);
  if (job_store(&j, false, LONG_TIME, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  kill(ranks[0].pid, SIGSTOP);
  uint64_t began_ns = uv_hrtime();
  assert_int_equal(gli_bootstrap_exchange(store, 1, SIZE, "", 0, 1, SECOND / 5,
                                          blobs, NULL, &e),
                   GLOO_ERR_PEER);
  gloo_value value;
  assert_int_equal(gloo_store_get(store, "x", SECOND / 5, &value, &e),
                   GLOO_ERR_PEER);
  assert_true(uv_hrtime() - began_ns < (uint64_t)SOON);
  gloo_store_destroy(store);
  rank_kill(ranks[0]);
  job_close(&j);
}

/* A lock is normally waited for up to half a minute, but not past the timeout
 * here. */
static void a_lock_that_is_held_does_not_hold_up_the_meeting(void **state) {
  (void)state;
  job j;
  gloo_store *store;
  gloo_error e;
  gloo_value blobs[SIZE] = {{NULL, 0}};
  char path[96];
  job_open(&j, LATE);
  if (job_store(&j, false, LONG_TIME, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  snprintf(path, sizeof path, "%s/lock", j.directory);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(flock(fd, LOCK_EX), 0);
  uint64_t began_ns = uv_hrtime();
  assert_int_equal(gli_bootstrap_exchange(store, 1, SIZE, "", 0, 1, SECOND / 5,
                                          blobs, NULL, &e),
                   GLOO_ERR_TIMEOUT);
  assert_non_null(strstr(e.message, "'lock'"));
  assert_true(uv_hrtime() - began_ns < (uint64_t)SOON);
  close(fd);
  gloo_store_destroy(store);
  job_close(&j);
}

/* ---- leftovers of an earlier run ----------------------------------------- */

/* Leaves a start in which rank 0 had published its record and the others had
 * not. */
static void leave_half_a_start(job *j) {
  rank_process first;
  job_open(j, LATE);
  first = rank_start(j, 0);
  gloo_store_destroy(job_await(j, 1));
  rank_kill(first);
}

static void expect_all_refused(const job *j, const char *word) {
  rank_process ranks[SIZE];
  uint64_t began_ns = uv_hrtime();
  for (uint32_t r = 1; r < SIZE; r++) ranks[r] = rank_start(j, r);
  uv_sleep(300); /* all other ranks find the records of the old rank 0 */
  ranks[0] = rank_start(j, 0);
  for (uint32_t r = 0; r < SIZE; r++) {
    verdict v = rank_end(ranks[r]);
    if (v.status == GLOO_OK || strstr(v.error.message, word) == NULL)
      fail_msg("rank %u: %s: %s", r, gloo_status_string(v.status),
               v.error.message);
    expect_soon(&v, began_ns);
  }
}

static void what_a_killed_start_left_is_refused_on_all_ranks(void **state) {
  (void)state;
  job j;
  leave_half_a_start(&j);
  expect_all_refused(&j, "the process of rank 0 exited");
  expect_all_refused(&j, "earlier run"); /* also the second time */
  job_close(&j);
}

/* Without the wills, as from a host whose processes cannot be checked. */
static void what_a_lost_host_left_is_refused_on_all_ranks(void **state) {
  (void)state;
  for (int finishes = 0; finishes < 2; finishes++) {
    job j;
    char wills[96];
    leave_half_a_start(&j);
    snprintf(wills, sizeof wills, "%s/wills", j.directory);
    test_directory_remove(wills);
    j.finishes = finishes;
    expect_all_refused(&j, "two processes claim rank 0 of 4");
    job_close(&j);
  }
}

static void what_a_start_left_that_timed_out_is_refused(void **state) {
  (void)state;
  job j;
  rank_process ranks[HERE];
  job_open(&j, SHORT_TIME);
  job_start(&j, ranks, HERE);
  for (uint32_t r = 0; r < HERE; r++)
    assert_int_not_equal(rank_end(ranks[r]).status, GLOO_OK);
  j.timeout_ns = LATE;
  expect_all_refused(&j, "earlier run");
  job_close(&j);
}

/* ---- no rank dies -------------------------------------------------------- */

static void expect_all_meet(job *j) {
  rank_process ranks[SIZE];
  job_start(j, ranks, HERE);
  uv_sleep(200);
  ranks[HERE] = rank_start(j, HERE);
  for (uint32_t r = 0; r < SIZE; r++) {
    verdict v = rank_end(ranks[r]);
    if (v.status != GLOO_OK) fail_msg("rank %u: %s", r, v.error.message);
  }
}

static void ranks_that_leave_in_order_are_not_missed(void **state) {
  (void)state;
  for (unsigned round = 0; round < 6; round++) {
    job j;
    job_open(&j, LONG_TIME);
    j.finishes = round % 2 == 1;
    /* Without finish, rank 0 may exit before the others have read all
     * records. */
    if (!over_tcp() || j.finishes) expect_all_meet(&j);
    job_close(&j);
  }
}

static void forked_children_that_end_are_not_missed(void **state) {
  (void)state;
  job j;
  job_open(&j, LONG_TIME);
  j.finishes = j.forks = true;
  expect_all_meet(&j);
  job_close(&j);
}

/* A will is withdrawn when a rank is done, and when its store is destroyed. */
static void a_will_is_taken_back(void **state) {
  (void)state;
  for (int finishes = 0; finishes < 2; finishes++) {
    test_store t;
    gloo_store *store;
    gloo_error e;
    job j;
    gloo_value blobs[1] = {{NULL, 0}};
    gli_attempt attempt = {.finishes = finishes};
    job_open(&j, LONG_TIME);
    if (over_tcp()) {
      gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
      test_store_open(kind, &t);
      o.host = "127.0.0.1";
      o.port = gloo_store_tcp_port(t.store);
      o.job = "battery";
      assert_int_equal(gloo_store_tcp_create(&o, &store, &e), GLOO_OK);
    } else {
      assert_int_equal(job_store(&j, false, LONG_TIME, &store, &e), GLOO_OK);
      assert_int_equal(job_store(&j, false, LONG_TIME, &t.store, &e), GLOO_OK);
      t.inner = NULL;
      t.directory[0] = '\0';
    }
    assert_int_equal(gli_bootstrap_exchange(store, 0, 1, "", 0, 1, LONG_TIME,
                                            blobs, &attempt, &e),
                     GLOO_OK);
    gloo_store_destroy(store);
    assert_int_equal(
        gli_bootstrap_outcome(t.store, gli_deadline_after(4 * SHORT_TIME), &e),
        GLI_OUTCOME_OPEN);
    test_store_close(&t);
    job_close(&j);
  }
}

/* Each thread leaves a separate will. */
typedef struct rank_thread {
  gloo_store *store;
  uint32_t rank;
  verdict v;
} rank_thread;

static void thread_meets(void *argument) {
  rank_thread *t = argument;
  gloo_value blobs[SIZE] = {{NULL, 0}};
  t->v.status = gli_bootstrap_exchange(t->store, t->rank, SIZE, "blob", 4, 4,
                                       LONG_TIME, blobs, NULL, &t->v.error);
  for (int i = 0; i < SIZE; i++) free(blobs[i].data);
}

static void threads_meet_over_one_store(void **state) {
  (void)state;
  job j;
  rank_thread threads[SIZE];
  uv_thread_t ids[SIZE];
  test_store t = {.store = NULL};
  gloo_store *store;
  gloo_error e;
  job_open(&j, LONG_TIME);
  if (over_tcp()) {
    assert_int_equal(job_store(&j, true, LONG_TIME, &t.store, &e), GLOO_OK);
    j.port = gloo_store_tcp_port(t.store);
  }
  assert_int_equal(job_store(&j, false, LONG_TIME, &store, &e), GLOO_OK);
  for (uint32_t r = 0; r < SIZE; r++) {
    threads[r] = (rank_thread){.store = store, .rank = r};
    assert_int_equal(uv_thread_create(&ids[r], thread_meets, &threads[r]), 0);
  }
  for (uint32_t r = 0; r < SIZE; r++) uv_thread_join(&ids[r]);
  for (uint32_t r = 0; r < SIZE; r++)
    if (threads[r].v.status != GLOO_OK)
      fail_msg("%s", threads[r].v.error.message);
  gloo_store_destroy(store);
  test_store_close(&t);
  job_close(&j);
}

#define EVERYWHERE                                                         \
  cmocka_unit_test(a_killed_rank_is_named_on_all_others),                  \
      cmocka_unit_test(a_rank_that_is_killed_before_the_end_is_named),     \
      cmocka_unit_test(rank_0_that_is_killed_is_named),                    \
      cmocka_unit_test(rank_0_that_is_stopped_is_noticed_at_the_deadline), \
      cmocka_unit_test(ranks_that_leave_in_order_are_not_missed),          \
      cmocka_unit_test(forked_children_that_end_are_not_missed),           \
      cmocka_unit_test(a_will_is_taken_back),                              \
      cmocka_unit_test(threads_meet_over_one_store)

int main(int argc, char **argv) {
  const struct CMUnitTest tcp[] = {
      EVERYWHERE,
      cmocka_unit_test(a_stopped_server_does_not_hold_up_the_first_request),
  };
  const struct CMUnitTest file[] = {
      EVERYWHERE,
      cmocka_unit_test(a_lock_that_is_held_does_not_hold_up_the_meeting),
      cmocka_unit_test(what_a_killed_start_left_is_refused_on_all_ranks),
      cmocka_unit_test(what_a_lost_host_left_is_refused_on_all_ranks),
      cmocka_unit_test(what_a_start_left_that_timed_out_is_refused),
  };
  kind = argc > 1 ? argv[1] : "tcp4";
  return over_tcp() ? cmocka_run_group_tests(tcp, NULL, NULL)
                    : cmocka_run_group_tests(file, NULL, NULL);
}
