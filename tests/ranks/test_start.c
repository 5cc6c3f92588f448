/* Jobs that start from the environment, as processes: repeatedly, two at one
 * port, and with ranks that are killed meanwhile. Transports: values of
 * GLOO_TRANSPORT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"
#include "sanitized.h"

enum { RANKS_MAX = 4 };

/* Result of a rank, as reported to the parent. */
typedef struct verdict {
  gloo_status status;
  gloo_error error;
} verdict;

typedef struct child {
  pid_t pid;
  int told; /* descriptor that receives the verdict */
} child;

typedef verdict (*child_body)(void);

static void set_number(const char *name, unsigned value) {
  char text[16];
  snprintf(text, sizeof text, "%u", value);
  assert_int_equal(setenv(name, text, 1), 0);
}

static child start(unsigned rank, unsigned size, uint16_t port,
                   child_body body) {
  child c;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  set_number("RANK", rank);
  set_number("WORLD_SIZE", size);
  set_number("MASTER_PORT", port);
  fflush(stdout);
  c.pid = fork();
  assert_true(c.pid >= 0);
  if (c.pid == 0) {
    close(ends[0]);
    verdict v = body();
    _exit(write(ends[1], &v, sizeof v) == sizeof v ? 0 : 1);
  }
  close(ends[1]);
  c.told = ends[0];
  return c;
}

static verdict end(child c) {
  verdict v;
  int status;
  ssize_t got = read(c.told, &v, sizeof v);
  close(c.told);
  assert_true(waitpid(c.pid, &status, 0) == c.pid);
  assert_int_equal(status, 0);
  assert_int_equal(got, sizeof v);
  return v;
}

static void expect_two_jobs(verdict v) {
  if (v.status != GLOO_ERR_BUSY || strstr(v.error.message, "two jobs") == NULL)
    fail_msg("%s: %s", gloo_status_string(v.status), v.error.message);
}

/* A loopback address that no other test uses, so that only these ranks take a
 * port between two starts; the usual one on a system without others. */
static uint32_t master;
static char master_name[INET_ADDRSTRLEN];

static bool can_bind(uint32_t address) {
  struct sockaddr_in a = {.sin_family = AF_INET};
  a.sin_addr.s_addr = htonl(address);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
  if (fd >= 0) close(fd);
  return bound;
}

static void choose_master(void) {
  enum { HOSTS = 1 << 22 };
  uint32_t own =
      (UINT32_C(127) << 24) + (UINT32_C(1) << 23) + (uint32_t)getpid() % HOSTS;
  master = can_bind(own) ? own : INADDR_LOOPBACK;
  struct in_addr a = {htonl(master)};
  if (inet_ntop(AF_INET, &a, master_name, sizeof master_name) == NULL) abort();
  setenv("MASTER_ADDR", master_name, 1);
}

/* Returns a free port outside the system's ephemeral range: a rank that is
 * faster than rank 0 listens at an ephemeral port, which might be this one. */
static uint16_t free_port(void) {
  static uint16_t last = 20000;
  struct sockaddr_in a = {.sin_family = AF_INET};
  a.sin_addr.s_addr = htonl(master);
  int rc = -1;
  while (rc != 0 && last < 30000) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    a.sin_port = htons(++last);
    rc = bind(fd, (struct sockaddr *)&a, sizeof a);
    close(fd);
  }
  assert_int_equal(rc, 0);
  return last;
}

/* ---- starting again ------------------------------------------------------ */

static int rounds;

static verdict start_and_leave(void) {
  verdict v = {.status = GLOO_OK};
  for (int i = 0; i < rounds && v.status == GLOO_OK; i++) {
    gloo_context *c;
    v.status = gloo_init(NULL, &c, &v.error);
    if (v.status == GLOO_OK) gloo_context_destroy(c);
  }
  return v;
}

static void start_again(child_body body) {
  for (unsigned size = 2; size <= RANKS_MAX; size++) {
    child ranks[RANKS_MAX];
    uint16_t port = free_port();
    for (unsigned r = 0; r < size; r++) ranks[r] = start(r, size, port, body);
    for (unsigned r = 0; r < size; r++) {
      verdict v = end(ranks[r]);
      if (v.status != GLOO_OK)
        fail_msg("rank %u of %u: %s", r, size, v.error.message);
    }
  }
}

/* A fast rank may find the store of the previous start. */
static void ranks_start_again_at_once(void **state) {
  (void)state;
  rounds = SANITIZED_THREADS ? 30 : 300;
  assert_int_equal(setenv("GLOO_JOB_ID", "again", 1), 0);
  start_again(start_and_leave);
  assert_int_equal(unsetenv("GLOO_JOB_ID"), 0);
}

/* Without a job id, rank 0 goes on listening until it starts again. */
static void ranks_start_again_without_a_job_id(void **state) {
  (void)state;
  rounds = 10;
  start_again(start_and_leave);
}

/* A surviving child holds copies of rank 0's listening sockets. */
static verdict fork_and_start_again(void) {
  verdict v = {.status = GLOO_ERR_INTERNAL};
  gloo_context *c;
  int ends[2], status = 1;
  char byte;
  if (pipe(ends) != 0) return v;
  v.status = gloo_init(NULL, &c, &v.error);
  if (v.status != GLOO_OK) return v;
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    gloo_context_destroy(c);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1); /* until its parent is done */
  }
  close(ends[0]);
  gloo_context_destroy(c);
  v = start_and_leave();
  close(ends[1]);
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
    v.status = GLOO_ERR_INTERNAL;
  return v;
}

static void ranks_start_again_beside_a_forked_child(void **state) {
  (void)state;
  rounds = 2;
  start_again(fork_and_start_again);
}

/* ---- two jobs at one port ------------------------------------------------ */

static verdict just_start(void) {
  rounds = 1;
  return start_and_leave();
}

/* Connects to the store, as a client of the job does. */
static gloo_store *look(uint16_t port, bool serve) {
  gloo_store *store;
  gloo_error e;
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  o.host = master_name;
  o.port = port;
  o.serve = serve;
  if (gloo_store_tcp_create(&o, &store, &e) != GLOO_OK)
    fail_msg("%s", e.message);
  return store;
}

/* Ranks 1 and 2 may be of either job. */
static void a_second_rank_0_fails_all_who_meet(void **state) {
  static const char *const keys[] = {"gloo/rank/0", "gloo/rank/1",
                                     "gloo/rank/2"};
  child ranks[3];
  gloo_error e;
  (void)state;
  uint16_t port = free_port();
  for (unsigned r = 0; r < 3; r++) ranks[r] = start(r, 4, port, just_start);
  gloo_store *store = look(port, false);
  if (gloo_store_wait(store, keys, 3, INT64_C(60000000000), &e) != GLOO_OK)
    fail_msg("%s", e.message);
  gloo_store_destroy(store);
  expect_two_jobs(end(start(0, 4, port, just_start)));
  for (int r = 0; r < 3; r++) expect_two_jobs(end(ranks[r]));
}

/* Returns false if the last rank came after rank 0 had exited. */
static bool late_comer_hears_of_two_jobs(void) {
  static const char *const gone[] = {"gloo/gone/0"};
  gloo_error e;
  uint16_t port = free_port();
  child first = start(0, 2, port, just_start);
  gloo_store *store = look(port, false);
  expect_two_jobs(end(start(0, 2, port, just_start)));
  if (gloo_store_wait(store, gone, 1, INT64_C(60000000000), &e) != GLOO_OK)
    fail_msg("%s", e.message);
  verdict last = end(start(1, 2, port, just_start));
  gloo_store_destroy(store);
  expect_two_jobs(end(first));
  if (last.status == GLOO_ERR_TIMEOUT) return false;
  expect_two_jobs(last);
  return true;
}

/* The rank finds address records of all ranks, and must not take them for a
 * successful start. */
static void a_rank_that_comes_after_the_meeting_failed_hears_why(void **state) {
  int attempts = 5;
  (void)state;
  while (attempts > 0 && !late_comer_hears_of_two_jobs()) attempts--;
  assert_true(attempts > 0);
}

/* Pipe on which a rank reports its start, before it computes until a call
 * fails. */
static int started[2];

static verdict start_and_compute(void) {
  verdict v;
  gloo_context *c;
  char byte = 0;
  v.status = gloo_init(NULL, &c, &v.error);
  ssize_t told = write(started[1], &byte, 1);
  if (v.status != GLOO_OK || told != 1) return v;
  while (v.status == GLOO_OK) {
    int x = 1;
    v.status = gloo_allreduce(c, GLOO_IN_PLACE, &x, 1, GLOO_INT32, GLOO_SUM,
                              NULL, NULL);
    uv_sleep(1);
  }
  v.status = gloo_context_error(c, &v.error); /* the cause */
  gloo_context_destroy(c);
  return v;
}

/* Returns false if the second rank 0 came after the first had stopped
 * listening. */
static bool second_rank_0_is_noticed(void) {
  child ranks[2];
  char byte;
  uint16_t port = free_port();
  assert_int_equal(pipe(started), 0);
  for (unsigned r = 0; r < 2; r++)
    ranks[r] = start(r, 2, port, start_and_compute);
  for (int r = 0; r < 2; r++) assert_int_equal(read(started[0], &byte, 1), 1);
  verdict second = end(start(0, 2, port, just_start));
  bool late = second.status == GLOO_ERR_TIMEOUT;
  for (int r = 0; r < 2 && late; r++) kill(ranks[r].pid, SIGKILL);
  for (int r = 0; r < 2 && late; r++) waitpid(ranks[r].pid, NULL, 0);
  for (int r = 0; r < 2 && late; r++) close(ranks[r].told);
  if (!late) expect_two_jobs(second);
  for (int r = 0; r < 2 && !late; r++) expect_two_jobs(end(ranks[r]));
  close(started[0]);
  close(started[1]);
  return !late;
}

/* The test is repeated if the machine was too slow for it. */
static void a_second_rank_0_soon_afterwards_fails_the_job(void **state) {
  int attempts = 5;
  (void)state;
  while (attempts > 0 && !second_rank_0_is_noticed()) attempts--;
  assert_true(attempts > 0);
}

/* The rank arrives before the store; then others complete the start, one with
 * its number. The test is repeated with a longer pause if the rank was not
 * first. */
static void a_rank_that_others_met_without_tells_them(void **state) {
  static const char nothing[4];
  (void)state;
  for (unsigned pause_ms = 20;; pause_ms *= 4) {
    gloo_error e;
    gloo_value value = {NULL, 0};
    uint16_t port = free_port();
    child rank = start(1, 2, port, just_start);
    uv_sleep(pause_ms);
    gloo_store *store = look(port, true);
    if (gloo_store_set(store, "gloo/rank/1", "x", 1, &e) != GLOO_OK ||
        gloo_store_set(store, "gloo/outcome", nothing, 4, &e) != GLOO_OK)
      fail_msg("%s", e.message);
    gloo_status told = gloo_store_get(store, "gloo/contender",
                                      INT64_C(5000000000), &value, NULL);
    free(value.data);
    gloo_store_destroy(store);
    if (told != GLOO_OK && pause_ms < 5000) {
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, NULL, 0);
      close(rank.told);
      continue;
    }
    expect_two_jobs(end(rank));
    return;
  }
}

/* ---- ranks that are killed, or stopped ------------------------------------
 */

static int64_t patience_ns;

static verdict start_patiently(void) {
  verdict v;
  gloo_context *c;
  gloo_init_options o = GLOO_INIT_OPTIONS_INIT;
  gloo_context_options with = GLOO_CONTEXT_OPTIONS_INIT;
  with.timeout_ns = patience_ns;
  o.context = &with;
  v.status = gloo_init(&o, &c, &v.error);
  if (v.status == GLOO_OK) gloo_context_destroy(c);
  return v;
}

static void end_by_killing(child c) {
  kill(c.pid, SIGKILL);
  waitpid(c.pid, NULL, 0);
  close(c.told);
}

/* Ranks 0 to 2 of 4 have published their records, and wait for the last. */
static void start_three(child ranks[3]) {
  static const char *const keys[] = {"gloo/rank/0", "gloo/rank/1",
                                     "gloo/rank/2"};
  gloo_error e;
  uint16_t port = free_port();
  for (unsigned r = 0; r < 3; r++)
    ranks[r] = start(r, 4, port, start_patiently);
  gloo_store *store = look(port, false);
  if (gloo_store_wait(store, keys, 3, INT64_C(60000000000), &e) != GLOO_OK)
    fail_msg("%s", e.message);
  gloo_store_destroy(store);
}

static void expect_named(verdict v, int rank, const char *word) {
  if (v.status == GLOO_OK || v.error.rank != rank ||
      strstr(v.error.message, word) == NULL)
    fail_msg("%s, rank %d: %s", gloo_status_string(v.status), v.error.rank,
             v.error.message);
}

static void a_killed_rank_is_named_long_before_the_deadline(void **state) {
  (void)state;
  patience_ns = INT64_C(60000000000);
  for (unsigned victim = 0; victim < 3; victim++) {
    child ranks[3];
    start_three(ranks);
    uint64_t began_ns = uv_hrtime();
    end_by_killing(ranks[victim]);
    for (unsigned r = 0; r < 3; r++) {
      if (r == victim) continue;
      expect_named(end(ranks[r]), (int)victim, "exited");
    }
    assert_true(uv_hrtime() - began_ns < UINT64_C(20000000000));
  }
}

static void a_stopped_rank_0_is_named_at_the_deadline(void **state) {
  child ranks[3];
  (void)state;
  patience_ns = INT64_C(2000000000);
  start_three(ranks);
  uint64_t began_ns = uv_hrtime();
  kill(ranks[0].pid, SIGSTOP);
  for (unsigned r = 1; r < 3; r++)
    expect_named(end(ranks[r]), 0, "did not answer in time");
  assert_true(uv_hrtime() - began_ns < UINT64_C(20000000000));
  kill(ranks[0].pid, SIGCONT);
  end_by_killing(ranks[0]);
}

/* One rank is killed before it arrives, during connection or measurement, or
 * afterwards: the others start, or name it. */
static void a_rank_that_is_killed_at_any_moment_is_named(void **state) {
  (void)state;
  patience_ns = INT64_C(3000000000);
  for (unsigned round = 0; round < 10; round++) {
    child ranks[3];
    uint16_t port = free_port();
    unsigned victim = round % 2 + 1;
    for (unsigned r = 0; r < 3; r++)
      ranks[r] = start(r, 3, port, start_patiently);
    uv_sleep(round * round * 3 / 2);
    end_by_killing(ranks[victim]);
    for (unsigned r = 0; r < 3; r++) {
      if (r == victim) continue;
      verdict v = end(ranks[r]);
      if (v.status != GLOO_OK) expect_named(v, (int)victim, "");
    }
  }
}

/* ---- ranks that connect in a tree ---------------------------------------- */

enum { MANY = 36 };

static void end_all(const child *ranks, unsigned but, int rank,
                    const char *word) {
  for (unsigned r = 0; r < MANY; r++) {
    if (r == but) continue;
    verdict v = end(ranks[r]);
    if (v.status != GLOO_OK || word[0] != '\0') expect_named(v, rank, word);
  }
}

/* Returns a multiple of the time that all ranks take to start on this machine,
 * so that only the rank that the test holds back is late. */
static int64_t patience_of_many(void) {
  enum { TIMES = 5 };
  child ranks[MANY];
  uint16_t port = free_port();
  patience_ns = INT64_C(120000000000);
  uint64_t began_ns = uv_hrtime();
  for (unsigned r = 0; r < MANY; r++)
    ranks[r] = start(r, MANY, port, start_patiently);
  for (unsigned r = 0; r < MANY; r++) {
    verdict v = end(ranks[r]);
    if (v.status != GLOO_OK) fail_msg("rank %u: %s", r, v.error.message);
  }
  return INT64_C(1000000000) + (int64_t)(uv_hrtime() - began_ns) * TIMES;
}

static void many_name_one_that_is_killed_at_any_moment(void **state) {
  static const unsigned victims[] = {20, 31, 32, 1};
  (void)state;
  patience_ns = patience_of_many();
  for (unsigned round = 0; round < 8; round++) {
    child ranks[MANY];
    uint16_t port = free_port();
    unsigned victim = victims[round % 4];
    for (unsigned r = 0; r < MANY; r++)
      ranks[r] = start(r, MANY, port, start_patiently);
    uv_sleep(round * 6);
    end_by_killing(ranks[victim]);
    end_all(ranks, victim, (int)victim, "");
  }
}

/* The last rank never arrives. Some ranks wait for their neighbours in the
 * store, and others for these ranks' messages. */
static void many_name_one_that_is_killed_long_before_the_deadline(
    void **state) {
  static const unsigned victims[] = {0, 1, 20, 32};
  (void)state;
  patience_ns = INT64_C(60000000000);
  for (int i = 0; i < 4; i++) {
    gloo_error e;
    child ranks[MANY];
    char texts[MANY][32];
    const char *keys[MANY];
    uint16_t port = free_port();
    for (unsigned r = 0; r + 1 < MANY; r++) {
      ranks[r] = start(r, MANY, port, start_patiently);
      snprintf(texts[r], sizeof texts[r], "gloo/rank/%u", r);
      keys[r] = texts[r];
    }
    gloo_store *store = look(port, false);
    if (gloo_store_wait(store, keys, MANY - 1, INT64_C(60000000000), &e) !=
        GLOO_OK)
      fail_msg("%s", e.message);
    gloo_store_destroy(store);
    uv_sleep(20);
    uint64_t began_ns = uv_hrtime();
    end_by_killing(ranks[victims[i]]);
    for (unsigned r = 0; r + 1 < MANY; r++)
      if (r != victims[i]) expect_named(end(ranks[r]), (int)victims[i], "");
    assert_true(uv_hrtime() - began_ns < UINT64_C(20000000000));
  }
}

static void many_name_one_that_does_not_come(void **state) {
  (void)state;
  patience_ns = patience_of_many();
  static const unsigned missing[] = {16, 23, 35};
  for (int i = 0; i < 3; i++) {
    child ranks[MANY];
    uint16_t port = free_port();
    for (unsigned r = 0; r < MANY; r++)
      if (r != missing[i]) ranks[r] = start(r, MANY, port, start_patiently);
    end_all(ranks, missing[i], (int)missing[i], "did not connect");
  }
}

/* Rank 0 waits for rank 16 in the tree, and that for another one. */
static void many_hear_who_is_missing_from_the_first_to_give_up(void **state) {
  enum { MISSING = 20 };
  (void)state;
  child ranks[MANY];
  uint16_t port = free_port();
  int64_t some_ns = patience_of_many();
  for (unsigned r = 0; r < MANY; r++) {
    patience_ns = r == 0 ? some_ns : some_ns + INT64_C(60000000000);
    if (r != MISSING) ranks[r] = start(r, MANY, port, start_patiently);
  }
  uint64_t began_ns = uv_hrtime();
  end_all(ranks, MISSING, MISSING, "did not connect");
  assert_true((int64_t)(uv_hrtime() - began_ns) <
              some_ns + INT64_C(20000000000));
}

static verdict start_with_another_transport(void) {
  const char *transport = getenv("GLOO_TRANSPORT");
  bool other = transport != NULL && strcmp(transport, "tcp") == 0;
  setenv("GLOO_TRANSPORT", other ? "auto" : "tcp", 1);
  return start_patiently();
}

/* Returns true if a rank came after rank 0 had informed the present ones and
 * exited. Only the neighbours of the odd rank see its records. */
static bool came_late(const gloo_error *e) {
  return strstr(e->message, uv_strerror(UV_ECONNREFUSED)) != NULL ||
         strstr(e->message, "the process that serves it has exited") != NULL;
}

static void in_some_attempts(bool (*nobody_came_late)(void)) {
  int attempts = 5;
  while (attempts > 0 && !nobody_came_late()) attempts--;
  assert_true(attempts > 0);
}

static bool many_hear_of_one_that_differs(void) {
  child ranks[MANY];
  uint16_t port = free_port();
  bool late = false;
  for (unsigned r = 0; r < MANY; r++)
    ranks[r] = start(r, MANY, port,
                     r == 21 ? start_with_another_transport : start_patiently);
  for (unsigned r = 0; r < MANY; r++) {
    verdict v = end(ranks[r]);
    if (came_late(&v.error))
      late = true;
    else if (v.status != GLOO_ERR_MISMATCH ||
             !strstr(v.error.message, "rank 21") ||
             !strstr(v.error.message, "uses transport"))
      fail_msg("rank %u: %s: %s", r, gloo_status_string(v.status),
               v.error.message);
  }
  return !late;
}

static void many_name_one_that_differs(void **state) {
  (void)state;
  patience_ns = INT64_C(20000000000);
  in_some_attempts(many_hear_of_one_that_differs);
}

/* ---- rank 0 runs out of descriptors -------------------------------------- */

/* Starts with enough descriptors for the rank itself and for a few others. */
static verdict start_with_few_descriptors(void) {
  enum { ENOUGH_FOR_SOME = 17 };
  verdict v = {.status = GLOO_ERR_INTERNAL};
  struct rlimit limit;
  int next = dup(STDERR_FILENO);
  close(next);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return v;
  limit.rlim_cur = (rlim_t)(next + ENOUGH_FOR_SOME);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return v;
  gloo_log_set_level(GLOO_LOG_OFF);
  return just_start();
}

static bool all_hear_what_rank_0_lacks(void) {
  enum { RANKS = 14 };
  child ranks[RANKS];
  uint16_t port = free_port();
  bool late = false;
  for (unsigned r = RANKS; r-- > 0;)
    ranks[r] =
        start(r, RANKS, port, r == 0 ? start_with_few_descriptors : just_start);
  for (unsigned r = 0; r < RANKS; r++) {
    verdict v = end(ranks[r]);
    if (came_late(&v.error))
      late = true;
    else if (v.status != GLOO_ERR_IO ||
             !strstr(v.error.message, "out of file descriptors"))
      fail_msg("rank %u: %s: %s", r, gloo_status_string(v.status),
               v.error.message);
  }
  return !late;
}

static void all_ranks_hear_what_rank_0_lacks(void **state) {
  (void)state;
  in_some_attempts(all_hear_what_rank_0_lacks);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_start_again_at_once),
      cmocka_unit_test(ranks_start_again_without_a_job_id),
      cmocka_unit_test(ranks_start_again_beside_a_forked_child),
      cmocka_unit_test(a_second_rank_0_fails_all_who_meet),
      cmocka_unit_test(a_rank_that_comes_after_the_meeting_failed_hears_why),
      cmocka_unit_test(a_second_rank_0_soon_afterwards_fails_the_job),
      cmocka_unit_test(a_rank_that_others_met_without_tells_them),
      cmocka_unit_test(a_killed_rank_is_named_long_before_the_deadline),
      cmocka_unit_test(a_stopped_rank_0_is_named_at_the_deadline),
      cmocka_unit_test(a_rank_that_is_killed_at_any_moment_is_named),
      cmocka_unit_test(many_name_one_that_is_killed_at_any_moment),
      cmocka_unit_test(many_name_one_that_is_killed_long_before_the_deadline),
      cmocka_unit_test(many_name_one_that_does_not_come),
      cmocka_unit_test(many_hear_who_is_missing_from_the_first_to_give_up),
      cmocka_unit_test(many_name_one_that_differs),
      cmocka_unit_test(all_ranks_hear_what_rank_0_lacks),
  };
  static const char *const others[] = {"GLOO_JOB_ID", "GLOO_EPOCH",
                                       "TORCHELASTIC_RUN_ID"};
  for (int i = 0; i < 3; i++) unsetenv(others[i]);
  if (argc > 1) setenv("GLOO_TRANSPORT", argv[1], 1);
  choose_master();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
