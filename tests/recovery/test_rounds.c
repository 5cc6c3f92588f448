/* Rounds of failures in an elastic job of processes: ranks are killed or
 * stopped, others join, and newcomers or ranks are killed meanwhile. After each
 * round all remaining ranks work with the same members and correct results. */
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

enum { MOST = 8, IDS = 32, PATIENCE_S = 60, NUMBERS = 1024, TIMES_MAX = 4096 };
enum { STALE = 2 };       /* exit status of a rank that was left out */
enum { SLOW_MS = 3000 };  /* limit above which a round is reported */
enum { SETTLE_MS = 200 }; /* longer than the time to the first heartbeat */

/* State of one process, in shared memory. A process number is used only once in
 * a job. */
typedef struct note {
  atomic_uint members;  /* one bit per member of its current context */
  atomic_uint calls;    /* completed in that context */
  atomic_uint attempts; /* calls of gloo_context_join */
  atomic_bool wrong;
  char text[256];
} note;

typedef struct board {
  atomic_uint stop;   /* one bit per process that asks all to end */
  atomic_uint wanted; /* number of newcomers to take in */
  note notes[IDS];
} board;

static const char *transport;
static int n_rounds = 6;
static int only = -1; /* kind of round to play; -1: any */
static board *all;
static char directory[40];

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

static unsigned count(unsigned set) {
  unsigned n = 0;
  for (; set != 0; set &= set - 1) n++;
  return n;
}

/* ---- a rank -------------------------------------------------------------- */

typedef struct rank_state {
  int self;
  note *note;
  gloo_store *store;
  gloo_device *device;
  gloo_context *context;
  unsigned members;
} rank_state;

static void say_wrong(note *n, const char *what, const char *why) {
  snprintf(n->text, sizeof n->text, "%.60s: %.180s", what, why);
  atomic_store(&n->wrong, true);
}

/* Returns the numbers of the members, as a set. */
static gloo_status meet(rank_state *r, gloo_error *error) {
  int32_t ids[MOST] = {0};
  int size = gloo_context_size(r->context);
  if (size > MOST) {
    say_wrong(r->note, "members", "too many");
    return GLOO_ERR_INTERNAL;
  }
  gloo_status status =
      gloo_allgather(r->context, &r->self, ids, 1, GLOO_INT32, NULL, error);
  if (status != GLOO_OK) return status;
  r->members = 0;
  for (int i = 0; i < size; i++) r->members |= 1u << ids[i];
  if (count(r->members) != (unsigned)size)
    say_wrong(r->note, "members", "one is there twice");
  atomic_store(&r->note->calls, 0);
  atomic_store(&r->note->members, r->members);
  return GLOO_OK;
}

static bool sums_are_right(const rank_state *r, const int64_t *sums, size_t n) {
  int64_t each = 0;
  for (int i = 0; i < IDS; i++)
    if (r->members >> i & 1) each += i + 1;
  for (size_t i = 0; i < n; i++)
    if (sums[i] != each * (int64_t)(i % 11 + 1)) return false;
  return true;
}

/* Computes sums. The last two elements say whether a rank asks to end, and to
 * take newcomers in. */
static gloo_status work(rank_state *r, unsigned call, bool *stop, bool *grow,
                        gloo_error *error) {
  static int64_t in[NUMBERS + 2], out[NUMBERS + 2];
  size_t n = 1 + call * 37 % NUMBERS;
  for (size_t i = 0; i < n; i++) in[i] = (int64_t)(i % 11 + 1) * (r->self + 1);
  in[n] = atomic_load(&all->stop) >> r->self & 1;
  in[n + 1] = atomic_load(&all->wanted) > 0;
  gloo_status status = gloo_allreduce(r->context, in, out, n + 2, GLOO_INT64,
                                      GLOO_SUM, NULL, error);
  if (status != GLOO_OK) return status;
  if (!sums_are_right(r, out, n)) {
    say_wrong(r->note, "a sum", "wrong");
    return GLOO_ERR_INTERNAL;
  }
  *stop = out[n] > 0;
  *grow = out[n + 1] > 0;
  return GLOO_OK;
}

static void follow(rank_state *r, gloo_context *next) {
  gloo_context_destroy(r->context);
  r->context = next;
}

/* Takes newcomers in. If that fails, the next call shows whether the context is
 * still usable. */
static gloo_status grow(rank_state *r, gloo_error *error) {
  gloo_context *more = NULL;
  gloo_grow_options o = GLOO_GROW_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  c.timeout_ns = INT64_C(20000000000);
  o.context = &c;
  o.newcomers = (int)atomic_load(&all->wanted);
  o.timeout_ns = INT64_C(300000000);
  gloo_status status =
      gloo_context_grow(r->context, r->store, &o, &more, error);
  if (status == GLOO_ERR_STALE) return status;
  if (status != GLOO_OK || more == NULL) return GLOO_OK;
  follow(r, more);
  return meet(r, error);
}

/* Works until a call fails. Returns GLOO_OK when told to stop. */
static gloo_status work_until_failure(rank_state *r, gloo_error *error) {
  bool stop = false, grows = false;
  unsigned calls = 0;
  gloo_status status = meet(r, error);
  while (status == GLOO_OK && !stop) {
    status = work(r, calls, &stop, &grows, error);
    if (status != GLOO_OK) break;
    calls++;
    atomic_fetch_add(&r->note->calls, 1);
    if (grows && !stop) status = grow(r, error);
    nap_ms(1);
  }
  return status;
}

static int rank_play(rank_state *r) {
  gloo_error error = {.status = GLOO_OK};
  gloo_status status;
  while ((status = work_until_failure(r, &error)) != GLOO_OK) {
    gloo_context *left;
    if (status == GLOO_ERR_INTERNAL) return 1;
    snprintf(r->note->text, sizeof r->note->text, "last failure: %.200s",
             error.message);
    if (status != GLOO_ERR_STALE)
      status = gloo_context_shrink(r->context, NULL, &left, &error);
    if (status != GLOO_OK) {
      say_wrong(r->note, gloo_status_string(status), error.message);
      return status == GLOO_ERR_STALE ? STALE : 1;
    }
    follow(r, left);
  }
  gloo_context_destroy(r->context);
  gloo_device_destroy(r->device);
  gloo_store_destroy(r->store);
  return 0;
}

/* Joins as a newcomer, again if it is not taken in. */
static gloo_status rank_join(rank_state *r, const gloo_context_options *c,
                             gloo_error *error) {
  gloo_status status;
  do {
    atomic_fetch_add(&r->note->attempts, 1);
    status = gloo_context_join(r->store, r->device, c, INT64_C(60000000000),
                               &r->context, error);
    if (status != GLOO_OK)
      print_message("# newcomer %d: %s\n", r->self, error->message);
  } while (status != GLOO_OK && status != GLOO_ERR_INVALID);
  return status;
}

/* Runs a process; a `rank` below 0 stands for a newcomer. */
static int rank_main(int self, int rank, int ranks) {
  rank_state r = {.self = self, .note = &all->notes[self]};
  gloo_error error;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  f.directory = directory;
  c.timeout_ns = INT64_C(20000000000);
  d.transport = transport;
  gloo_status status = gloo_store_file_create(&f, &r.store, &error);
  if (status == GLOO_OK) status = gloo_device_create(&d, &r.device, &error);
  if (status == GLOO_OK && rank >= 0)
    status = gloo_context_create(rank, ranks, r.store, r.device, &c, &r.context,
                                 &error);
  else if (status == GLOO_OK)
    status = rank_join(&r, &c, &error);
  if (status != GLOO_OK) {
    say_wrong(r.note, "start", error.message);
    return 1;
  }
  return rank_play(&r);
}

/* ---- a job --------------------------------------------------------------- */

typedef struct job {
  unsigned *random;
  pid_t pids[IDS];
  int begun; /* processes, by number */
  unsigned there, stopped;
  double blow_ms; /* time of the first fault of the round; 0: none yet */
} job;

static void start_process(job *j, int rank, int ranks) {
  int self = j->begun++;
  j->pids[self] = fork();
  assert_true(j->pids[self] >= 0);
  if (j->pids[self] > 0) return;
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  _exit(rank_main(self, rank, ranks));
}

static void start_job(job *j, unsigned *random, int ranks) {
  memset(all, 0, sizeof *all);
  strcpy(directory, "/tmp/gloo_c_rounds_XXXXXX");
  assert_non_null(mkdtemp(directory));
  *j = (job){.random = random};
  for (int rank = 0; rank < ranks; rank++) start_process(j, rank, ranks);
  j->there = (1u << ranks) - 1;
}

static bool any_wrong(unsigned of) {
  for (int i = 0; i < IDS; i++)
    if ((of >> i & 1) && atomic_load(&all->notes[i].wrong)) return true;
  return false;
}

static bool all_work_together(unsigned members) {
  for (int i = 0; i < IDS; i++)
    if ((members >> i & 1) && (atomic_load(&all->notes[i].members) != members ||
                               atomic_load(&all->notes[i].calls) == 0))
      return false;
  return true;
}

/* Waits until each of these processes works with exactly these members. */
static bool wait_for(unsigned members) {
  double until = now_ms() + (double)PATIENCE_S * 1e3;
  while (now_ms() < until && !any_wrong(members)) {
    if (all_work_together(members)) return true;
    nap_ms(1);
  }
  return false;
}

static void print_notes(const job *j) {
  for (int i = 0; i < j->begun; i++)
    print_message(
        "# process %d%s: members %#x, calls %u%s%s\n", i,
        j->there >> i & 1     ? ""
        : j->stopped >> i & 1 ? " (stopped)"
                              : " (gone)",
        atomic_load(&all->notes[i].members), atomic_load(&all->notes[i].calls),
        atomic_load(&all->notes[i].wrong) ? ", " : "", all->notes[i].text);
}

static bool ends_with(const job *j, int self, int expected) {
  int status = 0;
  double until = now_ms() + (double)PATIENCE_S * 1e3;
  while (waitpid(j->pids[self], &status, WNOHANG) == 0) {
    if (now_ms() > until) {
      print_message("# process %d does not end: members %#x, %s\n", self,
                    atomic_load(&all->notes[self].members),
                    all->notes[self].text);
      kill(j->pids[self], SIGKILL);
      waitpid(j->pids[self], &status, 0);
      return false;
    }
    nap_ms(1);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == expected) return true;
  print_message("# process %d: status %#x, %s\n", self, (unsigned)status,
                all->notes[self].text);
  return false;
}

static void remove_directory(void) {
  pid_t remover = fork();
  if (remover == 0) {
    execlp("rm", "rm", "-rf", directory, (char *)NULL);
    _exit(1);
  }
  waitpid(remover, NULL, 0);
}

/* ---- faults -------------------------------------------------------------- */

/* Draws one of the present ranks, but not one of the set `spared`. */
static int draw_rank(const job *j, unsigned spared) {
  int self;
  do {
    self = (int)draw(j->random, (unsigned)j->begun);
  } while (!((j->there & ~spared) >> self & 1));
  return self;
}

static void strike(job *j, int self, int how) {
  if (j->blow_ms == 0) j->blow_ms = now_ms();
  kill(j->pids[self], how);
  if (how == SIGKILL)
    waitpid(j->pids[self], NULL, 0);
  else
    j->stopped |= 1u << self;
  j->there &= ~(1u << self);
}

/* Sleeps for a time that ends before, during or after the others' agreement. */
static void nap_while_shrinking(job *j) {
  nap_ms(draw(j->random, draw(j->random, 2) ? 10 : 700));
}

static void kill_one(job *j) {
  strike(j, draw_rank(j, 0), SIGKILL);
}

static void kill_several(job *j) {
  unsigned n = 2 + draw(j->random, 3);
  for (; n > 0 && count(j->there) > 1; n--) kill_one(j);
}

static void kill_again(job *j) {
  kill_one(j);
  nap_while_shrinking(j);
  kill_one(j);
}

/* Waits until no rank is using the store: a rank that is stopped there would
 * keep the lock of its files and block the others. */
static void leave_store(const job *j) {
  unsigned calls[IDS];
  for (int i = 0; i < j->begun; i++)
    calls[i] = atomic_load(&all->notes[i].calls);
  double until = now_ms() + (double)PATIENCE_S * 1e3;
  for (int i = 0; i < j->begun; i++)
    while ((j->there >> i & 1) && now_ms() < until &&
           atomic_load(&all->notes[i].calls) < calls[i] + 2)
      nap_ms(1);
}

static void stop_one(job *j) {
  leave_store(j);
  nap_ms(SETTLE_MS);
  strike(j, draw_rank(j, 0), SIGSTOP);
}

static void stop_two(job *j) {
  stop_one(j);
  strike(j, draw_rank(j, 0), SIGSTOP);
}

static void stop_and_kill(job *j) {
  stop_one(j);
  nap_while_shrinking(j);
  kill_one(j);
}

/* Starts one or two newcomers. Returns them as a set. */
static unsigned bring(job *j) {
  unsigned n = count(j->there) + 1 < MOST ? 1 + draw(j->random, 2) : 1, set = 0;
  for (unsigned i = 0; i < n; i++) {
    set |= 1u << j->begun;
    start_process(j, -1, 0);
  }
  j->there |= set;
  atomic_store(&all->wanted, n);
  return set;
}

static void await_attempt(int self) {
  const note *n = &all->notes[self];
  while (atomic_load(&n->attempts) == 0 && !atomic_load(&n->wrong)) nap_ms(1);
}

/* Sleeps while newcomers join, mostly for a few milliseconds after the call. */
static void nap_while_joining(job *j, unsigned newcomers) {
  for (int i = 0; i < j->begun; i++)
    if (newcomers >> i & 1) await_attempt(i);
  struct timespec t = {
      0, 1000 * (long)draw(j->random, draw(j->random, 2) ? 5000 : 50000)};
  nanosleep(&t, NULL);
}

static void take_in(job *j) {
  j->blow_ms = now_ms();
  (void)bring(j);
}

static void kill_newcomer(job *j) {
  unsigned old = j->there, newcomers = bring(j);
  nap_while_joining(j, newcomers);
  strike(j, draw_rank(j, old), SIGKILL);
}

static void kill_rank_while_joining(job *j) {
  unsigned newcomers = bring(j);
  nap_while_joining(j, newcomers);
  strike(j, draw_rank(j, newcomers), SIGKILL);
}

/* ---- rounds -------------------------------------------------------------- */

typedef struct kind {
  const char *name;
  unsigned least, most; /* ranks */
  void (*play)(job *j);
} kind;

static const kind kinds[] = {
    {"kill", 2, MOST, kill_one},
    {"kill-several", 3, MOST, kill_several},
    {"kill-again", 3, MOST, kill_again},
    {"stop", 2, MOST, stop_one},
    {"stop-two", 3, MOST, stop_two},
    {"stop-kill", 3, MOST, stop_and_kill},
    {"grow", 1, MOST - 1, take_in},
    {"kill-newcomer", 1, MOST - 1, kill_newcomer},
    {"kill-while-joining", 2, MOST - 1, kill_rank_while_joining},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double times_ms[KINDS][TIMES_MAX];
static size_t n_times[KINDS];

static bool can_play(const job *j, unsigned which) {
  unsigned n = count(j->there);
  return n >= kinds[which].least && n <= kinds[which].most;
}

/* Draws a kind of round. Returns KINDS if none can be played. */
static unsigned draw_kind(const job *j) {
  if (only >= 0) return can_play(j, (unsigned)only) ? (unsigned)only : KINDS;
  unsigned which;
  do {
    which = draw(j->random, KINDS);
  } while (!can_play(j, which));
  return which;
}

static bool play_round(job *j, unsigned which) {
  unsigned before = j->there;
  nap_ms(draw(j->random, 30));
  j->blow_ms = 0;
  kinds[which].play(j);
  bool fine = wait_for(j->there);
  double took_ms = now_ms() - j->blow_ms;
  atomic_store(&all->wanted, 0);
  if (n_times[which] < TIMES_MAX) times_ms[which][n_times[which]++] = took_ms;
  if (!fine || took_ms > (double)SLOW_MS)
    print_message("# %s: %#x to %#x took %.0f ms\n", kinds[which].name, before,
                  j->there, took_ms);
  return fine;
}

/* Resumes all stopped ranks at once. Each must find that it was left out.
 * Returns the number that did not. */
static int wake_stopped(job *j) {
  int wrong = 0;
  for (int i = 0; i < j->begun; i++)
    if (j->stopped >> i & 1) kill(j->pids[i], SIGCONT);
  for (int i = 0; i < j->begun; i++)
    if (j->stopped >> i & 1) wrong += !ends_with(j, i, STALE);
  j->stopped = 0;
  return wrong;
}

/* Ends the present ranks. Stopped ranks must not ask to end: on waking, such a
 * rank completes the call if all its messages arrived before it was stopped. */
static int end_there(job *j) {
  int wrong = 0;
  atomic_store(&all->stop, j->there);
  for (int i = 0; i < j->begun; i++)
    if (j->there >> i & 1) wrong += !ends_with(j, i, 0);
  return wrong;
}

static void kill_all(job *j) {
  for (int i = 0; i < j->begun; i++)
    if ((j->there | j->stopped) >> i & 1) {
      kill(j->pids[i], SIGKILL);
      waitpid(j->pids[i], NULL, 0);
    }
}

/* Returns the number of rounds played, at most `most`. */
static int run_job(unsigned *random, int most) {
  job j;
  int played = 0, wrong = 0;
  start_job(&j, random, 2 + (int)draw(random, MOST - 1));
  bool fine = wait_for(j.there);
  while (fine && wrong == 0 && played < most && j.begun + 2 <= IDS) {
    unsigned which = draw_kind(&j);
    if (which == KINDS) break;
    fine = play_round(&j, which);
    played++;
    if (fine && draw(random, 3) == 0) wrong = wake_stopped(&j);
    if (draw(random, 10) == 0) break;
  }
  if (!fine) {
    print_notes(&j);
    kill_all(&j);
  } else if (draw(random, 2) == 0) {
    wrong += wake_stopped(&j) + end_there(&j);
  } else {
    wrong += end_there(&j);
    wrong += wake_stopped(&j);
  }
  remove_directory();
  assert_true(fine);
  assert_int_equal(wrong, 0);
  return played;
}

/* A rank is stopped for little more than its heartbeat. Meanwhile one of the
 * others is killed, and the last one goes on without both and ends, so no rank
 * is left that could tell it on waking. */
static void one_that_was_left_does_not_go_on_alone(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    job j;
    unsigned random = 0;
    start_job(&j, &random, 3);
    bool fine = wait_for(j.there);
    leave_store(&j);
    nap_ms(SETTLE_MS + 130 * (unsigned)i);
    strike(&j, 2, SIGSTOP);
    strike(&j, 1, SIGKILL);
    fine = fine && wait_for(j.there);
    int wrong = fine ? end_there(&j) + wake_stopped(&j) : 0;
    if (!fine) {
      print_notes(&j);
      kill_all(&j);
    }
    remove_directory();
    assert_true(fine);
    assert_int_equal(wrong, 0);
  }
}

static int by_size(const void *a, const void *b) {
  const double *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static void print_times(const char *name, double *ms, size_t n) {
  size_t slow = 0;
  if (n == 0) return;
  qsort(ms, n, sizeof *ms, by_size);
  for (size_t i = 0; i < n; i++) slow += ms[i] > (double)SLOW_MS;
  print_message(
      "# %-4s %-18s %4zu rounds: median %5.0f ms, 90%% %5.0f, max "
      "%5.0f, above %d: %zu\n",
      transport, name, n, ms[n / 2], ms[n * 9 / 10], ms[n - 1], SLOW_MS, slow);
}

static void all_that_are_there_go_on(void **state) {
  (void)state;
  static double every_ms[KINDS * TIMES_MAX];
  size_t n = 0;
  const char *given = gli_environment_read("GLOO_TEST_SEED");
  unsigned random = given != NULL ? (unsigned)strtoul(given, NULL, 10)
                                  : (unsigned)(now_ms() * 1000);
  for (int done = 0; done < n_rounds;) {
    print_message("# GLOO_TEST_SEED=%u\n", random);
    done += run_job(&random, n_rounds - done);
  }
  for (unsigned k = 0; k < KINDS; k++) {
    memcpy(every_ms + n, times_ms[k], n_times[k] * sizeof *every_ms);
    n += n_times[k];
    print_times(kinds[k].name, times_ms[k], n_times[k]);
  }
  print_times("all", every_ms, n);
}

static bool share_memory(void) {
  FILE *file = tmpfile();
  if (file == NULL || ftruncate(fileno(file), sizeof *all) != 0) return false;
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED,
             fileno(file), 0);
  return all != MAP_FAILED;
}

/* Arguments: the transport, the number of rounds, and the only kind to play. */
int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "auto";
  if (argc > 2) n_rounds = atoi(argv[2]);
  for (unsigned k = 0; k < KINDS && argc > 3; k++)
    if (strcmp(argv[3], kinds[k].name) == 0) only = (int)k;
  if (!share_memory() || (argc > 3 && only < 0)) return 1;
  setenv("GLOO_HEARTBEAT", "1", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_was_left_does_not_go_on_alone),
      cmocka_unit_test(all_that_are_there_go_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
