/* Strangers at the port: port scanners, stale ranks, other jobs, damaged peers.
 * None may disturb the existing pairs. */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gloo_c/log.h"
#include "harness.h"

typedef struct scene {
  har_end a, b;
  har_pair *ab, *ba;
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  har_open(&s->a, "127.0.0.1", 1);
  har_open(&s->b, "127.0.0.1", 1);
  har_introduce(&s->a, 0, &s->b, 1, &s->ab, &s->ba);
  har_connect(s->ab, s->ba);
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  scene *s = *state;
  har_close(&s->a);
  har_close(&s->b);
  free(s);
  return 0;
}

static void assert_undisturbed(scene *s) {
  static const char text[] = "still there";
  gli_send_request request;
  int before = s->ba->received;
  har_send(s->ab, &request, 0, text, sizeof text);
  har_until(&s->a, &s->b, &s->ba->received, before + 1);
  assert_string_equal((char *)s->ba->data, text);
  assert_int_equal(s->ab->failed + s->ba->failed, 0);
}

static void say_hello(int fd, const gli_tcp_hello *hello) {
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello_encode(hello, bytes);
  assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
}

/* Returns the hello of rank 2, which rank 0 knows. */
static gli_tcp_hello hello_of_rank_2(scene *s, har_pair **pair) {
  har_pair *unused;
  har_introduce(&s->a, 0, &s->b, 2, pair, &unused);
  return (gli_tcp_hello){.version = GLI_TCP_VERSION,
                         .streams = 1,
                         .from = 2,
                         .to = 0,
                         .key = har_key(0, 2)};
}

static void garbage_is_dropped(void **state) {
  scene *s = *state;
  uint8_t garbage[4096];
  for (int i = 0; i < 200; i++) {
    size_t bytes = (size_t)(1 + rand() % (int)sizeof garbage);
    for (size_t k = 0; k < bytes; k++) garbage[k] = (uint8_t)rand();
    int fd = har_stranger(&s->a);
    (void)!send(fd, garbage, bytes, MSG_NOSIGNAL);
    har_poll(&s->a, &s->b, 2);
    if (bytes >= GLI_TCP_HELLO_BYTES)
      har_assert_hung_up(&s->a, fd);
    else
      close(fd);
  }
  assert_undisturbed(s);
}

static void silent_connections_do_not_keep_others_out(void **state) {
  scene *s = *state;
  enum { SILENT = 200 };
  int fds[SILENT];
  for (int i = 0; i < SILENT; i++) {
    fds[i] = har_stranger(&s->a);
    if (i % 2) (void)!send(fds[i], "gloo_c>", 3, MSG_NOSIGNAL);
    har_poll(&s->a, &s->b, 1);
  }
  assert_undisturbed(s);
  har_pair *pair;
  gli_tcp_hello hello = hello_of_rank_2(s, &pair);
  int fd = har_stranger(&s->a);
  say_hello(fd, &hello);
  assert_int_equal(har_read_reply(&s->a, fd).answer, GLI_TCP_ACCEPTED);
  close(fd);
  for (int i = 0; i < SILENT; i++) close(fds[i]);
  assert_undisturbed(s);
}

/* Each rank is answered as soon as it has spoken, no matter how many
 * connections are silent. */
static void crowd_of_silent_connections_gives_way(void **state) {
  enum { SILENT = 3000 };
  scene *s = *state;
  static int fds[SILENT];
  struct rlimit old, more;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  more = old;
  if (more.rlim_cur < SILENT + 200) more.rlim_cur = SILENT + 200;
  if (setrlimit(RLIMIT_NOFILE, &more) != 0) skip();
  for (int i = 0; i < SILENT; i++) {
    fds[i] = har_stranger(&s->a);
    if (i % 3 == 0) (void)!send(fds[i], "gloo_c>", 3, MSG_NOSIGNAL);
    if (i % 8 == 0) har_poll(&s->a, NULL, 1);
  }
  har_pair *here, *there;
  har_introduce(&s->a, 0, &s->b, 3, &here, &there);
  har_connect(there, here);
  assert_undisturbed(s);
  for (int i = 0; i < SILENT; i++) close(fds[i]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void silent_connection_is_hung_up_on(void **state) {
  scene *s = *state;
  har_assert_hung_up(&s->a, har_stranger(&s->a));
  assert_undisturbed(s);
}

static void hello_may_come_byte_by_byte(void **state) {
  scene *s = *state;
  har_pair *pair;
  gli_tcp_hello hello = hello_of_rank_2(s, &pair);
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello_encode(&hello, bytes);
  int fd = har_stranger(&s->a);
  for (size_t i = 0; i < sizeof bytes; i++) {
    assert_int_equal(send(fd, bytes + i, 1, MSG_NOSIGNAL), 1);
    har_poll(&s->a, NULL, 1);
  }
  gli_tcp_reply reply = har_read_reply(&s->a, fd);
  assert_int_equal(reply.answer, GLI_TCP_ACCEPTED);
  assert_true(reply.key == har_key(2, 0));
  close(fd);
}

static void other_version_is_told(void **state) {
  scene *s = *state;
  har_pair *pair;
  gli_tcp_hello hello = hello_of_rank_2(s, &pair);
  hello.version++;
  int fd = har_stranger(&s->a);
  say_hello(fd, &hello);
  assert_int_equal(har_read_reply(&s->a, fd).answer, GLI_TCP_OTHER_VERSION);
  har_assert_hung_up(&s->a, fd);
  assert_null(pair->pair);
}

static void wrong_key_or_rank_is_refused(void **state) {
  scene *s = *state;
  har_pair *pair;
  gli_tcp_hello good = hello_of_rank_2(s, &pair), bad;
  for (int i = 0; i < 3; i++) {
    bad = good;
    if (i == 0) bad.key++;
    if (i == 1) bad.from = 3;
    if (i == 2) bad.to = 5;
    int fd = har_stranger(&s->a);
    say_hello(fd, &bad);
    assert_int_equal(har_read_reply(&s->a, fd).answer, GLI_TCP_UNKNOWN);
    har_assert_hung_up(&s->a, fd);
  }
  assert_undisturbed(s);
}

static void second_connection_of_a_rank_is_refused(void **state) {
  scene *s = *state;
  const gli_tcp_hello again = {.version = GLI_TCP_VERSION,
                               .streams = 1,
                               .from = 1,
                               .to = 0,
                               .key = har_key(0, 1)};
  int fd = har_stranger(&s->a);
  say_hello(fd, &again);
  assert_int_equal(har_read_reply(&s->a, fd).answer, GLI_TCP_TAKEN);
  har_assert_hung_up(&s->a, fd);
  assert_undisturbed(s);
}

static int join_as_rank_2(scene *s, har_pair **pair) {
  gli_tcp_hello hello = hello_of_rank_2(s, pair);
  int fd = har_stranger(&s->a);
  say_hello(fd, &hello);
  assert_int_equal(har_read_reply(&s->a, fd).answer, GLI_TCP_ACCEPTED);
  return fd;
}

static void garbage_from_a_member_fails_its_pair_only(void **state) {
  scene *s = *state;
  har_pair *pair;
  int fd = join_as_rank_2(s, &pair);
  uint8_t garbage[GLI_HEADER_BYTES] = {1, 2, 3};
  assert_int_equal(send(fd, garbage, sizeof garbage, MSG_NOSIGNAL),
                   sizeof garbage);
  har_until(&s->a, &s->b, &pair->failed, 1);
  assert_int_equal(pair->cause.status, GLOO_ERR_PROTOCOL);
  assert_int_equal(pair->cause.rank, 2);
  assert_int_equal(pair->headers, 0);
  assert_undisturbed(s);
  assert_int_equal(pair->failed, 1);
  /* The peer still receives the ABORT, and then the connection is closed. */
  har_pair_close(pair, GLI_MESSAGE_ABORT);
  gli_header told;
  assert_int_equal(har_read(&s->a, fd, garbage, sizeof garbage),
                   sizeof garbage);
  assert_true(gli_header_decode(garbage, &told));
  assert_int_equal(told.type, GLI_MESSAGE_ABORT);
  har_assert_hung_up(&s->a, fd);
}

static void end_within_a_message_is_a_failure(void **state) {
  scene *s = *state;
  for (int i = 0; i < 2; i++) {
    har_pair *pair;
    int fd = join_as_rank_2(s, &pair);
    gli_header header = {.type = GLI_MESSAGE_DATA, .length = 1000};
    uint8_t bytes[GLI_HEADER_BYTES];
    gli_header_encode(&header, bytes);
    size_t part = i == 0 ? sizeof bytes / 2 : sizeof bytes;
    assert_int_equal(send(fd, bytes, part, MSG_NOSIGNAL), part);
    close(fd);
    har_until(&s->a, &s->b, &pair->failed, 1);
    assert_int_equal(pair->cause.status, GLOO_ERR_PEER);
    assert_int_equal(pair->received, 0);
    pair->config.local_key = 0; /* the next pair takes its place */
    assert_undisturbed(s);
  }
}

static void descriptors_run_out_and_come_back(void **state) {
  scene *s = *state;
  struct rlimit old, low;
  har_pair *pair;
  gli_tcp_hello hello = hello_of_rank_2(s, &pair);
  int fd = har_stranger(&s->a);
  say_hello(fd, &hello);
  int next = dup(0);
  assert_true(next >= 0);
  close(next);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  low = old;
  low.rlim_cur = (rlim_t)next;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  assert_undisturbed(s);
  har_poll(&s->a, &s->b, 50);
  bool still_outside = pair->pair == NULL;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
  assert_true(still_outside);
  assert_int_equal(har_read_reply(&s->a, fd).answer, GLI_TCP_ACCEPTED);
  close(fd);
  assert_undisturbed(s);
}

#define SCENE_TEST(name) \
  cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      SCENE_TEST(garbage_is_dropped),
      SCENE_TEST(silent_connections_do_not_keep_others_out),
      SCENE_TEST(crowd_of_silent_connections_gives_way),
      SCENE_TEST(silent_connection_is_hung_up_on),
      SCENE_TEST(hello_may_come_byte_by_byte),
      SCENE_TEST(other_version_is_told),
      SCENE_TEST(wrong_key_or_rank_is_refused),
      SCENE_TEST(second_connection_of_a_rank_is_refused),
      SCENE_TEST(garbage_from_a_member_fails_its_pair_only),
      SCENE_TEST(end_within_a_message_is_a_failure),
      SCENE_TEST(descriptors_run_out_and_come_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
