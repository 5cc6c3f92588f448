/* Jobs with a secret: without it, a process on either side of a connection
 * opens nothing, learns nothing, and receives the reason. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "gloo_c/log.h"
#include "harness.h"
#include "transport_tcp/handshake.h"

static const uint8_t job_key[GLI_JOB_KEY_BYTES] = "the key of this job";
static const uint8_t other_key[GLI_JOB_KEY_BYTES] = "the key of another job";

/* Rank 0 at `a`, rank 1 at `b`: introduced, no pair open. */
typedef struct scene {
  har_end a, b;
  har_pair *ab, *ba;
  int listener; /* replaces rank 1's; -1: none */
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  assert_non_null(s);
  har_open(&s->a, "127.0.0.1", 2);
  har_open(&s->b, "127.0.0.1", 3);
  har_introduce(&s->a, 0, &s->b, 1, &s->ab, &s->ba);
  s->ab->config.job_key = s->ba->config.job_key = job_key;
  s->listener = -1;
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  scene *s = *state;
  if (s->listener >= 0) close(s->listener);
  har_close(&s->a);
  har_close(&s->b);
  free(s);
  return 0;
}

static void assert_denied(const har_pair *pair, const char *why) {
  assert_int_equal(pair->cause.status, GLOO_ERR_AUTH);
  assert_int_equal(pair->cause.rank, pair->config.peer_rank);
  if (strstr(pair->cause.message, why) == NULL) {
    fail_msg("%s", pair->cause.message);
  }
}

/* ---- two ranks ----------------------------------------------------------- */

static void one_secret_connects(void **state) {
  scene *s = *state;
  har_connect(s->ab, s->ba);
  static const char text[] = "over the other stream";
  gli_send_request request;
  har_send(s->ab, &request, 1, text, sizeof text);
  har_until(&s->a, &s->b, &s->ba->received, 2);
  assert_string_equal((char *)s->ba->data, text);
  assert_int_equal(s->ab->failed + s->ba->failed, 0);
}

static void other_secret_is_refused(void **state) {
  scene *s = *state;
  s->ba->config.job_key = other_key;
  har_pair_open(s->ab);
  har_until(&s->a, &s->b, &s->ab->failed, 1);
  assert_denied(s->ab, "has a different secret than rank 0");
  assert_int_equal(s->b.asked, 0);
  assert_null(s->ba->pair);
  har_pair_open(s->ba);
  har_until(&s->b, &s->a, &s->ba->failed, 1);
  assert_denied(s->ba, "has a different secret than rank 1");
}

static atomic_int missing_secrets;

static void count_missing_secrets(gloo_log_level level, const char *line,
                                  void *user) {
  (void)level;
  (void)user;
  if (strstr(line,
             "the peer requires a job secret, but none is set on this "
             "rank (GLOO_JOB_SECRET)") != NULL)
    atomic_fetch_add(&missing_secrets, 1);
}

static void both_hear_of_a_missing_secret(void **state) {
  scene *s = *state;
  gloo_log_set_level(GLOO_LOG_INFO);
  gloo_log_set_sink(count_missing_secrets, NULL);
  s->ba->config.job_key = NULL;
  har_pair_open(s->ab);
  har_until(&s->a, &s->b, &s->ab->failed, 1);
  assert_denied(s->ab, "does not require the job secret, which rank 0 has");
  assert_null(s->ba->pair);
  har_pair_open(s->ba);
  har_until(&s->b, &s->a, &s->ba->failed, 1);
  assert_denied(s->ba, "requires the job secret, which rank 1 does not have");
  gloo_log_set_sink(NULL, NULL);
  gloo_log_set_level(GLOO_LOG_WARN);
  assert_true(atomic_load(&missing_secrets) > 0);
}

static void both_hear_of_it_when_they_begin_at_once(void **state) {
  scene *s = *state;
  s->ba->config.job_key = other_key;
  har_pair_open(s->ab);
  har_pair_open(s->ba);
  har_until(&s->a, &s->b, &s->ab->failed, 1);
  har_until(&s->a, &s->b, &s->ba->failed, 1);
  assert_denied(s->ab, "a different secret");
  assert_denied(s->ba, "a different secret");
}

/* A peer that comes late, to a closed pair, proves itself as well. */
static void closed_pair_is_delivered_to_who_knows_the_secret(void **state) {
  scene *s = *state;
  static const char text[] = "the last words";
  gli_send_request request;
  har_pair_open(s->ab);
  har_send(s->ab, &request, 0, text, sizeof text);
  har_pair_close(s->ab, GLI_MESSAGE_BYE);
  har_until(&s->a, &s->b, &s->ba->byes, 1);
  assert_int_equal(s->ba->received, 2);
}

/* Returns the proofs of both ends in a job with that key. */
static gli_proofs tags_by(const scene *s, const uint8_t *key,
                          const uint8_t hello[GLI_TCP_HELLO_BYTES],
                          const uint8_t nonce[GLI_NONCE_BYTES]) {
  gli_pair_config config = s->ba->config;
  gli_key pair_key;
  gli_proofs tags;
  gloo_error error;
  config.job_key = key;
  assert_int_equal(gli_peer_key(&config, &pair_key, &error), GLOO_OK);
  assert_int_equal(
      gli_tcp_handshake_proofs(&pair_key, hello, nonce, &tags, &error),
      GLOO_OK);
  return tags;
}

/* ---- a stranger that connects, as rank 1 to rank 0 ----------------------- */

typedef struct stranger {
  int fd;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  gli_tcp_challenge challenge;
  gli_proofs tags;
} stranger;

static gli_tcp_hello hello_of_rank_1(void) {
  return (gli_tcp_hello){.version = GLI_TCP_VERSION,
                         .streams = 1,
                         .from = 1,
                         .to = 0,
                         .key = har_key(0, 1),
                         .asks = true,
                         .nonce = "drawn by nobody"};
}

static void say(int fd, const void *data, size_t bytes) {
  assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

/* Says hello, receives the challenge, and computes the tags for `key`. */
static stranger come_to(scene *s, const gli_tcp_hello *hello,
                        const uint8_t *key) {
  stranger x = {.fd = har_stranger(&s->a)};
  uint8_t bytes[GLI_TCP_CHALLENGE_BYTES];
  gli_tcp_hello_encode(hello, x.hello);
  say(x.fd, x.hello, sizeof x.hello);
  assert_int_equal(har_read(&s->a, x.fd, bytes, sizeof bytes), sizeof bytes);
  assert_true(gli_tcp_challenge_decode(bytes, &x.challenge));
  x.tags = tags_by(s, key, x.hello, x.challenge.nonce);
  return x;
}

static void assert_refused(scene *s, int fd, gli_tcp_answer answer) {
  assert_int_equal(har_read_reply(&s->a, fd).answer, answer);
  har_assert_hung_up(&s->a, fd);
  assert_int_equal(s->a.asked, 0);
  assert_null(s->ab->pair);
}

static void proof_opens_the_pair(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  stranger x = come_to(s, &hello, job_key);
  assert_memory_equal(x.challenge.tag, x.tags.acceptor, GLI_TAG_BYTES);
  assert_int_equal(s->a.asked, 0);
  for (size_t i = 0; i < GLI_TAG_BYTES; i++) {
    say(x.fd, x.tags.initiator + i, 1);
    har_poll(&s->a, NULL, 2);
    if (i < GLI_TAG_BYTES - 1) assert_int_equal(s->a.asked, 0);
  }
  assert_int_equal(har_read_reply(&s->a, x.fd).answer, GLI_TCP_ACCEPTED);
  assert_int_equal(s->a.asked, 1);
  close(x.fd);
}

static void wrong_proof_is_refused(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  stranger x = come_to(s, &hello, other_key);
  assert_memory_not_equal(x.challenge.tag, x.tags.acceptor, GLI_TAG_BYTES);
  say(x.fd, x.tags.initiator, GLI_TAG_BYTES);
  assert_refused(s, x.fd, GLI_TCP_DENIED);
}

static void proof_of_a_connection_is_of_no_use_in_another(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  stranger first = come_to(s, &hello, job_key);
  stranger again = come_to(s, &hello, job_key);
  say(again.fd, first.tags.initiator, GLI_TAG_BYTES);
  assert_refused(s, again.fd, GLI_TCP_DENIED);
  close(first.fd);
}

static void reflected_challenge_is_no_proof(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  stranger x = come_to(s, &hello, other_key);
  say(x.fd, x.challenge.tag, GLI_TAG_BYTES);
  assert_refused(s, x.fd, GLI_TCP_DENIED);
}

/* The proof covers all fields of the hello. */
static void proof_is_of_no_use_for_another_hello(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  hello.streams = 2;
  stranger x = come_to(s, &hello, job_key);
  hello.stream = 1;
  gli_tcp_hello_encode(&hello, x.hello);
  x.tags = tags_by(s, job_key, x.hello, x.challenge.nonce);
  say(x.fd, x.tags.initiator, GLI_TAG_BYTES);
  assert_refused(s, x.fd, GLI_TCP_DENIED);
}

/* The tags would be the proof of a rank of another context. */
static void hello_to_another_rank_opens_nothing(void **state) {
  scene *s = *state;
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello hello = hello_of_rank_1();
  hello.to = 5;
  gli_tcp_hello_encode(&hello, bytes);
  int fd = har_stranger(&s->a);
  say(fd, bytes, sizeof bytes);
  assert_refused(s, fd, GLI_TCP_UNKNOWN);
}

static void hello_without_a_secret_is_challenged_too(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  hello.asks = false;
  memset(hello.nonce, 0, sizeof hello.nonce);
  stranger x = come_to(s, &hello, other_key);
  close(x.fd);
  har_poll(&s->a, NULL, 5);
  assert_int_equal(s->a.asked, 0);
}

static void half_a_proof_is_none(void **state) {
  scene *s = *state;
  gli_tcp_hello hello = hello_of_rank_1();
  stranger x = come_to(s, &hello, job_key);
  say(x.fd, x.tags.initiator, GLI_TAG_BYTES - 1);
  shutdown(x.fd, SHUT_WR);
  har_assert_hung_up(&s->a, x.fd);
  assert_int_equal(s->a.asked, 0);
}

/* A peer that has named a context and its rank has time to prove itself; silent
 * connections have none. */
static void silent_crowd_leaves_a_challenged_peer_alone(void **state) {
  enum { SILENT = 500 };
  scene *s = *state;
  int fds[SILENT];
  gli_tcp_hello hello = hello_of_rank_1();
  stranger x = come_to(s, &hello, job_key);
  for (int i = 0; i < SILENT; i++) {
    fds[i] = har_stranger(&s->a);
    har_poll(&s->a, NULL, 1);
  }
  stranger last = come_to(s, &hello, job_key);
  say(x.fd, x.tags.initiator, GLI_TAG_BYTES);
  assert_int_equal(har_read_reply(&s->a, x.fd).answer, GLI_TCP_ACCEPTED);
  close(x.fd);
  close(last.fd);
  for (int i = 0; i < SILENT; i++) close(fds[i]);
}

static void challenged_crowd_keeps_nobody_out(void **state) {
  enum { CROWD = 100 };
  scene *s = *state;
  int fds[CROWD];
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello hello = hello_of_rank_1();
  gli_tcp_hello_encode(&hello, bytes);
  for (int i = 0; i < CROWD; i++) {
    fds[i] = har_stranger(&s->a);
    say(fds[i], bytes, sizeof bytes);
    har_poll(&s->a, NULL, 1);
  }
  har_connect(s->ba, s->ab);
  for (int i = 0; i < CROWD; i++) close(fds[i]);
}

/* ---- a stranger that rank 0 connects to, in place of rank 1 -------------- */

static void listen_as_rank_1(scene *s) {
  gli_tcp_contact contact;
  gli_endpoint at;
  socklen_t bytes = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0 && gli_endpoint_from_text("127.0.0.1", &at));
  assert_int_equal(bind(fd, &at.any, gli_endpoint_bytes(&at)), 0);
  assert_int_equal(listen(fd, 8), 0);
  assert_int_equal(getsockname(fd, &at.any, &bytes), 0);
  assert_true(gli_tcp_contact_decode(&s->ab->config.address, &contact));
  contact.port = gli_endpoint_port(&at);
  for (uint32_t i = 0; i < contact.n; i++)
    gli_endpoint_set_port(&contact.at[i], contact.port);
  gli_tcp_contact_encode(&contact, &s->ab->config.address);
  s->listener = fd;
}

/* Accepts the next connection of rank 0 and reads its hello. */
static int next_hello(scene *s, uint8_t hello[GLI_TCP_HELLO_BYTES]) {
  struct pollfd ready = {.fd = s->listener, .events = POLLIN};
  for (int i = 0; poll(&ready, 1, 1) == 0; i++) {
    if (i > 20000) fail_msg("nobody comes");
    har_poll(&s->a, NULL, 1);
  }
  int fd = accept(s->listener, NULL, NULL);
  assert_true(fd >= 0);
  assert_int_equal(har_read(&s->a, fd, hello, GLI_TCP_HELLO_BYTES),
                   GLI_TCP_HELLO_BYTES);
  return fd;
}

/* Opens the pair of rank 0 and reads its first hello. */
static int first_hello(scene *s, uint8_t hello[GLI_TCP_HELLO_BYTES]) {
  listen_as_rank_1(s);
  har_pair_open(s->ab);
  return next_hello(s, hello);
}

/* Challenges rank 0 with a key. */
static gli_proofs challenge(scene *s, int fd,
                            const uint8_t hello[GLI_TCP_HELLO_BYTES],
                            const uint8_t *key) {
  gli_tcp_challenge c = {.nonce = "drawn by nobody"};
  uint8_t bytes[GLI_TCP_CHALLENGE_BYTES];
  gli_proofs tags = tags_by(s, key, hello, c.nonce);
  memcpy(c.tag, tags.acceptor, sizeof c.tag);
  gli_tcp_challenge_encode(&c, bytes);
  say(fd, bytes, sizeof bytes);
  return tags;
}

static void answer(int fd, gli_tcp_answer what) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  const gli_tcp_reply reply = {.version = GLI_TCP_VERSION,
                               .answer = what,
                               .streams = 1,
                               .key = har_key(0, 1)};
  gli_tcp_reply_encode(&reply, bytes);
  say(fd, bytes, sizeof bytes);
}

static void hello_has_a_fresh_nonce(void **state) {
  scene *s = *state;
  uint8_t first[GLI_TCP_HELLO_BYTES], second[GLI_TCP_HELLO_BYTES];
  gli_tcp_hello one, other;
  close(first_hello(s, first));
  close(next_hello(s, second));
  assert_true(gli_tcp_hello_decode(first, &one));
  assert_true(gli_tcp_hello_decode(second, &other));
  assert_true(one.asks && other.asks);
  assert_memory_not_equal(one.nonce, other.nonce, sizeof one.nonce);
}

static void right_challenge_is_answered_by_a_proof(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES], proof[GLI_TAG_BYTES];
  int fd = first_hello(s, hello);
  gli_proofs tags = challenge(s, fd, hello, job_key);
  assert_int_equal(har_read(&s->a, fd, proof, sizeof proof), sizeof proof);
  assert_memory_equal(proof, tags.initiator, sizeof proof);
  answer(fd, GLI_TCP_ACCEPTED);
  gli_send_request request;
  uint8_t header[GLI_HEADER_BYTES];
  har_send(s->ab, &request, 0, NULL, 0);
  assert_int_equal(har_read(&s->a, fd, header, sizeof header), sizeof header);
  assert_int_equal(s->ab->failed, 0);
  close(fd);
}

/* A peer without a challenge may be one without the secret. */
static void connection_without_a_challenge_is_refused(void **state) {
  static const gli_tcp_answer answers[] = {GLI_TCP_ACCEPTED, GLI_TCP_USE_MINE,
                                           GLI_TCP_TAKEN, GLI_TCP_DENIED};
  scene *s = *state;
  listen_as_rank_1(s);
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    uint8_t hello[GLI_TCP_HELLO_BYTES];
    s->ab->failed = 0;
    har_pair_open(s->ab);
    int fd = next_hello(s, hello);
    answer(fd, answers[i]);
    har_until(&s->a, NULL, &s->ab->failed, 1);
    assert_denied(s->ab, "does not require the job secret");
    har_pair_close(s->ab, 0);
    har_assert_hung_up(&s->a, fd);
  }
}

/* A liar could as well close the connection, so rank 0 tries again. */
static void refusal_without_a_proof_is_not_final(void **state) {
  static const gli_tcp_answer answers[] = {GLI_TCP_UNKNOWN, GLI_TCP_LATER};
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  int fd;
  listen_as_rank_1(s);
  har_pair_open(s->ab);
  for (size_t i = 0; i < 4; i++) {
    fd = next_hello(s, hello);
    answer(fd, answers[i % 2]);
    close(fd);
  }
  fd = next_hello(s, hello);
  challenge(s, fd, hello, job_key);
  answer(fd, GLI_TCP_ACCEPTED);
  har_poll(&s->a, NULL, 20);
  assert_int_equal(s->ab->failed, 0);
  close(fd);
}

/* A wrong challenge gets no tag that could be used elsewhere. */
static void wrong_challenge_is_not_answered(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  int fd = first_hello(s, hello);
  challenge(s, fd, hello, other_key);
  har_until(&s->a, NULL, &s->ab->failed, 1);
  assert_denied(s->ab, "has a different secret than rank 0");
  har_assert_hung_up(&s->a, fd);
}

static void challenge_of_another_hello_is_wrong(void **state) {
  scene *s = *state;
  uint8_t old[GLI_TCP_HELLO_BYTES], hello[GLI_TCP_HELLO_BYTES];
  close(first_hello(s, old));
  int fd = next_hello(s, hello);
  challenge(s, fd, old, job_key);
  har_until(&s->a, NULL, &s->ab->failed, 1);
  assert_denied(s->ab, "has a different secret than rank 0");
  har_assert_hung_up(&s->a, fd);
}

/* Sends the hello of rank 0 back to rank 0. */
static void own_hello_is_no_way_in(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  int fd = first_hello(s, hello), back = har_stranger(&s->a);
  say(back, hello, sizeof hello);
  assert_int_equal(har_read_reply(&s->a, back).answer, GLI_TCP_UNKNOWN);
  har_assert_hung_up(&s->a, back);
  close(fd);
}

static void half_a_challenge_is_none(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES], bytes[GLI_TCP_CHALLENGE_BYTES];
  const gli_tcp_challenge c = {.nonce = "drawn by nobody"};
  listen_as_rank_1(s);
  gli_tcp_challenge_encode(&c, bytes);
  har_pair_open(s->ab);
  for (size_t i = 4; i < sizeof bytes; i += 9) {
    int fd = next_hello(s, hello);
    say(fd, bytes, i);
    close(fd);
  }
  assert_int_equal(s->ab->failed, 0);
  close(next_hello(s, hello));
}

static void second_challenge_makes_no_sense(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  int fd = first_hello(s, hello);
  challenge(s, fd, hello, job_key);
  challenge(s, fd, hello, job_key);
  har_until(&s->a, NULL, &s->ab->failed, 1);
  assert_int_equal(s->ab->cause.status, GLOO_ERR_PROTOCOL);
  close(fd);
}

static void denied_proof_says_why(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  int fd = first_hello(s, hello);
  challenge(s, fd, hello, job_key);
  answer(fd, GLI_TCP_DENIED);
  har_until(&s->a, NULL, &s->ab->failed, 1);
  assert_denied(s->ab, "has a different secret than rank 0");
  close(fd);
}

static void challenge_without_a_secret_says_why(void **state) {
  scene *s = *state;
  uint8_t hello[GLI_TCP_HELLO_BYTES];
  s->ab->config.job_key = NULL;
  int fd = first_hello(s, hello);
  challenge(s, fd, hello, job_key);
  har_until(&s->a, NULL, &s->ab->failed, 1);
  assert_denied(s->ab, "requires the job secret, which rank 0 does not have");
  har_assert_hung_up(&s->a, fd);
}

#define SCENE_TEST(name) \
  cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  gloo_log_set_level(GLOO_LOG_OFF);
  const struct CMUnitTest tests[] = {
      SCENE_TEST(one_secret_connects),
      SCENE_TEST(other_secret_is_refused),
      SCENE_TEST(both_hear_of_a_missing_secret),
      SCENE_TEST(both_hear_of_it_when_they_begin_at_once),
      SCENE_TEST(closed_pair_is_delivered_to_who_knows_the_secret),
      SCENE_TEST(proof_opens_the_pair),
      SCENE_TEST(wrong_proof_is_refused),
      SCENE_TEST(proof_of_a_connection_is_of_no_use_in_another),
      SCENE_TEST(reflected_challenge_is_no_proof),
      SCENE_TEST(proof_is_of_no_use_for_another_hello),
      SCENE_TEST(hello_to_another_rank_opens_nothing),
      SCENE_TEST(hello_without_a_secret_is_challenged_too),
      SCENE_TEST(half_a_proof_is_none),
      SCENE_TEST(silent_crowd_leaves_a_challenged_peer_alone),
      SCENE_TEST(challenged_crowd_keeps_nobody_out),
      SCENE_TEST(hello_has_a_fresh_nonce),
      SCENE_TEST(right_challenge_is_answered_by_a_proof),
      SCENE_TEST(connection_without_a_challenge_is_refused),
      SCENE_TEST(refusal_without_a_proof_is_not_final),
      SCENE_TEST(wrong_challenge_is_not_answered),
      SCENE_TEST(challenge_of_another_hello_is_wrong),
      SCENE_TEST(own_hello_is_no_way_in),
      SCENE_TEST(half_a_challenge_is_none),
      SCENE_TEST(second_challenge_makes_no_sense),
      SCENE_TEST(denied_proof_says_why),
      SCENE_TEST(challenge_without_a_secret_says_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
