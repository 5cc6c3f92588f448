/* send_now and take_now when the system takes or returns only part of a
 * message. The wrapped system calls limit the bytes (-Wl,--wrap). */
#include <errno.h>
#include <sys/uio.h>

#include "harness.h"

/* Limit of the next calls: `bytes` for each of `calls` - 1 calls, then one call
 * takes nothing. No limit if `calls` is 0. */
static struct {
  size_t bytes;
  int calls;
} limit;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);

/* Returns 0 if nothing may be written now. */
static size_t allowed(size_t bytes) {
  if (limit.calls == 0) return bytes;
  if (--limit.calls == 0) return 0;
  return limit.bytes < bytes ? limit.bytes : bytes;
}

static ssize_t would_block(void) {
  errno = EAGAIN;
  return -1;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags) {
  size_t some = allowed(bytes);
  return some > 0 ? __real_send(fd, from, some, flags) : would_block();
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  struct iovec parts[32];
  struct msghdr shorter = *message;
  size_t bytes = 0;
  assert_true(message->msg_iovlen <= 32);
  for (size_t i = 0; i < (size_t)message->msg_iovlen; i++)
    bytes += message->msg_iov[i].iov_len;
  size_t some = allowed(bytes);
  if (some == 0) return would_block();
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

typedef struct scene {
  har_end a, b;
  har_pair *ab, *ba;
  uint8_t payload[GLI_TAKE_BYTES];
  /* number of messages that came in slot 3, and `received` at that time */
  int came, came_as;
} scene;

static scene s;
static void (*har_received)(void *user, void *token);

static void on_received(void *user, void *token) {
  har_pair *pair = user;
  har_received(user, token);
  if (pair->header.slot != 3) return;
  assert_memory_equal(pair->data, s.payload, (size_t)pair->header.length);
  s.came++;
  s.came_as = pair->received;
}

static void open_scene(void) {
  har_open(&s.a, "127.0.0.1", 1);
  har_open(&s.b, "127.0.0.1", 1);
  har_received = s.b.upcalls.received;
  s.b.upcalls.received = on_received;
  s.came = 0;
  har_introduce(&s.a, 0, &s.b, 1, &s.ab, &s.ba);
  har_connect(s.ab, s.ba);
  har_poll(&s.a, &s.b, 20);
  for (size_t i = 0; i < sizeof s.payload; i++)
    s.payload[i] = (uint8_t)(i * 7 + i / 256);
  limit.calls = 0;
}

static void close_scene(void) {
  limit.calls = 0;
  har_close(&s.a);
  har_close(&s.b);
}

static bool send_now(size_t bytes) {
  gli_header header = {.type = GLI_MESSAGE_DATA, .slot = 3, .length = bytes};
  uint8_t copy[GLI_TAKE_BYTES];
  memcpy(copy, s.payload, bytes);
  bool done = gli_transport_tcp.send_now(s.ab->pair, &header, copy);
  memset(copy, 0, sizeof copy); /* the caller may reuse it */
  return done;
}

static bool take_now(size_t bytes, gli_taken *taken) {
  gli_header expected = {.type = GLI_MESSAGE_DATA, .slot = 3, .length = bytes};
  return gli_transport_tcp.take_now(s.ba->pair, &expected, taken);
}

static const size_t sizes[] = {0, 1, 100, 1024, 1025, GLI_TAKE_BYTES};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
static const size_t parts[] = {1, 63, 64, 65, 900, 4100};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void rest_of_a_message_follows(void **state) {
  (void)state;
  open_scene();
  for (int i = 0; i < SIZES * PARTS; i++) {
    size_t bytes = sizes[i / PARTS], part = parts[i % PARTS];
    gli_send_request second;
    int before = s.ba->received, came = s.came;
    limit.bytes = part;
    limit.calls = 4;
    assert_true(send_now(bytes));
    bool partly = part < GLI_HEADER_BYTES + bytes;
    if (partly) assert_false(send_now(1)); /* the first is incomplete */
    gli_post post = har_send(s.ab, &second, 0, "behind", 6);
    if (partly) assert_int_equal(post, GLI_POST_IN_PROGRESS);
    har_until(&s.a, &s.b, &s.ba->received, before + 2);
    assert_int_equal(s.came, came + 1);
    assert_int_equal(s.came_as, before + 1);
    assert_memory_equal(s.ba->data, "behind", 6);
    limit.calls = 0;
    har_poll(&s.a, &s.b, 5);
  }
  close_scene();
}

/* Polls only while the end point owes something, as the engine does. */
static void poll_while_owing(har_end *end) {
  while (end->owed > 0) har_poll(end, NULL, 1);
}

static void rest_of_a_message_is_owed(void **state) {
  (void)state;
  open_scene();
  for (int i = 0; i < PARTS - 1; i++) {
    int came = s.came;
    limit.bytes = parts[i];
    limit.calls = 4;
    assert_int_equal(s.a.owed, 0);
    assert_true(send_now(GLI_TAKE_BYTES));
    assert_int_equal(s.a.owed, 1);
    poll_while_owing(&s.a);
    har_until(&s.b, NULL, &s.came, came + 1);
    limit.calls = 0;
  }
  close_scene();
}

static void rest_for_a_peer_that_is_gone_is_owed_no_more(void **state) {
  (void)state;
  open_scene();
  limit.bytes = 100;
  limit.calls = 2;
  assert_true(send_now(1000));
  har_pair_close(s.ba, 0);
  har_poll(&s.b, NULL, 2);
  har_until(&s.a, NULL, &s.ab->failed, 1);
  assert_int_equal(s.a.owed, 0);
  close_scene();
}

static void rest_of_a_message_comes_before_the_last(void **state) {
  (void)state;
  for (int i = 0; i < PARTS - 1; i++) {
    open_scene();
    limit.bytes = parts[i];
    limit.calls = 4;
    assert_true(send_now(GLI_TAKE_BYTES));
    har_pair_close(s.ab, GLI_MESSAGE_BYE);
    har_until(&s.a, &s.b, &s.ba->byes, 1);
    assert_int_equal(s.came, 1);
    assert_int_equal(s.ba->failed, 0);
    close_scene();
  }
}

static void rest_is_freed_with_the_pair(void **state) {
  (void)state;
  open_scene();
  limit.bytes = 100;
  limit.calls = 2;
  assert_true(send_now(1000));
  har_pair_close(s.ab, 0);
  close_scene();
}

static void half_a_message_is_left_to_poll(void **state) {
  (void)state;
  open_scene();
  for (int i = 0; i < PARTS - 1; i++) {
    int before = s.ba->received;
    gli_taken taken;
    limit.bytes = parts[i];
    limit.calls = 2;
    assert_true(send_now(GLI_TAKE_BYTES));
    har_poll(&s.a, NULL, 1); /* may not write yet */
    assert_false(take_now(GLI_TAKE_BYTES, &taken));
    limit.calls = 0;
    har_poll(&s.a, NULL, 3);
    assert_false(take_now(GLI_TAKE_BYTES, &taken));
    har_until(&s.a, &s.b, &s.ba->received, before + 1);
    assert_memory_equal(s.ba->data, s.payload, GLI_TAKE_BYTES);
    assert_true(send_now(5));
    assert_true(take_now(5, &taken));
    assert_memory_equal(taken.payload, s.payload, 5);
    assert_int_equal(s.ba->received, before + 1);
  }
  close_scene();
}

/* take_now is the first to see the end of the connection. */
static void end_of_the_connection_is_reported_by_poll(void **state) {
  (void)state;
  open_scene();
  gli_taken taken;
  gli_send_request unread;
  assert_int_equal(har_send(s.ba, &unread, 0, "unread", 6), GLI_POST_DONE);
  har_pair_close(s.ab, 0);
  har_poll(&s.a, NULL, 2);
  for (int i = 0; i < 3; i++) assert_false(take_now(5, &taken));
  assert_int_equal(s.ba->failed, 0);
  har_until(&s.b, NULL, &s.ba->failed, 1);
  assert_int_equal(s.ba->cause.status, GLOO_ERR_PEER);
  assert_non_null(strstr(s.ba->cause.message, "closed the connection"));
  assert_false(take_now(5, &taken));
  assert_int_equal(s.ba->failed, 1);
  close_scene();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rest_of_a_message_follows),
      cmocka_unit_test(rest_of_a_message_is_owed),
      cmocka_unit_test(rest_for_a_peer_that_is_gone_is_owed_no_more),
      cmocka_unit_test(rest_of_a_message_comes_before_the_last),
      cmocka_unit_test(rest_is_freed_with_the_pair),
      cmocka_unit_test(half_a_message_is_left_to_poll),
      cmocka_unit_test(end_of_the_connection_is_reported_by_poll),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
