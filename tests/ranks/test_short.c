/* Short writes: the data of a completed call arrives although the system
 * accepts only a part of a write and the caller makes no other call. The
 * functions that write are wrapped at link time (-Wl,--wrap). TCP only. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "away.h"

enum { HEADER_BYTES = 64 }; /* of a message */

/* Bytes accepted of this thread's next message; 0: all. */
static _Thread_local size_t next_part;
/* Set to accept only half of every second message, from any thread. */
static atomic_bool halves;
static atomic_uint written;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);

static bool is_tcp(int fd) {
  struct sockaddr_storage name;
  socklen_t length = sizeof name;
  return getsockname(fd, (struct sockaddr *)&name, &length) == 0 &&
         (name.ss_family == AF_INET || name.ss_family == AF_INET6);
}

/* Returns the bytes to accept. Writes shorter than a header, such as those that
 * set up a connection, are accepted whole. */
static size_t allowed(int fd, size_t bytes) {
  size_t part = next_part;
  if (bytes < HEADER_BYTES || !is_tcp(fd)) return bytes;
  next_part = 0;
  if (part > 0) return part < bytes ? part : bytes;
  if (!atomic_load(&halves)) return bytes;
  return atomic_fetch_add(&written, 1) % 2 == 0 ? bytes / 2 : bytes;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags) {
  return __real_send(fd, from, allowed(fd, bytes), flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  struct iovec parts[64];
  struct msghdr shorter = *message;
  size_t bytes = 0;
  for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
    bytes += message->msg_iov[i].iov_len;
  }
  size_t some = allowed(fd, bytes);
  if (some == bytes || message->msg_iovlen > 64) {
    return __real_sendmsg(fd, message, flags);
  }
  shorter.msg_iov = parts;
  shorter.msg_iovlen = 0;
  for (size_t i = 0; some > 0; i++) {
    parts[i] = message->msg_iov[i];
    if (parts[i].iov_len > some) parts[i].iov_len = some;
    some -= parts[i].iov_len;
    shorter.msg_iovlen++;
  }
  return __real_sendmsg(fd, &shorter, flags);
}

/* ---- the last message before a rank is away ------------------------------ */

enum { COUNT = 200, WARM_UP = 3 };
static const size_t part_sizes[] = {1, 63, 64, 65, 500};
enum { PARTS = sizeof part_sizes / sizeof part_sizes[0] };
static size_t part;

/* Runs the body for each length that the test's message is cut to. */
static void run(rank_body body) {
  for (int i = 0; i < PARTS; i++) {
    away a;
    away_begin(&a);
    part = part_sizes[i];
    ranks_options o = {.transport = "tcp", .user = &a};
    ranks_run(2, &o, body);
    away_end(&a);
  }
}

static void fill(int32_t *data) {
  for (int i = 0; i < COUNT; i++) data[i] = i * 7;
}

static void check(rank_env *env, const int32_t *data) {
  for (int i = 0; i < COUNT; i++) RANK_CHECK(env, data[i] == i * 7);
}

static void send_again(rank_env *env) {
  int32_t data[COUNT] = {0};
  gloo_context *c = env->context;
  if (env->rank == 0) fill(data);
  for (int i = 0; i <= WARM_UP; i++) {
    bool last = i == WARM_UP;
    if (env->rank != 0) {
      RANK_OK(env, gloo_recv(c, data, COUNT, GLOO_INT32, 0, NULL, NULL));
      continue;
    }
    if (last) next_part = part;
    RANK_OK(env, gloo_send(c, data, COUNT, GLOO_INT32, 1, NULL, NULL));
    RANK_CHECK(env, next_part == 0); /* the message has been cut */
  }
  check(env, data);
  if (env->rank == 0) away_until(env, 1);
  if (env->rank != 0) away_tell(env);
}

static void start(rank_env *env) {
  int32_t data[COUNT] = {0};
  gloo_request *op;
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
  if (env->rank != 0) {
    RANK_OK(env,
            gloo_recv(env->context, data, COUNT, GLOO_INT32, 0, NULL, NULL));
    check(env, data);
    away_tell(env);
    return;
  }
  fill(data);
  next_part = part;
  RANK_OK(env, gloo_send_start(env->context, data, COUNT, GLOO_INT32, 1, NULL,
                               &op, NULL));
  RANK_CHECK(env, next_part == 0);
  away_until(env, 1);
  RANK_OK(env, gloo_request_wait(op, GLOO_TIMEOUT_DEFAULT, NULL));
  gloo_request_destroy(op);
}

static void broadcast(rank_env *env) {
  int32_t data[COUNT] = {0};
  if (env->rank == 0) fill(data);
  for (int i = 0; i <= WARM_UP; i++) {
    if (i == WARM_UP && env->rank == 0) next_part = part;
    RANK_OK(env, gloo_broadcast(env->context, GLOO_IN_PLACE, data, COUNT,
                                GLOO_INT32, 0, NULL, NULL));
    RANK_CHECK(env, next_part == 0);
  }
  check(env, data);
  if (env->rank == 0) away_until(env, 1);
  if (env->rank != 0) away_tell(env);
}

/* Rank 0 waits first; its answer is the last message that it sends. */
static void answer(rank_env *env) {
  int32_t data[COUNT] = {0};
  gloo_context *c = env->context;
  RANK_OK(env, gloo_barrier(c, NULL, NULL));
  if (env->rank != 0) {
    fill(data);
    RANK_OK(env, gloo_send(c, data, COUNT, GLOO_INT32, 0, NULL, NULL));
    memset(data, 0, sizeof data);
    RANK_OK(env, gloo_recv(c, data, COUNT, GLOO_INT32, 0, NULL, NULL));
    check(env, data);
    away_tell(env);
    return;
  }
  RANK_OK(env, gloo_recv(c, data, COUNT, GLOO_INT32, 1, NULL, NULL));
  next_part = part;
  RANK_OK(env, gloo_send(c, data, COUNT, GLOO_INT32, 1, NULL, NULL));
  RANK_CHECK(env, next_part == 0);
  away_until(env, 1);
}

static void rest_of_a_message_arrives(void **state) {
  (void)state;
  run(send_again);
  run(start);
  run(answer);
}
static void rest_of_a_broadcast_arrives(void **state) {
  (void)state;
  run(broadcast);
}

/* ---- making contexts ----------------------------------------------------- */

/* Each rank stays out of the library until all have their context, as during a
 * wait on a store. */
static void sum(rank_env *env) {
  away_tell(env);
  away_until(env, env->size);
  int32_t in = 1, out = 0;
  for (int i = 0; i < 20; i++) {
    RANK_OK(env, gloo_allreduce(env->context, &in, &out, 1, GLOO_INT32,
                                GLOO_SUM, NULL, NULL));
    RANK_CHECK(env, out == env->size);
  }
}

/* Starts contexts, with measurement of the links. */
static void contexts_are_made(void **state) {
  (void)state;
  enum { STARTS = 12 };
  for (int i = 0; i < STARTS; i++) {
    away a;
    away_begin(&a);
    ranks_options o = {.transport = "tcp",
                       .measure = 1,
                       .timeout_ns = INT64_C(30000000000),
                       .user = &a};
    atomic_store(&halves, true);
    ranks_run(2, &o, sum);
    atomic_store(&halves, false);
    away_end(&a);
  }
  assert_true(atomic_load(&written) > STARTS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rest_of_a_message_arrives),
      cmocka_unit_test(rest_of_a_broadcast_arrives),
      cmocka_unit_test(contexts_are_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
