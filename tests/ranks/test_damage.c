/* A flipped bit in a TCP stream: no rank reports success with a wrong result,
 * and all ranks report the error. The flip happens as rank 0 writes to its
 * sockets, in wrappers of system functions (-Wl,--wrap). */
#include "ranks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SECOND INT64_C(1000000000)

/* ---- the flip ------------------------------------------------------------ */

/* Flip in this thread's next writes. */
static _Thread_local struct {
  bool armed;
  size_t at; /* remaining distance in bytes */
  unsigned bit;
} flip;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);

static ssize_t send_damaged(int fd, uint8_t *copy, size_t bytes, int flags) {
  if (flip.at < bytes) copy[flip.at] ^= (uint8_t)(1u << flip.bit);
  ssize_t sent = __real_send(fd, copy, bytes, flags);
  free(copy);
  if (sent <= 0) return sent;
  if ((size_t)sent > flip.at)
    flip.armed = false;
  else
    flip.at -= (size_t)sent;
  return sent;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags) {
  if (!flip.armed) return __real_send(fd, from, bytes, flags);
  uint8_t *copy = malloc(bytes);
  if (!copy) abort();
  memcpy(copy, from, bytes);
  return send_damaged(fd, copy, bytes, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  if (!flip.armed) return __real_sendmsg(fd, message, flags);
  size_t bytes = 0;
  for (size_t i = 0; i < (size_t)message->msg_iovlen; i++)
    bytes += message->msg_iov[i].iov_len;
  uint8_t *copy = malloc(bytes), *at = copy;
  if (!copy) abort();
  for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
    memcpy(at, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
    at += message->msg_iov[i].iov_len;
  }
  return send_damaged(fd, copy, bytes, flags);
}

/* ---- what the ranks do --------------------------------------------------- */

enum { BATCH = 20, BATCH_LONG = 50000, BATCH_SHORT = 25 };

enum { HEADER = 64, LONG = 1 << 20 };

typedef struct scene {
  size_t warm_up; /* elements of a first allreduce, enough to use all
                     connections */
  size_t count;   /* elements of the second; 0: a batch of messages */
  size_t at;
  unsigned bit;
  const char *expected; /* part of the error message */
} scene;

static float value(int rank, size_t i) {
  return (float)((size_t)rank * 100 + i % 13);
}

static gloo_status sum_up(rank_env *env, size_t count) {
  float *data = malloc(count * sizeof *data);
  if (!data) abort();
  for (size_t i = 0; i < count; i++) data[i] = value(env->rank, i);
  gloo_status status = gloo_allreduce(env->context, GLOO_IN_PLACE, data, count,
                                      GLOO_FLOAT32, GLOO_SUM, NULL, NULL);
  for (size_t i = 0; i < count && status == GLOO_OK; i++)
    RANK_CHECK(env, data[i] == value(0, i) + value(1, i));
  free(data);
  return status;
}

static size_t batch_count(int i) {
  return i % 4 == 0 ? BATCH_LONG : BATCH_SHORT;
}

static gloo_status send_batch(rank_env *env) {
  float *data = malloc(BATCH_LONG * sizeof *data);
  gloo_request *ops[BATCH];
  gloo_status worst = GLOO_OK;
  int started = 0;
  if (!data) abort();
  for (size_t i = 0; i < BATCH_LONG; i++) data[i] = value(0, i);
  while (started < BATCH && worst == GLOO_OK) {
    worst = gloo_send_start(env->context, data, batch_count(started),
                            GLOO_FLOAT32, 1, NULL, &ops[started], NULL);
    if (worst == GLOO_OK) started++;
  }
  for (int i = 0; i < started; i++) {
    gloo_status status = gloo_request_wait(ops[i], GLOO_TIMEOUT_DEFAULT, NULL);
    if (status != GLOO_OK) worst = status;
    gloo_request_destroy(ops[i]);
  }
  free(data);
  return worst;
}

static gloo_status receive_batch(rank_env *env) {
  float *data = malloc(BATCH_LONG * sizeof *data);
  gloo_status status = GLOO_OK;
  if (!data) abort();
  for (int i = 0; i < BATCH && status == GLOO_OK; i++) {
    status = gloo_recv(env->context, data, batch_count(i), GLOO_FLOAT32, 0,
                       NULL, NULL);
    for (size_t k = 0; k < batch_count(i) && status == GLOO_OK; k++)
      RANK_CHECK(env, data[k] == value(0, k));
  }
  free(data);
  return status;
}

static void meet_damage(rank_env *env) {
  const scene *s = env->user;
  RANK_OK(env, sum_up(env, s->warm_up));
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  if (env->rank == 0) {
    flip.armed = true;
    flip.at = s->at;
    flip.bit = s->bit;
  }
  gloo_status status;
  if (s->count > 0)
    status = sum_up(env, s->count);
  else
    status = env->rank == 0 ? send_batch(env) : receive_batch(env);
  for (int i = 0; i < 3 && status == GLOO_OK; i++)
    status = gloo_barrier(env->context, NULL, NULL);
  RANK_CHECK(env, !flip.armed);
  flip.armed = false;
  gloo_error error;
  RANK_CHECK(env,
             gloo_context_error(env->context, &error) == GLOO_ERR_PROTOCOL);
  RANK_CHECK(env, error.rank == 0);
  if (!strstr(error.message, s->expected) || !strstr(error.message, "rank 1"))
    rank_fail(env, __FILE__, __LINE__, error.message);
}

static unsigned noticed;

static void run(int streams, const int *checksums, const scene *s) {
  scene own = *s;
  own.warm_up = streams > 1 ? LONG : 1;
  ranks_options o = {.transport = "tcp",
                     .streams = streams,
                     .no_helper = 1,
                     .checksums = checksums,
                     .timeout_ns = 60 * SECOND,
                     .user = &own};
  ranks_run(2, &o, meet_damage);
  noticed++;
}

static const int all[2] = {1, 1};

static void flip_at(int streams, size_t count, size_t at) {
  const scene s = {.count = count,
                   .at = at,
                   .bit = (unsigned)(at * 5 + count) % 8,
                   .expected = "is corrupt"};
  run(streams, all, &s);
}

/* ---- the tests ----------------------------------------------------------- */

static void every_byte_of_a_small_message(void **state) {
  (void)state;
  for (size_t at = 0; at < HEADER + sizeof(float); at++) flip_at(1, 1, at);
}

static void any_part_of_a_message_of_a_few_thousand_bytes(void **state) {
  (void)state;
  static const size_t at[] = {0, 5, 31, 48, 56, 60, 64, 65, 2000, 4062, 4063};
  for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) flip_at(1, 1000, at[i]);
}

static void any_part_of_long_ones_over_one_and_several_connections(
    void **state) {
  (void)state;
  for (int streams = 1; streams <= 4; streams += 3) {
    flip_at(streams, LONG, 0);
    flip_at(streams, LONG, HEADER);
    for (size_t i = 1; i < 12; i++) flip_at(streams, LONG, i * 170003);
  }
}

static void any_part_of_many_in_a_row(void **state) {
  (void)state;
  for (int streams = 1; streams <= 4; streams += 3)
    for (size_t i = 0; i < 12; i++) flip_at(streams, 0, i * 83003);
}

static void what_only_the_receiver_or_only_the_sender_asked_for(void **state) {
  (void)state;
  static const int receiver[2] = {-1, 1}, sender[2] = {1, -1};
  const scene s = {.count = 1000, .at = 999, .expected = "is corrupt"};
  run(1, receiver, &s);
  run(1, sender, &s);
}

static void what_the_environment_asks_for(void **state) {
  (void)state;
  const scene s = {.count = 1000, .at = 500, .expected = "is corrupt"};
  assert_int_equal(setenv("GLOO_CHECKSUM", "1", 1), 0);
  run(1, NULL, &s);
  assert_int_equal(setenv("GLOO_CHECKSUM", "yes", 1), 0);
  gloo_device *device;
  gloo_error error;
  assert_int_equal(gloo_device_create(NULL, &device, &error), GLOO_ERR_INVALID);
  assert_non_null(strstr(error.message, "GLOO_CHECKSUM is 'yes'"));
  assert_int_equal(unsetenv("GLOO_CHECKSUM"), 0);
}

/* Without checksums much damage goes undetected; a malformed message is
 * reported on both sides. */
static void what_is_no_message_is_reported_on_both_ends(void **state) {
  (void)state;
  static const int none[2] = {-1, -1};
  for (size_t at = 0; at < 4; at++) {
    const scene s = {.count = 1, .at = at, .expected = "an invalid message"};
    run(1, none, &s);
  }
}

static int report(void **state) {
  (void)state;
  print_message("# %u bits flipped, each noticed on both ranks\n", noticed);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_of_a_small_message),
      cmocka_unit_test(any_part_of_a_message_of_a_few_thousand_bytes),
      cmocka_unit_test(any_part_of_long_ones_over_one_and_several_connections),
      cmocka_unit_test(any_part_of_many_in_a_row),
      cmocka_unit_test(what_only_the_receiver_or_only_the_sender_asked_for),
      cmocka_unit_test(what_the_environment_asks_for),
      cmocka_unit_test(what_is_no_message_is_reported_on_both_ends),
  };
  return cmocka_run_group_tests(tests, NULL, report);
}
