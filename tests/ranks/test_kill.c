/* Ranks as processes; one is killed or stopped at a random moment in random
 * collectives. The others must end with an error that names it, without a hang
 * and without leaked resources. */
#if defined(__linux__)
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#endif
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/environment.h"
#include "kill_rank.h"
#include "sanitized.h"

enum { MIN_RANKS = 2, MAX_RANKS = 8, PATIENCE_MS = 60000, MAX_TIMES = 8192 };
static const unsigned longest_wait_us = 60000;
/* Promised time to detect a death; printed, not asserted, because the machine
 * may be busy. */
static uint64_t limit_ns = 500000000;
/* SIGKILL, or SIGSTOP: then operations have no deadlines, and HEARTBEAT_S sets
 * GLOO_HEARTBEAT. */
static int fault = SIGKILL;
enum { HEARTBEAT_S = SANITIZED ? 6 : 2 };
#define HEARTBEAT_NS (HEARTBEAT_S * UINT64_C(1000000000))

static const char *transport;
static int kills = 20;
static uint64_t
    times_ns[MAX_TIMES]; /* from the kill to each survivor's error */
static size_t n_times;
static bool private_shm; /* no other job uses /dev/shm */

/* ---- contents of /dev/shm ------------------------------------------------ */

/* Mounts a private /dev/shm, so that every file in it comes from this test. */
static void take_private_shm(void) {
#if defined(__linux__)
  if (unshare(CLONE_NEWNS) != 0) return;
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return;
  private_shm = mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1g") == 0;
#endif
}

static int named_memory(void) {
  DIR *dir = opendir("/dev/shm");
  if (dir == NULL) return 0;
  int n = 0;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    bool ours = private_shm ? d->d_name[0] != '.'
                            : strncmp(d->d_name, "gloo_c", 6) == 0;
    if (!ours) continue;
    n++;
    print_message("# left in /dev/shm: %s\n", d->d_name);
  }
  closedir(dir);
  return n;
}

/* ---- a job --------------------------------------------------------------- */

typedef struct job {
  kill_plan plan;
  char directory[32];
  pid_t pids[MAX_RANKS];
  int notes;
  bool ended[MAX_RANKS];
  kill_note last[MAX_RANKS];
} job;

static void start(job *j, int ranks, unsigned seed) {
  memset(j, 0, sizeof *j);
  strcpy(j->directory, "/tmp/gloo_c_kill_XXXXXX");
  assert_non_null(mkdtemp(j->directory));
  j->plan = (kill_plan){.transport = transport,
                        .directory = j->directory,
                        .ranks = ranks,
                        .seed = seed,
                        .no_deadlines = fault == SIGSTOP};
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  j->notes = ends[0];
  for (int rank = 0; rank < ranks; rank++) {
    j->pids[rank] = fork();
    assert_true(j->pids[rank] >= 0);
    if (j->pids[rank] > 0) continue;
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    close(ends[0]);
    _exit(kill_rank(&j->plan, rank, ends[1]));
  }
  close(ends[1]);
}

static void kill_everybody(const job *j) {
  for (int rank = 0; rank < j->plan.ranks; rank++) kill(j->pids[rank], SIGSTOP);
  for (int rank = 0; rank < j->plan.ranks; rank++) kill(j->pids[rank], SIGKILL);
}

/* Reads the next message of a rank. Returns false if all ranks have ended, or
 * were killed after a period without messages. */
static bool next_note(const job *j, kill_note *note) {
  struct pollfd from = {.fd = j->notes, .events = POLLIN};
  if (poll(&from, 1, PATIENCE_MS) != 1) {
    print_message("# the ranks hang\n");
    kill_everybody(j);
    return false;
  }
  return read(j->notes, note, sizeof *note) == (ssize_t)sizeof *note;
}

static void wait_until_all_work(job *j) {
  kill_note note;
  for (int ready = 0; ready < j->plan.ranks; ready++) {
    assert_true(next_note(j, &note));
    assert_int_equal(note.word, KILL_READY);
  }
}

/* Returns the number of ranks other than `victim` that ended by a signal or
 * sent no message. */
static int finish(job *j, int victim) {
  int wrong = 0, survivors = 0;
  kill_note note;
  while (next_note(j, &note)) {
    j->ended[note.rank] = true;
    j->last[note.rank] = note;
    if (++survivors == j->plan.ranks - 1 && victim >= 0)
      kill(j->pids[victim], SIGKILL); /* in case it is stopped */
  }
  close(j->notes);
  for (int rank = 0; rank < j->plan.ranks; rank++) {
    int status = 0;
    waitpid(j->pids[rank], &status, 0);
    if (rank == victim) {
      assert_true(WIFSIGNALED(status));
      continue;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && j->ended[rank])
      continue;
    wrong++;
    print_message("# rank %d: status %#x\n", rank, (unsigned)status);
  }
  pid_t remover = fork();
  if (remover == 0) {
    execlp("rm", "rm", "-rf", j->directory, (char *)NULL);
    _exit(1);
  }
  waitpid(remover, NULL, 0);
  return wrong;
}

/* ---- tests --------------------------------------------------------------- */

static void nap_us(unsigned us) {
  struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
  nanosleep(&t, NULL);
}

static int by_size(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static void print_times(void) {
  if (n_times == 0) return;
  qsort(times_ns, n_times, sizeof *times_ns, by_size);
  size_t late = 0;
  for (size_t i = 0; i < n_times; i++) late += times_ns[i] > limit_ns;
  print_message(
      "# %s: from the %s to the error of %zu survivors: min %.3f, median "
      "%.3f, 99%% %.3f, max %.3f ms; %zu over %.0f ms\n",
      transport, fault == SIGKILL ? "kill" : "stop", n_times,
      (double)times_ns[0] / 1e6, (double)times_ns[n_times / 2] / 1e6,
      (double)times_ns[n_times - 1 - n_times / 100] / 1e6,
      (double)times_ns[n_times - 1] / 1e6, late, (double)limit_ns / 1e6);
}

static int check_survivor(const kill_note *note, int victim,
                          uint64_t killed_ns) {
  uint64_t took_ns = note->at_ns - killed_ns;
  if (n_times < MAX_TIMES) times_ns[n_times++] = took_ns;
  if (took_ns > limit_ns)
    print_message("# rank %d needed %.3f ms: %s\n", note->rank,
                  (double)took_ns / 1e6, note->text);
  if (note->status == GLOO_ERR_PEER && note->named == victim &&
      !note->left_behind)
    return 0;
  print_message("# rank %d: %s names %d, not %d: %s%s\n", note->rank,
                gloo_status_string(note->status), note->named, victim,
                note->text, note->left_behind ? "; something was left" : "");
  return 1;
}

static int kill_one(unsigned *random) {
  job j;
  int ranks = MIN_RANKS + (int)kill_random(random, MAX_RANKS - MIN_RANKS + 1);
  int victim = (int)kill_random(random, (unsigned)ranks);
  start(&j, ranks, *random);
  wait_until_all_work(&j);
  /* A rank is only missed after its first heartbeat. */
  if (fault == SIGSTOP) nap_us(200000);
  nap_us(kill_random(random, longest_wait_us));
  uint64_t killed_ns = kill_now_ns();
  kill(j.pids[victim], fault);
  int wrong = finish(&j, victim);
  for (int rank = 0; rank < ranks; rank++) {
    if (j.ended[rank])
      wrong += check_survivor(&j.last[rank], victim, killed_ns);
  }
  return wrong;
}

static void name_the_victims(void) {
  const char *given = gli_environment_read("GLOO_TEST_SEED");
  unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 10)
                                : (unsigned)kill_now_ns();
  print_message("# GLOO_TEST_SEED=%u\n", seed);
  unsigned random = seed;
  for (int i = 0; i < kills; i++) {
    int wrong = kill_one(&random);
    if (wrong > 0) fail_msg("kill %d of %d", i + 1, kills);
  }
  print_times();
  assert_int_equal(named_memory(), 0);
}

static void killed_rank_is_named_by_all(void **state) {
  (void)state;
  name_the_victims();
}

static void stopped_rank_is_named_by_all(void **state) {
  (void)state;
  name_the_victims();
}

/* The clocks of all ranks jump alike, and none is missed. */
static void job_that_is_stopped_goes_on(void **state) {
  (void)state;
  job j;
  unsigned random = (unsigned)kill_now_ns();
  start(&j, 4, random);
  wait_until_all_work(&j);
  for (int rank = 0; rank < 4; rank++) kill(j.pids[rank], SIGSTOP);
  nap_us(3 * HEARTBEAT_NS / 1000);
  for (int rank = 0; rank < 4; rank++) kill(j.pids[rank], SIGCONT);
  struct pollfd from = {.fd = j.notes, .events = POLLIN};
  assert_int_equal(poll(&from, 1, 2 * HEARTBEAT_NS / 1000000), 0);
  uint64_t killed_ns = kill_now_ns();
  kill(j.pids[2], SIGKILL);
  int wrong = finish(&j, 2);
  for (int rank = 0; rank < 4; rank++) {
    if (rank != 2) wrong += check_survivor(&j.last[rank], 2, killed_ns);
  }
  assert_int_equal(wrong, 0);
}

/* A job whose ranks are all killed leaves no file in shared memory. */
static void all_killed_leave_nothing(void **state) {
  (void)state;
  unsigned random = (unsigned)kill_now_ns();
  for (int i = 0; i < 3; i++) {
    job j;
    start(&j, 4, random);
    wait_until_all_work(&j);
    nap_us(kill_random(&random, longest_wait_us));
    kill_everybody(&j);
    for (int rank = 0; rank < 4; rank++) {
      int status = 0;
      waitpid(j.pids[rank], &status, 0);
      assert_true(WIFSIGNALED(status));
      j.pids[rank] = 0;
    }
    j.plan.ranks = 0;
    finish(&j, -1);
  }
  assert_int_equal(named_memory(), 0);
}

/* Arguments: the transport, the number of ranks to kill, and "stop" to stop
 * them instead. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  if (argc > 2) kills = atoi(argv[2]);
  take_private_shm();
  if (argc > 3 && strcmp(argv[3], "stop") == 0) {
    fault = SIGSTOP;
    char heartbeat[16];
    limit_ns += HEARTBEAT_NS;
    snprintf(heartbeat, sizeof heartbeat, "%d", HEARTBEAT_S);
    setenv("GLOO_HEARTBEAT", heartbeat, 1);
    const struct CMUnitTest stops[] = {
        cmocka_unit_test(stopped_rank_is_named_by_all),
        cmocka_unit_test(job_that_is_stopped_goes_on),
    };
    return cmocka_run_group_tests(stops, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_rank_is_named_by_all),
      cmocka_unit_test(all_killed_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
