/* Repeated receives: the library passes the next message directly to the
 * receive if no other receive can match it, and else to the oldest match. */
#include "ranks.h"

#include <stdbool.h>
#include <string.h>
#include <uv.h>

static const char *transport = "auto";

static void run(int size, rank_body body) {
  ranks_options o = {.transport = transport};
  ranks_run(size, &o, body);
}

enum { ROUNDS = 60, OTHER_TAG = 9 };

static gloo_options with_tag(uint32_t tag) {
  gloo_options o = GLOO_OPTIONS_INIT;
  o.tag = tag;
  return o;
}

static int32_t receive_word(rank_env *env, uint32_t tag) {
  gloo_options o = with_tag(tag);
  int32_t word = -1;
  RANK_OK(env, gloo_recv(env->context, &word, 1, GLOO_INT32, 0, &o, NULL));
  return word;
}

static void send_word(rank_env *env, uint32_t tag, int32_t word) {
  gloo_options o = with_tag(tag);
  RANK_OK(env, gloo_send(env->context, &word, 1, GLOO_INT32, 1, &o, NULL));
}

/* A receive that was started earlier gets the first message. */
static void receive_behind_another(rank_env *env, int32_t first) {
  gloo_request *started;
  int32_t word = -1;
  RANK_OK(env, gloo_recv_start(env->context, &word, 1, GLOO_INT32, 0, NULL,
                               &started, NULL));
  RANK_CHECK(env, receive_word(env, 0) == first + 1);
  RANK_OK(env, gloo_request_wait(started, GLOO_TIMEOUT_DEFAULT, NULL));
  RANK_CHECK(env, gloo_request_source(started) == 0);
  gloo_request_destroy(started);
  RANK_CHECK(env, word == first);
  RANK_CHECK(env, receive_word(env, OTHER_TAG) == first + 2);
}

/* The other messages arrive earlier, and are queued. */
static void receive_last_first(rank_env *env, int32_t first) {
  RANK_CHECK(env, receive_word(env, OTHER_TAG) == first + 2);
  RANK_CHECK(env, receive_word(env, 0) == first);
  int32_t word = -1;
  int source = -1;
  RANK_OK(env, gloo_recv_any(env->context, &word, 1, GLOO_INT32, NULL, 0, NULL,
                             &source, NULL));
  RANK_CHECK(env, source == 0 && word == first + 1);
}

static void receive_persistently(rank_env *env, gloo_request *op,
                                 const int32_t *word, int32_t first) {
  for (int32_t i = 0; i < 2; i++) {
    RANK_OK(env, gloo_request_start(op, NULL));
    RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
    RANK_CHECK(env, gloo_request_source(op) == 0 && *word == first + i);
  }
  RANK_CHECK(env, receive_word(env, OTHER_TAG) == first + 2);
}

static void receive_all_ways(rank_env *env) {
  int32_t word = -1;
  gloo_request *op;
  RANK_OK(env, gloo_recv_init(env->context, &word, 1, GLOO_INT32, 0, NULL, &op,
                              NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t first = 10 * round;
    if (round % 7 == 0) uv_sleep(1);
    if (round % 4 == 0) {
      RANK_CHECK(env, receive_word(env, 0) == first);
      RANK_CHECK(env, receive_word(env, 0) == first + 1);
      RANK_CHECK(env, receive_word(env, OTHER_TAG) == first + 2);
    } else if (round % 4 == 1) {
      receive_behind_another(env, first);
    } else if (round % 4 == 2) {
      receive_last_first(env, first);
    } else {
      receive_persistently(env, op, &word, first);
    }
    RANK_CHECK(env, receive_word(env, 0) == first + 3);
    if (round % 3 == 0) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  }
  gloo_request_destroy(op);
}

/* Rank 0 sends four words per round, at times ahead of rank 1 and at times
 * behind it. */
static void in_all_ways(rank_env *env) {
  if (env->rank == 1) receive_all_ways(env);
  for (int32_t round = 0; env->rank != 1 && round < ROUNDS; round++) {
    int32_t first = 10 * round;
    if (env->rank == 0) {
      if (round % 5 == 0) uv_sleep(1);
      send_word(env, 0, first);
      send_word(env, 0, first + 1);
      if (round % 11 == 0) uv_sleep(1);
      send_word(env, OTHER_TAG, first + 2);
      send_word(env, 0, first + 3);
    }
    if (round % 3 == 0) RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  }
}

static void each_receive_has_its_message(void **state) {
  (void)state;
  run(2, in_all_ways);
  run(3, in_all_ways);
}

/* One message is queued here, and the next one has arrived but has not been
 * read yet. */
static void one_is_kept(rank_env *env) {
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t first = 10 * round, word = -1;
    if (env->rank == 0) {
      send_word(env, 0, first);
      send_word(env, OTHER_TAG, first + 1);
      RANK_OK(env,
              gloo_recv(env->context, &word, 1, GLOO_INT32, 1, NULL, NULL));
      RANK_CHECK(env, word == first);
      send_word(env, 0, first + 2);
      continue;
    }
    RANK_CHECK(env, receive_word(env, OTHER_TAG) == first + 1);
    RANK_OK(env, gloo_send(env->context, &first, 1, GLOO_INT32, 0, NULL, NULL));
    if (round % 8 == 0) uv_sleep(1);
    RANK_CHECK(env, receive_word(env, 0) == first);
    RANK_CHECK(env, receive_word(env, 0) == first + 2);
  }
}

static void what_is_kept_comes_first(void **state) {
  (void)state;
  run(2, one_is_kept);
}

/* ---- two at a time ------------------------------------------------------- */

/* Two groups of the same ranks share one connection. */
static void in_groups(rank_env *env) {
  gloo_context *group[2];
  gloo_error error;
  int peer = 1 - env->rank;
  for (int g = 0; g < 2; g++) {
    RANK_OK(env, gloo_context_split(env->context, 0, env->rank, NULL, &group[g],
                                    &error));
  }
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t words[2] = {round, -round}, got[2] = {-1, -1};
    int before = round % 2, after = 1 - before;
    if (env->rank == 0) {
      RANK_OK(env, gloo_send(group[before], &words[before], 1, GLOO_INT32, peer,
                             NULL, NULL));
      RANK_OK(env, gloo_send(group[after], &words[after], 1, GLOO_INT32, peer,
                             NULL, NULL));
      continue;
    }
    int first = round % 3 == 0 ? after : before;
    for (int i = 0; i < 2; i++) {
      int g = i == 0 ? first : 1 - first;
      RANK_OK(env,
              gloo_recv(group[g], &got[g], 1, GLOO_INT32, peer, NULL, NULL));
    }
    RANK_CHECK(env, got[0] == round && got[1] == -round);
  }
  for (int g = 0; g < 2; g++) gloo_context_destroy(group[g]);
}

static void groups_do_not_take_each_others(void **state) {
  (void)state;
  run(2, in_groups);
}

/* ---- errors are detected as in a first call ------------------------------ */

static void last_is_longer(rank_env *env) {
  int32_t words[2] = {1, 2};
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  for (int round = 0; round < 4; round++) {
    size_t count = env->rank == 0 && round == 3 ? 2 : 1;
    gloo_status status =
        env->rank == 0
            ? gloo_send(env->context, words, count, GLOO_INT32, 1, NULL, NULL)
            : gloo_recv(env->context, words, count, GLOO_INT32, 0, &o, &error);
    if (round < 3) RANK_CHECK(env, status == GLOO_OK);
    if (round == 3 && env->rank == 1) {
      RANK_CHECK(env, status == GLOO_ERR_MISMATCH);
      RANK_CHECK(env, strstr(error.message, "2 x int32") != NULL);
    }
  }
  RANK_CHECK(env, gloo_barrier(env->context, NULL, NULL) != GLOO_OK);
}

static void another_count_is_a_mismatch(void **state) {
  (void)state;
  run(2, last_is_longer);
}

static void nobody_sends(rank_env *env) {
  int32_t word = 5;
  gloo_error error;
  gloo_options o = GLOO_OPTIONS_INIT;
  o.timeout_ns = INT64_C(30000000000);
  for (int round = 0; round < 3; round++) {
    if (env->rank == 0) {
      RANK_OK(env,
              gloo_send(env->context, &word, 1, GLOO_INT32, 1, NULL, NULL));
    } else {
      RANK_OK(env,
              gloo_recv(env->context, &word, 1, GLOO_INT32, 0, &o, &error));
    }
  }
  if (env->rank == 0) return;
  gloo_status status =
      gloo_recv(env->context, &word, 1, GLOO_INT32, 0, &o, &error);
  RANK_CHECK(env, status == GLOO_ERR_TIMEOUT || status == GLOO_ERR_PEER);
  RANK_CHECK(env, error.status == status && error.rank == 0);
}

static void a_sender_that_has_left_is_named(void **state) {
  (void)state;
  run(2, nobody_sends);
}

int main(int argc, char **argv) {
  if (argc > 1) transport = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_receive_has_its_message),
      cmocka_unit_test(what_is_kept_comes_first),
      cmocka_unit_test(groups_do_not_take_each_others),
      cmocka_unit_test(another_count_is_a_mismatch),
      cmocka_unit_test(a_sender_that_has_left_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
