/* Peers with several addresses: which of them are tried, when, and what becomes
 * of the others. Addresses of 127.0.0.0/8 stand for those of networks. */
#include <stdlib.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "harness.h"

/* Listens and accepts connections, but answers nothing, or nothing sensible. */
static int listener_at(const char *figures, uint16_t port) {
  gli_endpoint at;
  int fd, yes = 1;
  assert_true(gli_endpoint_from_text(figures, &at));
  gli_endpoint_set_port(&at, port);
  fd = socket(at.any.sa_family, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes),
                   0);
  assert_int_equal(bind(fd, &at.any, gli_endpoint_bytes(&at)), 0);
  assert_int_equal(listen(fd, 1), 0);
  return fd;
}

/* Replaces the published addresses of `end` by these, with its port. */
static void publish(har_end *end, har_pair *to, const char *figures) {
  gli_endpoint own = har_listens_at(end->t);
  gli_tcp_contact contact = {.place = 1, /* another host: the order is kept */
                             .translated = true,
                             .port = gli_endpoint_port(&own)};
  char copy[256];
  memcpy(copy, figures, strlen(figures) + 1);
  for (char *at = strtok(copy, " "); at != NULL; at = strtok(NULL, " ")) {
    assert_true(contact.n < GLI_TCP_CONTACT_MAX);
    assert_true(gli_endpoint_from_text(at, &contact.at[contact.n++]));
  }
  gli_tcp_contact_encode(&contact, &to->config.address);
}

static uint16_t port_of(const har_end *end) {
  gli_endpoint at = har_listens_at(end->t);
  return gli_endpoint_port(&at);
}

static void send_text(har_pair *from, uint32_t slot, const char *text) {
  static gli_send_request requests[64];
  static unsigned next;
  (void)har_send(from, &requests[next++ % 64], slot, text, strlen(text) + 1);
}

/* Connects until both can send; returns the time in nanoseconds. */
static uint64_t talk(har_pair *a, har_pair *b) {
  uint64_t begun = uv_hrtime();
  har_pair_open(a);
  send_text(a, 0, "to b");
  har_until(a->end, b->end, &b->received, 1);
  send_text(b, 0, "to a");
  har_until(a->end, b->end, &a->received, 1);
  assert_int_equal(a->failed + b->failed, 0);
  return uv_hrtime() - begun;
}

static void first_that_is_there_is_used(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  for (int streams = 1; streams <= 4; streams += 3) {
    har_open(&a, "127.0.0.1", streams);
    har_open(&b, "127.0.0.3", streams);
    har_introduce(&a, 0, &b, 1, &ab, &ba);
    publish(&b, ab, "127.0.0.2 127.0.0.3 127.0.0.4");
    assert_true(talk(ab, ba) < 200000000); /* refused, then the next at once */
    const gli_tcp_pair *pair = (const gli_tcp_pair *)ab->pair;
    assert_non_null(strstr(pair->peer_text, "127.0.0.3:"));
    for (uint32_t i = 0; i < 16; i++) send_text(ab, i, "on every stream");
    har_until(&a, &b, &ba->received, 17);
    for (int i = 0; i < streams; i++) {
      assert_int_equal(pair->stream[i].state, GLI_TCP_UP);
      assert_null(pair->stream[i].dial);
    }
    har_close(&a);
    har_close(&b);
  }
}

/* The backlog of this listener is full, so the system does not answer: like an
 * address whose packets a router drops. */
static void silent_address_costs_a_moment(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  int fill[4];
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.3", 1);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  int fd = listener_at("127.0.0.2", port_of(&b));
  gli_endpoint at;
  socklen_t bytes = sizeof at;
  assert_int_equal(getsockname(fd, &at.any, &bytes), 0);
  for (int i = 0; i < 4; i++) {
    fill[i] = gli_socket_open(AF_INET, SOCK_STREAM);
    (void)connect(fill[i], &at.any, bytes);
  }
  publish(&b, ab, "127.0.0.2 127.0.0.3");
  uint64_t took = talk(ab, ba);
  assert_in_range(took, 200000000, 1900000000);
  for (int i = 0; i < 4; i++) close(fill[i]);
  close(fd);
  har_close(&a);
  har_close(&b);
}

/* The first address accepts the connection but never answers. Its peer may be
 * busy, so the next address is tried later, but it is tried. */
static void mute_address_is_not_waited_for(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.3", 1);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  int fd = listener_at("127.0.0.2", port_of(&b));
  publish(&b, ab, "127.0.0.2 127.0.0.3");
  uint64_t took = talk(ab, ba);
  assert_in_range(took, 4900000000, 15000000000);
  close(fd);
  har_close(&a);
  har_close(&b);
}

/* The rank at this address belongs to another job, on a network with the same
 * addresses. */
static void stranger_at_an_address_is_passed_by(void **state) {
  (void)state;
  har_end a, b, other;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.3", 1);
  har_introduce(&a, 0, &b, 1, &ab, &ba);
  har_open(&other, "127.0.0.4", 1);
  int fd = listener_at("127.0.0.2", port_of(&b));
  publish(&b, ab, "127.0.0.2 127.0.0.3");
  har_pair_open(ab);
  har_poll(&a, NULL, 3);
  int taken = accept(fd, NULL, NULL);
  assert_true(taken >= 0);
  static const char page[] =
      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n";
  assert_int_equal(send(taken, page, sizeof page, MSG_NOSIGNAL), sizeof page);
  send_text(ab, 0, "the real one");
  har_until(&a, &b, &ba->received, 1);
  assert_int_equal(ab->failed, 0);
  close(taken);
  close(fd);
  har_close(&other);
  har_close(&a);
  har_close(&b);
}

static void error_names_each_address(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  char text[64];
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.3", 1);
  har_introduce(&a, 0, &b, 5, &ab, &ba);
  publish(&b, ab, "127.0.0.2 127.0.0.3 127.0.0.4");
  unsigned port = port_of(&b);
  har_close(&b);
  har_pair_open(ab);
  send_text(ab, 0, "anybody?");
  har_until(&a, NULL, &ab->failed, 1);
  assert_int_equal(ab->cause.status, GLOO_ERR_PEER);
  assert_int_equal(ab->cause.rank, 5);
  for (int i = 2; i <= 4; i++) {
    (void)snprintf(text, sizeof text, "127.0.0.%d:%u: %s", i, port,
                   strerror(ECONNREFUSED));
    if (strstr(ab->cause.message, text) == NULL)
      fail_msg("no \"%s\" in \"%s\"", text, ab->cause.message);
  }
  assert_non_null(strstr(ab->cause.message, "it may have exited"));
  har_close(&a);
}

/* The error has no room for all these addresses, but still ends with the
 * advice. */
static void long_error_is_cut_between_addresses(void **state) {
  (void)state;
  har_end a, b;
  har_pair *ab, *ba;
  har_open(&a, "127.0.0.1", 1);
  har_open(&b, "127.0.0.3", 1);
  har_introduce(&a, 0, &b, 5, &ab, &ba);
  publish(&b, ab,
          "127.111.222.231 127.111.222.232 127.111.222.233 127.111.222.234 "
          "127.111.222.235 127.111.222.236 127.111.222.237 127.111.222.238");
  har_close(&b);
  har_pair_open(ab);
  send_text(ab, 0, "anybody?");
  har_until(&a, NULL, &ab->failed, 1);
  assert_non_null(strstr(ab->cause.message, " more); it may have exited"));
  har_close(&a);
}

#ifdef EMULATED
enum { ROUNDS = 40 };
#else
enum { ROUNDS = 400 };
#endif

/* Both sides connect at once, each with some addresses that lead nowhere or to
 * another process: one connection results each time, and nothing is lost. */
static void both_sides_at_once_by_several_addresses(void **state) {
  (void)state;
  static const char *const to_a[] = {
      "127.0.0.1", "127.0.0.9 127.0.0.1", "127.0.0.1 127.0.0.9",
      "127.0.0.9 127.0.0.8 127.0.0.1", "127.0.0.2 127.0.0.1"};
  static const char *const to_b[] = {
      "127.0.0.3", "127.0.0.9 127.0.0.3", "127.0.0.3 127.0.0.9",
      "127.0.0.9 127.0.0.8 127.0.0.3", "127.0.0.4 127.0.0.3"};
  srand(1);
  for (int round = 0; round < ROUNDS; round++) {
    static const int streams[] = {1, 2, 4, 16};
    har_end a, b, alias_a, alias_b;
    har_pair *ab, *ba;
    har_open(&a, "127.0.0.1", streams[rand() % 4]);
    har_open(&b, "127.0.0.3", streams[rand() % 4]);
    /* Ranks of other jobs, which know neither a nor b. */
    har_open(&alias_a, "127.0.0.2", 1);
    har_open(&alias_b, "127.0.0.4", 1);
    har_introduce(&a, 4, &b, 9, &ab, &ba);
    publish(&b, ab, to_b[rand() % 5]);
    publish(&a, ba, to_a[rand() % 5]);
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
    har_close(&alias_a);
    har_close(&alias_b);
  }
}

/* One listener serves all addresses, so a slow peer may receive several hellos.
 * The first is accepted, and the others do no harm. */
static void slow_peer_is_asked_by_all_its_addresses(void **state) {
  (void)state;
  for (int lower = 0; lower < 2; lower++) {
    har_end a, b;
    har_pair *ab, *ba;
    setenv("GLOO_BIND_ADDR", "0.0.0.0", 1);
    har_open(&b, NULL, 2);
    unsetenv("GLOO_BIND_ADDR");
    har_open(&a, "127.0.0.1", 2);
    har_introduce(&a, lower ? 0 : 2, &b, 1, &ab, &ba);
    publish(&b, ab, "127.0.0.2 127.0.0.3 127.0.0.4");
    har_pair_open(ab);
    send_text(ab, 0, "to a sleeper");
    uint64_t begun = uv_hrtime();
    while (uv_hrtime() - begun < 5500000000) {
      har_poll(&a, NULL, 1);
      gli_transport_tcp.sleep(a.t, 10000000);
    }
    assert_int_equal(((gli_tcp_pair *)ab->pair)->stream[0].state,
                     GLI_TCP_GREETING);
    if (lower == 0) har_pair_open(ba); /* wakes up and connects as well */
    har_until(&a, &b, &ba->received, 1);
    send_text(ba, 0, "good morning");
    har_until(&a, &b, &ab->received, 1);
    har_poll(&a, &b, 100);
    assert_int_equal(ab->failed + ba->failed, 0);
    assert_true(((gli_tcp *)b.t)->half_open_count == 0);
    har_close(&a);
    har_close(&b);
  }
}

/* The pair closes while several connections are pending, as in a forked
 * child. */
static void pair_may_end_while_several_are_tried(void **state) {
  (void)state;
  for (int turns = 0; turns < 6; turns++) {
    har_end a, b;
    har_pair *ab, *ba;
    har_open(&a, "127.0.0.1", 1);
    har_open(&b, "127.0.0.3", 1);
    har_introduce(&a, 0, &b, 1, &ab, &ba);
    int fd = listener_at("127.0.0.2", port_of(&b));
    publish(&b, ab, "127.0.0.9 127.0.0.2 127.0.0.3");
    har_pair_open(ab);
    har_poll(&a, NULL, turns);
    har_pair_close(ab, 0);
    har_poll(&a, &b, 3);
    close(fd);
    har_close(&a);
    har_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_that_is_there_is_used),
      cmocka_unit_test(silent_address_costs_a_moment),
      cmocka_unit_test(mute_address_is_not_waited_for),
      cmocka_unit_test(stranger_at_an_address_is_passed_by),
      cmocka_unit_test(error_names_each_address),
      cmocka_unit_test(long_error_is_cut_between_addresses),
      cmocka_unit_test(both_sides_at_once_by_several_addresses),
      cmocka_unit_test(slow_peer_is_asked_by_all_its_addresses),
      cmocka_unit_test(pair_may_end_while_several_are_tried),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
