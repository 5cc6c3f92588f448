/* Elastic jobs with ranks as processes: which rank's state the others get when
 * ranks fail and join, and which failures end the loop. */
#define _XOPEN_SOURCE 700 /* nftw */
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
#include <unistd.h>

#include <cmocka.h>

#include "gloo_c/gloo_c.h"
#include "remove_tree.h"

enum { RANKS = 3, MOST = 5, STEPS = 60, LIMIT_S = 120 };
#define LONG_NS INT64_C(60000000000)

static const char *transport;
static char directory[40];
static pid_t pids[MOST];

/* A process of the job. Its state is the number of steps, counted by all
 * ranks together, and a mark of the process that began it. */
typedef struct member {
  int self; /* number among the processes */
  gloo_store *store;
  gloo_device *device;
  gloo_context *context; /* before it belongs to the job */
  gloo_elastic *job;
  int64_t state[2];
  int changes, root;
  gloo_elastic_reason reason;
  bool dies_in_sync;
} member;

static void need(gloo_status status, const gloo_error *error) {
  if (status == GLOO_OK) return;
  fprintf(stderr, "# process %ld: %s\n", (long)getpid(), error->message);
  _exit(1);
}

static void expect(bool holds, int code) {
  if (!holds) _exit(code);
}

static void tell(const member *m, const char *event) {
  gloo_error error;
  need(gloo_store_set(m->store, event, "1", 1, &error), &error);
}

static void await(const member *m, const char *event) {
  gloo_error error;
  gloo_value value;
  need(gloo_store_get(m->store, event, LONG_NS, &value, &error), &error);
  free(value.data);
}

static gloo_status sync_state(gloo_context *context, int root,
                              gloo_elastic_reason reason, void *user,
                              gloo_error *error) {
  member *m = user;
  m->changes++;
  m->root = root;
  m->reason = reason;
  if (m->self >= RANKS) tell(m, "newcomer in sync");
  if (m->dies_in_sync && reason == GLOO_ELASTIC_GROW) {
    await(m, "newcomer in sync");
    kill(getpid(), SIGKILL);
  }
  return gloo_broadcast(context, GLOO_IN_PLACE, m->state, 2, GLOO_INT64, root,
                        NULL, error);
}

static void meet(member *m, int self) {
  gloo_error error;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  f.directory = directory;
  d.transport = transport;
  memset(m, 0, sizeof *m);
  m->self = self;
  m->state[1] = 100 + self;
  need(gloo_store_file_create(&f, &m->store, &error), &error);
  need(gloo_device_create(&d, &m->device, &error), &error);
  if (self < RANKS)
    need(gloo_context_create(self, RANKS, m->store, m->device, NULL,
                             &m->context, &error),
         &error);
  else
    need(gloo_context_join(m->store, m->device, NULL, LONG_NS, &m->context,
                           &error),
         &error);
}

static void begin(member *m, int self, const gloo_grow_options *grow) {
  gloo_error error;
  gloo_elastic_options o = GLOO_ELASTIC_OPTIONS_INIT;
  meet(m, self);
  o.sync = sync_state;
  o.user = m;
  o.store = m->store;
  o.steps = STEPS;
  o.grow = grow;
  need(gloo_elastic_create(m->context, &o, &m->job, &error), &error);
}

/* A step: the ranks count it together. */
static gloo_status count(member *m, gloo_error *error) {
  gloo_context *context = gloo_elastic_context(m->job);
  int64_t sum = 1;
  gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, &sum, 1,
                                      GLOO_INT64, GLOO_SUM, NULL, error);
  if (status == GLOO_OK) m->state[0] += sum / gloo_context_size(context);
  return status;
}

/* Runs the steps. Process `victim` is killed before its step `at`. */
static void run(member *m, int64_t step, int victim, int64_t at) {
  gloo_error error;
  gloo_status status = GLOO_OK, next;
  while ((next = gloo_elastic_next(m->job, status, &step, &error)) == GLOO_OK &&
         step < STEPS) {
    if (m->self == victim && step == at) kill(getpid(), SIGKILL);
    status = count(m, &error);
    if (status == GLOO_OK) step++;
  }
  need(next, &error);
  expect(step == STEPS, 2);
}

static void leave(member *m) {
  gloo_elastic_destroy(m->job);
  gloo_device_destroy(m->device);
  gloo_store_destroy(m->store);
  _exit(0);
}

static void fork_each(int from, int to, void (*play)(int self)) {
  for (int i = from; i < to; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] > 0) continue;
    alarm(LIMIT_S);
    play(i);
    _exit(0);
  }
}

/* Waits for the processes, of which those in the set `killed` are killed. */
static void all_end(int n, unsigned killed) {
  for (int i = 0; i < n; i++) {
    int status = 0;
    waitpid(pids[i], &status, 0);
    bool dies = (killed >> i & 1) != 0;
    if (dies ? !WIFSIGNALED(status) : status != 0)
      print_message("# process %d: %#x\n", i, (unsigned)status);
    assert_true(dies ? WIFSIGNALED(status) : status == 0);
  }
}

static int make_directory(void **state) {
  (void)state;
  strcpy(directory, "/tmp/gloo_c_elastic_XXXXXX");
  return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state) {
  (void)state;
  return remove_tree(directory);
}

/* ---- ranks that fail ----------------------------------------------------- */

static void starts(int self) {
  member m;
  begin(&m, self, NULL);
  run(&m, 0, -1, 0);
  expect(m.state[0] == STEPS && m.state[1] == 100, 3);
  expect(m.changes == 1 && m.root == 0 && m.reason == GLOO_ELASTIC_START, 4);
  leave(&m);
}

static void all_start_with_the_state_of_rank_0(void **state) {
  (void)state;
  fork_each(0, RANKS, starts);
  all_end(RANKS, 0);
}

static void loses_the_first(int self) {
  member m;
  begin(&m, self, NULL);
  run(&m, 0, 0, 20);
  expect(m.state[0] == STEPS && m.state[1] == 100, 5);
  expect(m.changes == 2 && m.reason == GLOO_ELASTIC_SHRINK, 6);
  expect(gloo_context_size(gloo_elastic_context(m.job)) == RANKS - 1, 7);
  leave(&m);
}

static void others_repeat_the_step_of_a_killed_rank(void **state) {
  (void)state;
  fork_each(0, RANKS, loses_the_first);
  all_end(RANKS, 1);
}

/* Process 2 dies after a step that only process 1 counts as completed. */
static void is_ahead(int self) {
  member m;
  gloo_error error;
  int64_t step = 0;
  begin(&m, self, NULL);
  need(gloo_elastic_next(m.job, GLOO_OK, &step, &error), &error);
  need(count(&m, &error), &error);
  step++;
  if (self == 2) kill(getpid(), SIGKILL);
  if (self == 1) {
    m.state[0] = 7;
    step = 7;
  }
  gloo_status status = gloo_recv(gloo_elastic_context(m.job), m.state, 0,
                                 GLOO_INT64, 2, NULL, &error);
  expect(status != GLOO_OK, 8);
  need(gloo_elastic_next(m.job, status, &step, &error), &error);
  expect(step == 7 && m.state[0] == 7 && m.root == 1, 9);
  run(&m, step, -1, 0);
  leave(&m);
}

static void all_get_the_state_of_the_rank_that_is_ahead(void **state) {
  (void)state;
  fork_each(0, RANKS, is_ahead);
  all_end(RANKS, 1u << 2);
}

/* ---- newcomers ----------------------------------------------------------- */

static const gloo_grow_options one_newcomer = {sizeof one_newcomer, NULL, 1, 0,
                                               LONG_NS};

static void takes_in_another(int self) {
  member m;
  gloo_error error;
  int64_t step = 0;
  begin(&m, self, &one_newcomer);
  need(gloo_elastic_next(m.job, GLOO_OK, &step, &error), &error);
  need(count(&m, &error), &error);
  step++;
  need(gloo_elastic_next(m.job, GLOO_OK, &step, &error), &error);
  expect(step == 1 && m.root == 0 && m.reason == GLOO_ELASTIC_GROW, 10);
  expect(gloo_context_size(gloo_elastic_context(m.job)) == RANKS + 1, 11);
  expect(m.state[0] == 1 && m.state[1] == 100, 12);
  need(gloo_elastic_next(m.job, count(&m, &error), &step, &error), &error);
  leave(&m);
}

/* Its state claims to be far ahead. */
static void comes_with_an_old_state(int self) {
  member m;
  gloo_error error;
  int64_t step = 50;
  begin(&m, self, NULL);
  m.state[0] = 50;
  need(gloo_elastic_next(m.job, GLOO_OK, &step, &error), &error);
  expect(step == 1 && m.root == 0 && m.reason == GLOO_ELASTIC_START, 13);
  expect(m.state[0] == 1 && m.state[1] == 100, 14);
  need(count(&m, &error), &error);
  leave(&m);
}

static void newcomer_gives_its_state_to_no_rank(void **state) {
  (void)state;
  fork_each(0, RANKS, takes_in_another);
  fork_each(RANKS, RANKS + 1, comes_with_an_old_state);
  all_end(RANKS + 1, 0);
}

static void admits_and_dies(int self) {
  member m;
  gloo_error error;
  gloo_context *more;
  meet(&m, self);
  need(gloo_context_grow(m.context, m.store, &one_newcomer, &more, &error),
       &error);
  await(&m, "newcomer joined");
  kill(getpid(), SIGKILL);
}

static void is_left_alone(int self) {
  member m;
  begin(&m, self, NULL);
  tell(&m, "newcomer joined");
  run(&m, 0, -1, 0);
  expect(m.state[0] == STEPS && m.state[1] == 100 + RANKS, 15);
  expect(m.root == 0 && m.reason == GLOO_ELASTIC_SHRINK, 16);
  leave(&m);
}

static void newcomer_that_is_alone_starts_afresh(void **state) {
  (void)state;
  fork_each(0, RANKS, admits_and_dies);
  fork_each(RANKS, RANKS + 1, is_left_alone);
  all_end(RANKS + 1, (1u << RANKS) - 1);
}

static void dies_in_sync(int self) {
  member m;
  gloo_error error;
  int64_t step = 0;
  begin(&m, self, &one_newcomer);
  m.dies_in_sync = true;
  need(gloo_elastic_next(m.job, GLOO_OK, &step, &error), &error);
  step++;
  (void)gloo_elastic_next(m.job, GLOO_OK, &step, &error);
  _exit(17);
}

static void has_a_part_of_the_state(int self) {
  member m;
  gloo_error error;
  int64_t step = 0;
  begin(&m, self, NULL);
  gloo_status status = gloo_elastic_next(m.job, GLOO_OK, &step, &error);
  expect(status == GLOO_ERR_PEER, 18);
  expect(strstr(error.message, "no rank has a whole state") != NULL, 19);
  leave(&m);
}

static void state_that_was_received_in_part_is_not_used(void **state) {
  (void)state;
  fork_each(0, RANKS, dies_in_sync);
  fork_each(RANKS, RANKS + 1, has_a_part_of_the_state);
  all_end(RANKS + 1, (1u << RANKS) - 1);
}

/* ---- failures that end the loop ------------------------------------------ */

/* Rank 0 makes another call than the others, again and again. */
static void differs(int self) {
  member m;
  gloo_error error;
  gloo_status status = GLOO_OK, next;
  int64_t step = 0;
  int tries = 0;
  begin(&m, self, NULL);
  while ((next = gloo_elastic_next(m.job, status, &step, &error)) == GLOO_OK) {
    tries++;
    status = self == 0 ? gloo_barrier(gloo_elastic_context(m.job), NULL, &error)
                       : count(&m, &error);
  }
  expect(next == GLOO_ERR_MISMATCH && tries == 2, 20);
  expect(strstr(error.message, "has failed twice") != NULL, 21);
  leave(&m);
}

static void program_error_ends_the_loop(void **state) {
  (void)state;
  fork_each(0, RANKS, differs);
  all_end(RANKS, 0);
}

static void refused_call_is_returned(void **state) {
  (void)state;
  member m;
  gloo_error error;
  int64_t step = 0;
  gloo_elastic_options o = GLOO_ELASTIC_OPTIONS_INIT;
  gloo_context *alone;
  memset(&m, 0, sizeof m);
  o.steps = 1;
  assert_int_equal(gloo_context_create(0, 1, NULL, NULL, NULL, &alone, &error),
                   GLOO_OK);
  assert_int_equal(gloo_elastic_create(alone, &o, &m.job, &error),
                   GLOO_ERR_INVALID);
  o.sync = sync_state;
  o.user = &m;
  o.steps = 0;
  assert_int_equal(gloo_elastic_create(alone, &o, &m.job, &error),
                   GLOO_ERR_INVALID);
  o.steps = 1;
  assert_int_equal(gloo_elastic_create(alone, &o, NULL, &error),
                   GLOO_ERR_INVALID);
  assert_int_equal(gloo_elastic_create(alone, &o, &m.job, &error), GLOO_OK);
  assert_ptr_equal(gloo_elastic_context(m.job), alone);
  gloo_status refused = gloo_broadcast(alone, GLOO_IN_PLACE, m.state, 2,
                                       GLOO_INT64, 5, NULL, &error);
  assert_int_equal(gloo_elastic_next(m.job, refused, &step, &error),
                   GLOO_ERR_ROOT);
  assert_int_equal(gloo_elastic_next(m.job, GLOO_OK, NULL, &error),
                   GLOO_ERR_INVALID);
  assert_int_equal(gloo_elastic_next(m.job, GLOO_OK, &step, &error), GLOO_OK);
  step = -1;
  assert_int_equal(gloo_elastic_next(m.job, GLOO_OK, &step, &error),
                   GLOO_ERR_INVALID);
  step = 1;
  assert_int_equal(gloo_elastic_next(m.job, GLOO_OK, &step, &error), GLOO_OK);
  assert_int_equal(m.changes, 1);
  assert_null(gloo_elastic_context(NULL));
  gloo_elastic_destroy(m.job);
  gloo_elastic_destroy(NULL);
}

static void joining_needs_a_store(void **state) {
  (void)state;
  gloo_error error;
  gloo_elastic *job;
  gloo_elastic_options o = GLOO_ELASTIC_OPTIONS_INIT;
  o.sync = sync_state;
  o.steps = 1;
  setenv("GLOO_JOIN", "1", 1);
  assert_int_equal(gloo_elastic_create(NULL, &o, &job, &error),
                   GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "GLOO_STORE"));
  setenv("GLOO_JOIN", "yes", 1);
  assert_int_equal(gloo_elastic_create(NULL, &o, &job, &error),
                   GLOO_ERR_INVALID);
  unsetenv("GLOO_JOIN");
}

#define IN_DIRECTORY(test) \
  cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      IN_DIRECTORY(all_start_with_the_state_of_rank_0),
      IN_DIRECTORY(others_repeat_the_step_of_a_killed_rank),
      IN_DIRECTORY(all_get_the_state_of_the_rank_that_is_ahead),
      IN_DIRECTORY(newcomer_gives_its_state_to_no_rank),
      IN_DIRECTORY(newcomer_that_is_alone_starts_afresh),
      IN_DIRECTORY(state_that_was_received_in_part_is_not_used),
      IN_DIRECTORY(program_error_ends_the_loop),
      cmocka_unit_test(refused_call_is_returned),
      cmocka_unit_test(joining_needs_a_store),
  };
  transport = argc > 1 ? argv[1] : "tcp";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
