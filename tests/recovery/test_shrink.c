/* Ranks as processes, killed or stopped at random moments: one, two at once,
 * and more while the survivors agree on the members. The survivors continue
 * with correct results, and all with the same members. */
#if defined(__linux__)
#define _GNU_SOURCE
#include <sys/prctl.h>
#endif
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/environment.h"
#include "gloo_c/gloo_c.h"

enum { RANKS_MAX = 8, PATIENCE_S = 60, NUMBERS = 4096, TIMES_MAX = 4096 };
enum { LATE_MS = 4000 }; /* several times GLOO_HEARTBEAT */
enum { STALE = 2 };      /* exit status of a rank that was left out */

/* State of one rank, in shared memory. A rank keeps its first number. */
typedef struct rank_note {
  atomic_uint members; /* one bit per member of its current context */
  atomic_uint rounds;  /* completed in it */
  atomic_bool wrong;
  char text[256];
} rank_note;

typedef struct job {
  atomic_uint stop; /* one bit per rank that asks all to end */
  atomic_int late;  /* rank that is to compute without making calls */
  atomic_bool computes;
  rank_note notes[RANKS_MAX];
} job;

static const char *transport;
static int deaths = 10;
static job *all;
static char directory[40];
static pid_t pids[RANKS_MAX];
static double times_ms[TIMES_MAX];
static size_t n_times;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void nap_ms(unsigned ms) {
  struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
  nanosleep(&t, NULL);
}

static unsigned draw(unsigned *state, unsigned below) {
  *state = *state * 1664525u + 1013904223u;
  return (unsigned)(((uint64_t)(*state >> 4) * below) >> 28);
}

/* ---- a rank -------------------------------------------------------------- */

static void say_wrong(rank_note *note, const char *what, const char *why) {
  snprintf(note->text, sizeof note->text, "%.40s: %.200s", what, why);
  atomic_store(&note->wrong, true);
}

/* Returns the numbers of the members, as a set. */
static gloo_status meet(gloo_context *context, int self, unsigned *members,
                        gloo_error *error) {
  int32_t ids[RANKS_MAX] = {0};
  gloo_status status =
      gloo_allgather(context, &self, ids, 1, GLOO_INT32, NULL, error);
  *members = 0;
  for (int i = 0; i < gloo_context_size(context); i++) *members |= 1u << ids[i];
  return status;
}

/* Computes sums over the members; each sum identifies its contributors. Sets
 * *stop if it returns GLOO_OK. */
static gloo_status work(gloo_context *context, int self, unsigned members,
                        unsigned round, bool *stop, rank_note *note,
                        gloo_error *error) {
  static int32_t in[NUMBERS], out[NUMBERS];
  size_t n = 1 + round * 37 % (NUMBERS - 1);
  for (size_t i = 0; i < n; i++) in[i] = (int32_t)(i % 11) << 8 | 1 << self;
  in[n] = atomic_load(&all->stop) >> self & 1;
  gloo_status status = gloo_allreduce(context, in, out, n + 1, GLOO_INT32,
                                      GLOO_SUM, NULL, error);
  if (status != GLOO_OK) return status;
  int size = gloo_context_size(context);
  for (size_t i = 0; i < n; i++) {
    if (out[i] == ((int32_t)(i % 11) << 8) * size + (int32_t)members) continue;
    say_wrong(note, "a sum", "wrong");
    return GLOO_ERR_INTERNAL;
  }
  *stop = out[n] > 0;
  return GLOO_OK;
}

/* Makes no calls for a long time, once. */
static void compute(void) {
  atomic_store(&all->late, -1);
  atomic_store(&all->computes, true);
  nap_ms(LATE_MS);
}

/* Works until a call fails, and returns false; or until a rank asks to stop or
 * a sum is wrong, and returns true. */
static bool work_until_failure(gloo_context *context, int self,
                               rank_note *note) {
  gloo_error error = {.status = GLOO_OK};
  unsigned members, rounds = 0;
  bool stop = false;
  if (meet(context, self, &members, &error) != GLOO_OK) return false;
  int size = 0;
  for (int i = 0; i < RANKS_MAX; i++) size += (members >> i & 1) != 0;
  if (size != gloo_context_size(context)) say_wrong(note, "members", "twice");
  atomic_store(&note->rounds, 0);
  atomic_store(&note->members, members);
  while (!stop) {
    gloo_status status =
        work(context, self, members, rounds, &stop, note, &error);
    if (status != GLOO_OK) return status == GLOO_ERR_INTERNAL;
    atomic_store(&note->rounds, ++rounds);
    if (atomic_load(&all->late) == self) compute();
  }
  return true;
}

static int rank_main(int rank, int ranks) {
  rank_note *note = &all->notes[rank];
  gloo_error error;
  gloo_store *store;
  gloo_device *device;
  gloo_context *context;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  f.directory = directory;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  c.timeout_ns = INT64_C(20000000000);
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = transport;
  gloo_status status = gloo_store_file_create(&f, &store, &error);
  if (status == GLOO_OK) status = gloo_device_create(&d, &device, &error);
  if (status == GLOO_OK)
    status =
        gloo_context_create(rank, ranks, store, device, &c, &context, &error);
  if (status != GLOO_OK) {
    say_wrong(note, "start", error.message);
    return 1;
  }
  while (!work_until_failure(context, rank, note)) {
    gloo_context *next;
    status = gloo_context_shrink(context, NULL, &next, &error);
    if (status != GLOO_OK) {
      say_wrong(note, gloo_status_string(status), error.message);
      return status == GLOO_ERR_STALE ? STALE : 1;
    }
    gloo_context_destroy(context);
    context = next;
  }
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(store);
  return 0;
}

/* ---- a job --------------------------------------------------------------- */

static void start(int ranks) {
  memset(all, 0, sizeof *all);
  atomic_store(&all->late, -1);
  strcpy(directory, "/tmp/gloo_c_shrink_XXXXXX");
  assert_non_null(mkdtemp(directory));
  for (int rank = 0; rank < ranks; rank++) {
    pids[rank] = fork();
    assert_true(pids[rank] >= 0);
    if (pids[rank] > 0) continue;
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    _exit(rank_main(rank, ranks));
  }
}

static bool any_wrong(unsigned of) {
  for (int i = 0; i < RANKS_MAX; i++)
    if ((of >> i & 1) && atomic_load(&all->notes[i].wrong)) return true;
  return false;
}

/* Waits until each of these ranks works with exactly these members. */
static bool wait_for(unsigned members) {
  double until = now_ms() + (double)PATIENCE_S * 1e3;
  while (now_ms() < until && !any_wrong(members)) {
    bool all_do = true;
    for (int i = 0; i < RANKS_MAX; i++)
      if (members >> i & 1)
        all_do = all_do && atomic_load(&all->notes[i].members) == members &&
                 atomic_load(&all->notes[i].rounds) > 0;
    if (all_do) return true;
    nap_ms(1);
  }
  return false;
}

static void print_notes(int ranks, unsigned left) {
  for (int i = 0; i < ranks; i++)
    print_message(
        "# rank %d%s: members %#x, rounds %u%s%s\n", i,
        left >> i & 1 ? "" : " (gone)", atomic_load(&all->notes[i].members),
        atomic_load(&all->notes[i].rounds),
        atomic_load(&all->notes[i].wrong) ? ", " : "", all->notes[i].text);
}

static bool ends_with(int rank, int expected) {
  int status = 0;
  waitpid(pids[rank], &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == expected) return true;
  print_message("# rank %d: status %#x, %s\n", rank, (unsigned)status,
                all->notes[rank].text);
  return false;
}

/* Ends the remaining ranks. Returns the number that failed to. Stopped ranks
 * must not ask to end: on waking, such a rank completes the call if all its
 * messages arrived before it was stopped. */
static int finish_left(int ranks, unsigned left) {
  int wrong = 0;
  atomic_store(&all->stop, left);
  for (int i = 0; i < ranks; i++)
    if (left >> i & 1) wrong += !ends_with(i, 0);
  return wrong;
}

/* Reaps the other ranks. Stopped ranks are resumed, and must find that they
 * were left out. Returns the number that did not. */
static int finish_struck(int ranks, unsigned left, int how) {
  int wrong = 0;
  for (int i = 0; i < ranks; i++) {
    if (left >> i & 1) continue;
    if (how == SIGSTOP) {
      kill(pids[i], SIGCONT);
      wrong += !ends_with(i, STALE);
    } else {
      waitpid(pids[i], NULL, 0);
    }
  }
  return wrong;
}

static void remove_directory(void) {
  pid_t remover = fork();
  if (remover == 0) {
    execlp("rm", "rm", "-rf", directory, (char *)NULL);
    _exit(1);
  }
  waitpid(remover, NULL, 0);
}

static int finish(int ranks, unsigned left, int how) {
  int wrong = finish_struck(ranks, left, how);
  wrong += finish_left(ranks, left);
  remove_directory();
  return wrong;
}

static int draw_victim(unsigned *random, int ranks, unsigned left) {
  int victim;
  do {
    victim = (int)draw(random, (unsigned)ranks);
  } while (!(left >> victim & 1));
  return victim;
}

/* Strikes one or two ranks at once, and perhaps one more during the others'
 * agreement. Returns the number. */
static int strike(unsigned *random, int ranks, int most, int how,
                  unsigned *left) {
  int n = most > 1 ? 1 + (int)draw(random, 2) : 1;
  for (int i = 0; i < n; i++) {
    int victim = draw_victim(random, ranks, *left);
    kill(pids[victim], how);
    *left &= ~(1u << victim);
  }
  if (n == most || draw(random, 2) == 0) return n;
  nap_ms(draw(random, draw(random, 2) ? 10 : 700));
  int victim = draw_victim(random, ranks, *left);
  kill(pids[victim], how);
  *left &= ~(1u << victim);
  return n + 1;
}

static int run_job(unsigned *random, int how) {
  int ranks = 2 + (int)draw(random, RANKS_MAX - 1), struck = 0;
  unsigned left = (1u << ranks) - 1;
  bool fine;
  start(ranks);
  fine = wait_for(left);
  if (how == SIGSTOP) nap_ms(200); /* until the first heartbeats */
  while (fine && struck < ranks - 1) {
    nap_ms(draw(random, 30));
    double began = now_ms();
    struck += strike(random, ranks, ranks - 1 - struck, how, &left);
    fine = wait_for(left);
    if (n_times < TIMES_MAX) times_ms[n_times++] = now_ms() - began;
    if (draw(random, 3) == 0) break;
  }
  if (!fine) print_notes(ranks, left);
  if (!fine)
    for (int i = 0; i < ranks; i++) kill(pids[i], SIGKILL);
  int wrong = finish(ranks, left, fine ? how : SIGKILL);
  if (!fine || wrong > 0) fail_msg("%d of %d ranks struck", struck, ranks);
  return struck;
}

static int by_size(const void *a, const void *b) {
  const double *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static void strike_many(int how) {
  const char *given = gli_environment_read("GLOO_TEST_SEED");
  unsigned random = given != NULL ? (unsigned)strtoul(given, NULL, 10)
                                  : (unsigned)(now_ms() * 1000);
  for (int done = 0; done < deaths;) {
    print_message("# GLOO_TEST_SEED=%u\n", random);
    done += run_job(&random, how);
  }
  qsort(times_ms, n_times, sizeof *times_ms, by_size);
  print_message(
      "# %s: %zu times from a blow to work: median %.0f ms, 90%% "
      "%.0f, max %.0f\n",
      transport, n_times, times_ms[n_times / 2], times_ms[n_times * 9 / 10],
      times_ms[n_times - 1]);
}

static void those_that_are_left_go_on(void **state) {
  (void)state;
  strike_many(SIGKILL);
}

static void those_that_run_go_on(void **state) {
  (void)state;
  strike_many(SIGSTOP);
}

/* The resumed rank has no way to know whether the others have exited or
 * continue without it, but its error names it. */
static void rank_that_wakes_when_the_others_have_ended_is_stale(void **state) {
  (void)state;
  enum { RANKS = 3 };
  setenv("GLOO_HEARTBEAT", "1", 1);
  for (int victim = 0; victim < RANKS; victim++) {
    const unsigned every = (1u << RANKS) - 1, left = every & ~(1u << victim);
    start(RANKS);
    bool fine = wait_for(every);
    nap_ms(200);
    kill(pids[victim], SIGSTOP);
    fine = fine && wait_for(left);
    if (!fine) print_notes(RANKS, left);
    int wrong = finish_left(RANKS, left);
    wrong += finish_struck(RANKS, left, SIGSTOP);
    remove_directory();
    assert_true(fine);
    assert_int_equal(wrong, 0);
  }
  unsetenv("GLOO_HEARTBEAT");
}

/* A computing rank makes no calls; its helper thread alone answers the
 * others. */
static void rank_that_computes_meanwhile_is_waited_for(void **state) {
  (void)state;
  enum { RANKS = 4 };
  const unsigned every = (1u << RANKS) - 1, left = every & ~(1u << (RANKS - 1));
  setenv("GLOO_HEARTBEAT", "1", 1);
  for (int late = 0; late < RANKS - 1; late++) {
    start(RANKS);
    bool fine = wait_for(every);
    atomic_store(&all->late, late);
    while (fine && !atomic_load(&all->computes)) nap_ms(1);
    kill(pids[RANKS - 1], SIGKILL);
    fine = fine && wait_for(left);
    if (!fine) print_notes(RANKS, left);
    int wrong = finish(RANKS, left, SIGKILL);
    assert_true(fine);
    assert_int_equal(wrong, 0);
  }
  unsetenv("GLOO_HEARTBEAT");
}

/* Returns the time to recover from the loss of the lowest `n` of 8 ranks. */
static double lose_lowest(int n) {
  const unsigned every = (1u << RANKS_MAX) - 1, left = every & ~((1u << n) - 1);
  start(RANKS_MAX);
  bool fine = wait_for(every);
  double began = now_ms();
  for (int i = 0; i < n; i++) kill(pids[i], SIGKILL);
  fine = fine && wait_for(left);
  double took = now_ms() - began;
  if (!fine) print_notes(RANKS_MAX, left);
  int wrong = finish(RANKS_MAX, left, SIGKILL);
  assert_true(fine);
  assert_int_equal(wrong, 0);
  return took;
}

/* Each lost rank would have led the agreement. The survivors detect their
 * deaths together, not one after the other. */
static void the_lowest_are_missed_together(void **state) {
  (void)state;
  double two = lose_lowest(2), six = lose_lowest(6);
  print_message("# %s: without two %.0f ms, without six %.0f\n", transport, two,
                six);
  assert_true(six < 2 * two + 1000);
}

static bool share_memory(void) {
  FILE *file = tmpfile();
  if (file == NULL || ftruncate(fileno(file), sizeof *all) != 0) return false;
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED,
             fileno(file), 0);
  return all != MAP_FAILED;
}

/* Arguments: the transport, the number of ranks to kill, and "stop" to stop
 * them instead. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  if (argc > 2) deaths = atoi(argv[2]);
  if (!share_memory()) return 1;
  if (argc > 3 && strcmp(argv[3], "stop") == 0) {
    setenv("GLOO_HEARTBEAT", "1", 1);
    const struct CMUnitTest stops[] = {cmocka_unit_test(those_that_run_go_on)};
    return cmocka_run_group_tests(stops, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_that_are_left_go_on),
      cmocka_unit_test(the_lowest_are_missed_together),
      cmocka_unit_test(rank_that_computes_meanwhile_is_waited_for),
      cmocka_unit_test(rank_that_wakes_when_the_others_have_ended_is_stale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
