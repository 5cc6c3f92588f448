/* Ranks as processes; one is killed at a moment drawn by chance. The others
 * must end with an error that names it, and none may hang. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"

enum { RANKS = 4, NAMED = 42, WRONG = 43 };

static const char *transport;
static int kills = 20;

static void nap_us(long us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&t, NULL);
}

/* Entries of a directory whose names begin like this; 0 when there is none. */
static int entries(const char *directory, const char *prefix) {
  DIR *dir = opendir(directory);
  if (!dir) return 0;
  int n = 0;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    if (strncmp(d->d_name, prefix, strlen(prefix)) == 0) n++;
  }
  closedir(dir);
  return n;
}

/* What this process has: descriptors and threads, where one can count them. */
static int belongings(void) {
  return entries("/proc/self/fd", "") + 1000 * entries("/proc/self/task", "");
}

/* Calls without end, small and large. */
static gloo_status work(gloo_context *context, float *data, size_t room) {
  static const size_t counts[] = {1, 1000, 100000, 2000000};
  for (size_t i = 0;; i++) {
    size_t count = counts[i % 4];
    if (count > room) continue;
    gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, data, count,
                                        GLOO_FLOAT32, GLOO_MAX, NULL);
    if (status != GLOO_OK) return status;
    status = gloo_broadcast(context, GLOO_IN_PLACE, data, count, GLOO_FLOAT32,
                            (int)(i % RANKS), NULL);
    if (status != GLOO_OK) return status;
  }
}

static int rank_main(int rank, int victim, const char *directory) {
  enum { ROOM = 2000000 };
  gloo_error error;
  gloo_store *store;
  gloo_context *context;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  f.directory = directory;
  gloo_context_options o = GLOO_CONTEXT_OPTIONS_INIT;
  o.timeout_ns = INT64_C(20000000000);
  gloo_device *device;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = transport;
  float *data = calloc(ROOM, sizeof *data);
  if (!data) return WRONG;
  /* The first event loop opens a few descriptors that are kept for the next. */
  if (gloo_device_create(&d, &device, &error) != GLOO_OK) return WRONG;
  gloo_device_destroy(device);
  int before = belongings();
  if (gloo_store_file_create(&f, &store, &error) != GLOO_OK ||
      gloo_device_create(&d, &device, &error) != GLOO_OK ||
      gloo_context_create(rank, RANKS, store, device, &o, &context, &error) !=
          GLOO_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, error.message);
    return WRONG;
  }
  gloo_status status = work(context, data, ROOM);
  gloo_context_error(context, &error);
  bool named = status == GLOO_ERR_PEER && error.rank == victim;
  if (!named) {
    fprintf(stderr, "rank %d, victim %d: %s: %s\n", rank, victim,
            gloo_status_string(status), error.message);
  }
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  free(data);
  int after = belongings();
  if (after != before) {
    fprintf(stderr, "rank %d: left behind: %d before, %d after\n", rank, before,
            after);
  }
  return named && after == before ? NAMED : WRONG;
}

static void remove_directory(const char *directory) {
  pid_t pid = fork();
  if (pid == 0) {
    execlp("rm", "rm", "-rf", directory, (char *)NULL);
    _exit(1);
  }
  waitpid(pid, NULL, 0);
}

static void kill_one(int victim, long after_us) {
  char directory[] = "/tmp/gloo_c_kill_XXXXXX";
  assert_non_null(mkdtemp(directory));
  pid_t pids[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) _exit(rank_main(rank, victim, directory));
  }
  nap_us(after_us);
  kill(pids[victim], SIGKILL);
  int wrong = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    int status = 0;
    waitpid(pids[rank], &status, 0);
    bool good = rank == victim
                    ? WIFSIGNALED(status)
                    : WIFEXITED(status) && WEXITSTATUS(status) == NAMED;
    if (!good) wrong++;
  }
  remove_directory(directory);
  assert_int_equal(wrong, 0);
}

static void killed_rank_is_named_by_all(void **state) {
  (void)state;
  unsigned seed = (unsigned)getpid();
  print_message("# seed %u\n", seed);
  for (int i = 0; i < kills; i++) {
    seed = seed * 1103515245u + 12345u;
    kill_one((int)((seed >> 8) % RANKS), 300000 + (long)(seed >> 12) % 200000);
  }
}

/* No file is left in shared memory even when nobody is left to remove it. */
static void all_killed_leave_nothing(void **state) {
  (void)state;
  int before = entries("/dev/shm", "gloo");
  char directory[] = "/tmp/gloo_c_kill_XXXXXX";
  assert_non_null(mkdtemp(directory));
  pid_t pids[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) _exit(rank_main(rank, -1, directory));
  }
  nap_us(400000);
  for (int rank = 0; rank < RANKS; rank++) kill(pids[rank], SIGSTOP);
  for (int rank = 0; rank < RANKS; rank++) kill(pids[rank], SIGKILL);
  for (int rank = 0; rank < RANKS; rank++) {
    int status = 0;
    waitpid(pids[rank], &status, 0);
    assert_true(WIFSIGNALED(status));
  }
  remove_directory(directory);
  assert_int_equal(entries("/dev/shm", "gloo"), before);
}

/* Arguments: the transport, and how many to kill. */
int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  if (argc > 2) kills = atoi(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_rank_is_named_by_all),
      cmocka_unit_test(all_killed_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
