/* Simultaneous connects from both sides, several streams, and peers that do not
 * exist or are killed. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static void send_text(har_pair *from, uint32_t slot, const char *text) {
  static gli_send_request requests[64];
  static unsigned next;
  (void)har_send(from, &requests[next++ % 64], slot, text, strlen(text) + 1);
}

/* Both sides act in random order, with every number of streams on either side:
 * one connection results each time, and nothing is lost. */
static void begin_at_once(const uint8_t *job_key) {
  srand(1);
  for (int round = 0; round < 400; round++) {
    har_end a, b;
    har_pair *ab, *ba;
    static const int streams[] = {1, 2, 4, 16};
    har_open(&a, "127.0.0.1", streams[rand() % 4]);
    har_open(&b, "127.0.0.1", streams[rand() % 4]);
    har_introduce(&a, 4, &b, 9, &ab, &ba);
    ab->config.job_key = ba->config.job_key = job_key;
    har_pair_open(ab);
    har_poll(&a, NULL, rand() % 4);
    if (ba->pair == NULL) har_pair_open(ba);
    for (uint32_t slot = 0; slot < 20; slot++) {
      har_poll(rand() % 2 ? &a : NULL, rand() % 2 ? &b : NULL, rand() % 3);
      send_text(ab, slot, "to the higher");
      send_text(ba, slot, "to the lower");
    }
    har_until(&a, &b, &ab->received, 20);
    har_until(&a, &b, &ba->received, 20);
    assert_string_equal((char *)ab->data, "to the lower");
    assert_string_equal((char *)ba->data, "to the higher");
    assert_int_equal(ab->failed + ba->failed, 0);
    har_pair_close(ab, GLI_MESSAGE_BYE);
    har_until(&a, &b, &ba->byes, 1);
    har_poll(&a, &b, 3);
    assert_int_equal(ba->failed, 0);
    har_close(&a);
    har_close(&b);
  }
}

static void both_sides_at_once(void **state) {
  (void)state;
  begin_at_once(NULL);
}

static void both_sides_at_once_with_a_secret(void **state) {
  (void)state;
  static const uint8_t key[GLI_JOB_KEY_BYTES] = "known to both";
  if (gli_openssl_version() == NULL) skip();
  begin_at_once(key);
}

/* Each slot uses one stream, and each stream one connection, so messages of a
 * slot keep their order. */
static void messages_of_one_slot_keep_their_order(void **state) {
  (void)state;
  enum { MESSAGES = 300 };
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 4);
  har_open(&b, "127.0.0.1", 3);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  har_connect(ab, ba);
  static gli_send_request requests[MESSAGES];
  static uint8_t payload[100000];
  for (int i = 0; i < MESSAGES; i++) {
    int before = ba->received;
    (void)har_send(ab, &requests[i], 7, payload, i % 3 ? 8 : sizeof payload);
    har_until(&a, &b, &ba->received, before + 1);
    assert_int_equal(ba->header.length, i % 3 ? 8 : sizeof payload);
  }
  har_close(&a);
  har_close(&b);
}

static void peer_that_is_gone_is_named(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  char text[GLI_ENDPOINT_TEXT_BYTES];
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.1", 1);
  har_introduce(&a, 3, &b, 5, &ab, &ba);
  gli_endpoint_text(&((gli_tcp *)b.t)->local, text);
  har_close(&b);
  har_pair_open(ab);
  send_text(ab, 0, "anybody?");
  har_until(&a, NULL, &ab->failed, 1);
  assert_int_equal(ab->cause.status, GLOO_ERR_PEER);
  assert_int_equal(ab->cause.rank, 5);
  assert_non_null(strstr(ab->cause.message, "rank 5"));
  assert_non_null(strstr(ab->cause.message, text));
  har_poll(&a, NULL, 10);
  assert_int_equal(ab->failed, 1);
  har_close(&a);
}

/* A pair that is closed after its peer is gone does not dial again. */
static void closed_pair_to_a_peer_that_is_gone_ends(void **state) {
  (void)state;
  for (int queued = 0; queued < 2; queued++) {
    har_end a, b;
    har_pair *ab, *ba;
    har_open(&a, "127.0.0.1", 2);
    har_open(&b, "127.0.0.1", 2);
    har_introduce(&a, 3, &b, 5, &ab, &ba);
    har_close(&b);
    har_pair_open(ab);
    if (queued) send_text(ab, 0, "anybody?");
    har_pair_close(ab, queued ? GLI_MESSAGE_BYE : GLI_MESSAGE_ABORT);
    const gli_tcp *t = (gli_tcp *)a.t;
    assert_non_null(t->peers.leaving);
    while (t->peers.leaving != NULL) {
      const gli_tcp_pair *left = (gli_tcp_pair *)t->peers.leaving;
      assert_int_equal(left->stream[0].attempts, 0);
      gli_transport_tcp.sleep(a.t, 1000000);
      har_poll(&a, NULL, 1);
    }
    assert_int_equal(a.owed, 0);
    har_close(&a);
  }
}

/* The peer has accepted the second stream, but this end does not know yet that
 * it is up. The stream must not end before the peer has received the ABORT. */
static void abort_comes_on_each_stream_that_the_peer_has(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 2);
  har_open(&b, "127.0.0.1", 2);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  har_pair_open(ab);
  const gli_tcp_pair *from = (gli_tcp_pair *)ab->pair;
  for (;;) {
    har_poll(&a, NULL, 1);
    har_poll(&b, NULL, 1);
    const gli_tcp_pair *to = (gli_tcp_pair *)ba->pair;
    if (to != NULL && to->stream[1].state == GLI_TCP_UP) break;
    assert_int_not_equal(from->stream[1].state, GLI_TCP_UP);
  }
  assert_int_equal(from->stream[1].state, GLI_TCP_GREETING);
  har_pair_close(ab, GLI_MESSAGE_ABORT);
  while (ba->failed == 0 && ba->header.type != GLI_MESSAGE_ABORT)
    har_poll(&b, &a, 1);
  assert_int_equal(ba->failed, 0);
  har_close(&b);
  har_close(&a);
}

/* A peer that answers LATER is retried for longer than a missing peer. */
static void peer_that_is_not_ready_is_asked_again(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 2);
  har_open(&b, "127.0.0.1", 2);
  har_introduce(&a, 1, &b, 0, &ab, &ba);
  b.later = true;
  har_pair_open(ab);
  send_text(ab, 1, "when you are ready");
  har_until(&a, &b, &b.asked, 18);
  assert_int_equal(ab->failed, 0);
  b.later = false;
  har_until(&a, &b, &ba->received, 1);
  har_close(&a);
  har_close(&b);
}

/* A listener that never answers may be a busy peer or another program: no error
 * by itself, but closing must not hang. */
static void silent_listener_does_not_hang(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 2);
  har_open(&b, "127.0.0.1", 2);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  har_pair_open(ab);
  send_text(ab, 0, "hello?");
  har_poll(&a, NULL, 50);
  assert_int_equal(ab->failed, 0);
  har_close(&a);
  har_close(&b);
}

/* The peer says goodbye and exits while this end still sends: writes fail
 * first, but the peer's last messages can still be read. */
static void last_words_are_heard_after_writes_fail(void **state) {
  (void)state;
  for (int streams = 1; streams <= 4; streams *= 2) {
    har_end a, b;
    har_pair *ab, *ba;
    har_open(&a, "127.0.0.1", streams);
    har_open(&b, "127.0.0.1", streams);
    har_introduce(&a, 0, &b, 1, &ab, &ba);
    har_connect(ab, ba);
    int before = ba->received;
    for (uint32_t i = 0; i < 10; i++) send_text(ab, i, "well, goodbye");
    har_pair_close(ab, GLI_MESSAGE_BYE);
    har_close(&a);
    for (uint32_t i = 0; i < 40; i++) send_text(ba, i, "wait, one more thing");
    har_until(&b, NULL, &ba->byes, 1);
    assert_int_equal(ba->received, before + 11);
    for (uint32_t i = 0; i < 40; i++) send_text(ba, i, "and another");
    har_poll(&b, NULL, 20);
    assert_int_equal(ba->failed, 0);
    har_close(&b);
  }
}

static void program_that_is_not_ours_is_an_error(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.1", 1);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  har_close(&b);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t bytes = sizeof at;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, bytes), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
  gli_tcp_contact other = {.n = 1, .port = ntohs(at.sin_port)};
  other.at[0].v4 = at;
  gli_tcp_contact_encode(&other, &ab->config.address);
  har_pair_open(ab);
  har_poll(&a, NULL, 3);
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  static const char page[] =
      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n";
  assert_int_equal(send(fd, page, sizeof page, MSG_NOSIGNAL), sizeof page);
  har_until(&a, NULL, &ab->failed, 1);
  assert_int_equal(ab->cause.status, GLOO_ERR_PROTOCOL);
  assert_int_equal(ab->cause.rank, 1);
  close(fd);
  close(listener);
  har_close(&a);
}

static void ipv6_works_where_there_is_any(void **state) {
  (void)state;
  int probe = socket(AF_INET6, SOCK_STREAM, 0);
  struct sockaddr_in6 at = {.sin6_family = AF_INET6,
                            .sin6_addr = in6addr_loopback};
  bool there =
      probe >= 0 && bind(probe, (struct sockaddr *)&at, sizeof at) == 0;
  if (probe >= 0) close(probe);
  if (!there) {
    print_message("# skipped: this machine has no IPv6 loopback\n");
    skip();
  }
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "::1", 2);
  har_open(&b, "::1", 2);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  har_connect(ab, ba);
  har_close(&a);
  har_close(&b);
}

/* ---- a peer in another process ------------------------------------------- */

typedef struct shared_addresses {
  int to_child[2], to_parent[2];
} shared_addresses;

static void exchange(har_end *end, int write_to, int read_from,
                     gli_address *theirs) {
  gli_address mine;
  gli_transport_tcp.address(end->t, &mine);
  if (write(write_to, &mine, sizeof mine) != (ssize_t)sizeof mine) abort();
  if (read(read_from, theirs, sizeof *theirs) != (ssize_t)sizeof *theirs)
    abort();
}

/* Connects, and then sends as fast as it can until it is killed. */
static _Noreturn void child(const shared_addresses *fds) {
  static gli_send_request requests[8];
  static uint8_t payload[500000];
  har_end end, nobody;
  har_pair *pair, *unused;
  har_open(&end, "127.0.0.1", 2);
  har_open(&nobody, "127.0.0.1", 2);
  har_introduce(&end, 1, &nobody, 0, &pair, &unused);
  exchange(&end, fds->to_parent[1], fds->to_child[0], &pair->config.address);
  har_pair_open(pair);
  for (int posted = 0;; har_poll(&end, NULL, 1)) {
    if (pair->sent < posted) continue;
    for (uint32_t i = 0; i < 8; i++, posted++) {
      if (har_send(pair, &requests[i], i, payload, sizeof payload) ==
          GLI_POST_DONE)
        pair->sent++;
    }
  }
}

static void killed_peer_is_reported(void **state) {
  (void)state;
  for (int round = 0; round < 5; round++) {
    shared_addresses fds;
    assert_int_equal(pipe(fds.to_child), 0);
    assert_int_equal(pipe(fds.to_parent), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) child(&fds);
    har_end end, nobody;
    har_pair *pair, *unused;
    har_open(&end, "127.0.0.1", 2);
    har_open(&nobody, "127.0.0.1", 2);
    har_introduce(&end, 0, &nobody, 1, &pair, &unused);
    exchange(&end, fds.to_child[1], fds.to_parent[0], &pair->config.address);
    if (round % 2) har_pair_open(pair);
    har_until(&end, NULL, &pair->received, 10 * round);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (pair->pair == NULL) har_pair_open(pair);
    har_until(&end, NULL, &pair->failed, 1);
    assert_int_equal(pair->failed, 1);
    assert_int_equal(pair->cause.status, GLOO_ERR_PEER);
    assert_int_equal(pair->cause.rank, 1);
    assert_non_null(strstr(pair->cause.message, "rank 1 (127.0.0.1:"));
    for (int i = 0; i < 2; i++) {
      close(fds.to_child[i]);
      close(fds.to_parent[i]);
    }
    har_close(&end);
    har_close(&nobody);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_peer_is_reported),
      cmocka_unit_test(both_sides_at_once),
      cmocka_unit_test(both_sides_at_once_with_a_secret),
      cmocka_unit_test(messages_of_one_slot_keep_their_order),
      cmocka_unit_test(peer_that_is_gone_is_named),
      cmocka_unit_test(closed_pair_to_a_peer_that_is_gone_ends),
      cmocka_unit_test(abort_comes_on_each_stream_that_the_peer_has),
      cmocka_unit_test(peer_that_is_not_ready_is_asked_again),
      cmocka_unit_test(silent_listener_does_not_hang),
      cmocka_unit_test(last_words_are_heard_after_writes_fail),
      cmocka_unit_test(program_that_is_not_ours_is_an_error),
      cmocka_unit_test(ipv6_works_where_there_is_any),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
