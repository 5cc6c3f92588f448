/* The cost of a message in system calls and allocations, counted by wrapping
 * the functions at link time (-Wl,--wrap). */
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "harness.h"

static int writes, reads, peeks, allocations;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __real_write(int fd, const void *from, size_t bytes);
ssize_t __real_read(int fd, void *to, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  writes++;
  return __real_sendmsg(fd, message, flags);
}
/* Counts successful reads only: an unsuccessful one replaces a poll of the
 * event loop. */
static ssize_t counted(ssize_t got) {
  if (got >= 0) reads++;
  return got;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags) {
  return counted(__real_recvmsg(fd, message, flags));
}
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags) {
  writes++;
  return __real_send(fd, from, bytes, flags);
}
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags) {
  ssize_t got = __real_recv(fd, to, bytes, flags);
  if (got > 0 && (flags & MSG_PEEK) != 0) peeks++;
  return counted(got);
}
ssize_t __wrap_write(int fd, const void *from, size_t bytes) {
  writes++;
  return __real_write(fd, from, bytes);
}
ssize_t __wrap_read(int fd, void *to, size_t bytes) {
  reads++;
  return __real_read(fd, to, bytes);
}
void *__wrap_malloc(size_t bytes) {
  allocations++;
  return __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes) {
  allocations++;
  return __real_calloc(count, bytes);
}
void *__wrap_realloc(void *old, size_t bytes) {
  allocations++;
  return __real_realloc(old, bytes);
}

static void count_from_here(void) {
  writes = reads = peeks = allocations = 0;
}

typedef struct scene {
  har_end a, b;
  har_pair *ab, *ba;
} scene;

static void open_scene(scene *s, int streams) {
  har_open(&s->a, "127.0.0.1", streams);
  har_open(&s->b, "127.0.0.1", streams);
  har_introduce(&s->a, 0, &s->b, 1, &s->ab, &s->ba);
  har_connect(s->ab, s->ba);
  har_poll(&s->a, &s->b, 20);
}

static void close_scene(scene *s) {
  har_close(&s->a);
  har_close(&s->b);
}

static void small_message_is_one_write_and_one_read(void **state) {
  (void)state;
  enum { ROUNDS = 1000 };
  static const size_t sizes[] = {0, 1, 4, 100, 4096, 16000};
  uint8_t payload[16000] = {0};
  scene s;
  gli_send_request request;
  open_scene(&s, 1);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    int to_b = s.ba->received, to_a = s.ab->received;
    count_from_here();
    for (int k = 1; k <= ROUNDS; k++) {
      assert_int_equal(har_send(s.ab, &request, 0, payload, sizes[i]),
                       GLI_POST_DONE);
      har_until(&s.a, &s.b, &s.ba->received, to_b + k);
      assert_int_equal(har_send(s.ba, &request, 0, payload, sizes[i]),
                       GLI_POST_DONE);
      har_until(&s.a, &s.b, &s.ab->received, to_a + k);
    }
    assert_int_equal(writes, 2 * ROUNDS);
    assert_int_equal(reads, 2 * ROUNDS);
    assert_int_equal(allocations, 0);
  }
  close_scene(&s);
}

/* Messages without a reply are peeked at, except for the first, and taken from
 * the socket later. This also holds before a long message and before the
 * connection is closed. */
static void unanswered_message_is_acknowledged_after_it_was_received(
    void **state) {
  (void)state;
  if (!GLI_LINUX) {
    print_message("# elsewhere no call takes what was peeked at at once\n");
    skip();
  }
  enum { ROUNDS = 1000 };
  static const size_t sizes[] = {0, 4, 4096, 16000};
  static uint8_t payload[HAR_BYTES];
  scene s;
  gli_send_request request;
  open_scene(&s, 1);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    int to_b = s.ba->received, to_a = s.ab->received;
    assert_int_equal(har_send(s.ba, &request, 0, payload, 1), GLI_POST_DONE);
    har_until(&s.a, &s.b, &s.ab->received, to_a + 1);
    har_poll(&s.a, &s.b, 1);
    count_from_here();
    for (int k = 1; k <= ROUNDS; k++) {
      assert_int_equal(har_send(s.ab, &request, 0, payload, sizes[i]),
                       GLI_POST_DONE);
      har_until(&s.a, &s.b, &s.ba->received, to_b + k);
    }
    assert_int_equal(writes, ROUNDS);
    assert_int_equal(peeks, ROUNDS - 1);
    assert_in_range(reads, ROUNDS, 2 * ROUNDS);
    to_b += ROUNDS;
    (void)har_send(s.ab, &request, 0, payload, sizeof payload);
    har_until(&s.a, &s.b, &s.ba->received, to_b + 1);
    assert_in_range(peeks, ROUNDS - 1, ROUNDS);
  }
  close_scene(&s);
}

/* On an oversubscribed core the message is read at once, without a peek. */
static void unanswered_message_is_read_at_once_where_cores_are_shared(
    void **state) {
  (void)state;
  enum { ROUNDS = 100 };
  scene s;
  gli_send_request request;
  open_scene(&s, 1);
  s.b.t->ops->set_oversubscribed(s.b.t, true);
  int before = s.ba->received;
  count_from_here();
  for (int k = 1; k <= ROUNDS; k++) {
    assert_int_equal(har_send(s.ab, &request, 0, "1234", 4), GLI_POST_DONE);
    har_until(&s.a, &s.b, &s.ba->received, before + k);
  }
  assert_int_equal(reads, ROUNDS);
  assert_int_equal(peeks, 0);
  close_scene(&s);
}

static void small_messages_in_a_row_share_reads(void **state) {
  (void)state;
  enum { MESSAGES = 100 };
  scene s;
  gli_send_request request;
  open_scene(&s, 1);
  int before = s.ba->received;
  count_from_here();
  for (int i = 0; i < MESSAGES; i++)
    assert_int_equal(har_send(s.ab, &request, 0, "12345678", 8), GLI_POST_DONE);
  har_until(&s.a, &s.b, &s.ba->received, before + MESSAGES);
  assert_int_equal(writes, MESSAGES);
  assert_true(reads < MESSAGES / 2);
  close_scene(&s);
}

static void queued_messages_share_writes(void **state) {
  (void)state;
  enum { MESSAGES = 64 };
  scene s;
  static gli_send_request large, small[MESSAGES];
  static uint8_t payload[HAR_BYTES];
  open_scene(&s, 1);
  int before = s.ba->received, sent = s.ab->sent, done = 0;
  /* The receiver does not poll: fill the connection until a message has to
   * wait. */
  while (har_send(s.ab, &large, 0, payload, sizeof payload) == GLI_POST_DONE)
    done++;
  for (int i = 0; i < MESSAGES; i++)
    assert_int_equal(har_send(s.ab, &small[i], 0, payload, 8),
                     GLI_POST_IN_PROGRESS);
  har_until(&s.a, &s.b, &s.ab->sent, sent + 1);
  count_from_here();
  har_until(&s.a, &s.b, &s.ba->received, before + done + 1 + MESSAGES);
  assert_int_equal(s.ab->sent, sent + 1 + MESSAGES);
  assert_true(writes < MESSAGES / 2);
  assert_int_equal(allocations, 0);
  close_scene(&s);
}

static void large_messages_cost_no_allocation(void **state) {
  (void)state;
  static uint8_t payload[HAR_BYTES];
  scene s;
  static gli_send_request requests[20];
  open_scene(&s, 2);
  int before = s.ba->received;
  count_from_here();
  for (int i = 0; i < 20; i++) {
    (void)har_send(s.ab, &requests[i], (uint32_t)i, payload, sizeof payload);
    har_until(&s.a, &s.b, &s.ba->received, before + i + 1);
  }
  assert_int_equal(allocations, 0);
  close_scene(&s);
}

static void idle_poll_reads_and_writes_nothing(void **state) {
  (void)state;
  scene s;
  open_scene(&s, 4);
  count_from_here();
  for (int i = 0; i < 1000; i++)
    assert_int_equal(gli_transport_tcp.poll(s.a.t), 0);
  assert_int_equal(writes + reads + allocations, 0);
  close_scene(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_message_is_one_write_and_one_read),
      cmocka_unit_test(
          unanswered_message_is_acknowledged_after_it_was_received),
      cmocka_unit_test(
          unanswered_message_is_read_at_once_where_cores_are_shared),
      cmocka_unit_test(small_messages_in_a_row_share_reads),
      cmocka_unit_test(queued_messages_share_writes),
      cmocka_unit_test(large_messages_cost_no_allocation),
      cmocka_unit_test(idle_poll_reads_and_writes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
