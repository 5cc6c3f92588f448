/* Many ranks send to one rank while it does not poll, and then leave: it
 * receives all messages before it sees that they left. Before, its receive queue
 * grows to hold them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "ranks/ranks.h"

/* A rank that does not poll returns no credits. Up to seven may be pending, so
 * EACH messages can be sent to it. */
enum { RANKS = 120, EACH = 8, MANY = 12, TURNS = 8, BURSTS = 4 };

/* Orders the ranks: they send one after the other, and leave in reverse
 * order. */
typedef struct many_turn {
  uv_mutex_t lock;
  uv_cond_t changed;
  int n;
} many_turn;

static void turn_next(many_turn *turn) {
  uv_mutex_lock(&turn->lock);
  turn->n++;
  uv_cond_broadcast(&turn->changed);
  uv_mutex_unlock(&turn->lock);
}

static void turn_await(many_turn *turn, int n) {
  uv_mutex_lock(&turn->lock);
  while (turn->n < n) uv_cond_wait(&turn->changed, &turn->lock);
  uv_mutex_unlock(&turn->lock);
}

static void send_to_first(rank_env *env, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    RANK_OK(env, gloo_send(env->context, &i, 1, GLOO_INT32, 0, NULL, NULL));
}

static void receive_all(rank_env *env, int32_t n) {
  for (int r = 1; r < RANKS; r++) {
    for (int32_t i = 0; i < n; i++) {
      int32_t word = -1;
      RANK_OK(env,
              gloo_recv(env->context, &word, 1, GLOO_INT32, r, NULL, NULL));
      RANK_CHECK(env, word == i);
    }
  }
}

static void doze(void) {
  nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
}

/* More messages arrive than there are buffers. */
static void take_bursts(rank_env *env) {
  for (int burst = 0; burst < BURSTS; burst++) {
    if (env->rank != 0) {
      send_to_first(env, MANY);
      continue;
    }
    doze();
    receive_all(env, MANY);
  }
}

/* Rank 0 first connects to each of the others. */
static void leave_early(rank_env *env) {
  int32_t word = 0;
  for (int r = 1; r < RANKS; r++) {
    if (env->rank == 0)
      RANK_OK(env,
              gloo_send(env->context, &word, 1, GLOO_INT32, r, NULL, NULL));
    else if (env->rank == r)
      RANK_OK(env,
              gloo_recv(env->context, &word, 1, GLOO_INT32, 0, NULL, NULL));
  }
  take_bursts(env);
  if (env->rank != 0) {
    turn_await(env->user, env->rank - 1);
    send_to_first(env, EACH);
    turn_next(env->user);
    turn_await(env->user, 2 * (RANKS - 1) - env->rank);
    gloo_context_destroy(env->context);
    env->context = NULL;
    turn_next(env->user);
    return;
  }
  turn_await(env->user, 2 * (RANKS - 1));
  doze(); /* others leave */
  receive_all(env, EACH);
}

static void leave_once(void **state) {
  (void)state;
  many_turn turn = {.n = 0};
  assert_int_equal(uv_mutex_init(&turn.lock), 0);
  assert_int_equal(uv_cond_init(&turn.changed), 0);
  ranks_options o = {.transport = "ibv", .no_helper = 1, .user = &turn};
  ranks_run(RANKS, &o, leave_early);
  uv_cond_destroy(&turn.changed);
  uv_mutex_destroy(&turn.lock);
}

/* One pair uses TCP, so rank 0 polls TCP each time, too. */
static _Noreturn void leave_in_child(int turn) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(leave_once)};
  char fail[32];
  snprintf(fail, sizeof fail, "create_qp:%d", turn + 2);
  setenv("STANDIN_FAIL", fail, 1);
  if (freopen("/dev/null", "w", stdout) == NULL) exit(2);
  exit(cmocka_run_group_tests(tests, NULL, NULL));
}

/* The order of arrival is random, so the test runs many times. */
static void all_arrives_before_they_leave(void **state) {
  (void)state;
  for (int turn = 0; turn < TURNS; turn++) {
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) leave_in_child(turn);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_arrives_before_they_leave),
  };
  return cmocka_run_group_tests_name("ibv_many", tests, NULL, NULL);
}
