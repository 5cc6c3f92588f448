/* Initialisations that run once, also where a fork comes between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four above */
#include <cmocka.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "core/fork.h"

enum { THREADS = 8, INIT_MS = 100 };

static atomic_bool made, outer_made;
static atomic_int begun, ended, outer_ended;
static gli_fork_guard guard;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int setup(void **state) {
  (void)state;
  made = outer_made = false;
  begun = ended = outer_ended = 0;
  return 0;
}

static void init(void) {
  atomic_fetch_add(&begun, 1);
  uv_sleep(INIT_MS);
  atomic_fetch_add(&ended, 1);
}

/* Begins a watch and another initialisation. */
static void outer_init(void) {
  gli_once(&made, init);
  assert_true(gli_fork_guard_begin(&guard, GLI_FORK_OBJECTS, &mutex, NULL));
  atomic_fetch_add(&outer_ended, 1);
}

static void run(void *seen) {
  gli_once(&made, init);
  *(int *)seen = atomic_load(&ended);
}

static void all_threads_wait_for_the_one_that_runs(void **state) {
  (void)state;
  uv_thread_t threads[THREADS];
  int seen[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(uv_thread_create(&threads[i], run, &seen[i]), 0);
  for (int i = 0; i < THREADS; i++) uv_thread_join(&threads[i]);
  for (int i = 0; i < THREADS; i++) assert_int_equal(seen[i], 1);
  assert_int_equal(begun, 1);
}

static void one_may_begin_watches_and_others(void **state) {
  (void)state;
  gli_once(&outer_made, outer_init);
  gli_once(&outer_made, outer_init);
  assert_int_equal(ended, 1);
  assert_int_equal(outer_ended, 1);
  gli_fork_guard_end(&guard);
}

static void await_child(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void *run_alone(void *unused) {
  gli_once(&made, init);
  return unused;
}

/* Where a system has no fork, calling it skips the test case: before there is a
 * thread, or a lock that is held. */
static void need_fork(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  await_child(child);
}

static void a_fork_waits_until_it_has_run(void **state) {
  (void)state;
  need_fork();
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_alone, NULL), 0);
  assert_int_equal(pthread_detach(thread), 0); /* the child cannot join it */
  while (atomic_load(&begun) == 0) uv_sleep(1);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    gli_once(&made, init);
    _exit(begun != 1 || ended != 1);
  }
  while (atomic_load(&ended) == 0) uv_sleep(1);
  await_child(child);
}

static pid_t forked;

static void init_that_forks(void) {
  forked = fork();
  atomic_fetch_add(&ended, 1);
}

/* A library that is loaded may start a program. */
static void one_that_forks_ends_in_both_processes(void **state) {
  (void)state;
  need_fork();
  gli_once(&made, init_that_forks);
  if (forked == 0) {
    alarm(10);
    gli_once(&outer_made, outer_init);
    _exit(ended != 1 || outer_ended != 1);
  }
  await_child(forked);
  gli_once(&outer_made, outer_init);
  assert_int_equal(outer_ended, 1);
  gli_fork_guard_end(&guard);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(all_threads_wait_for_the_one_that_runs, setup),
      cmocka_unit_test_setup(one_may_begin_watches_and_others, setup),
      cmocka_unit_test_setup(a_fork_waits_until_it_has_run, setup),
      cmocka_unit_test_setup(one_that_forks_ends_in_both_processes, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
