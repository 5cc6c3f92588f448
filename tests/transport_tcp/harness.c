#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { TURNS_MAX = 20000 }; /* one millisecond or more each */

static gloo_status on_header(void *user, const gli_header *header,
                             gli_sink *sink) {
  har_pair *pair = user;
  pair->headers++;
  pair->header = *header;
  if (header->length > HAR_BYTES) return GLOO_ERR_PROTOCOL;
  sink->dst = pair->data;
  return GLOO_OK;
}

static void on_received(void *user, void *token) {
  har_pair *pair = user;
  (void)token;
  pair->received++;
  if (pair->header.type == GLI_MESSAGE_BYE) pair->byes++;
}

static void on_sent(void *user, gli_send_request *request) {
  har_pair *pair = user;
  (void)request;
  pair->sent++;
}

static void on_failed(void *user, const gloo_error *cause) {
  har_pair *pair = user;
  pair->failed++;
  pair->cause = *cause;
}

static gli_pair *on_accept(void *user, uint64_t key, uint32_t rank) {
  har_end *end = user;
  end->asked++;
  if (end->later) return GLI_PAIR_LATER;
  for (int i = 0; i < HAR_PAIRS; i++) {
    har_pair *pair = &end->pairs[i];
    if (pair->data == NULL || pair->config.local_key != key) continue;
    if (pair->config.peer_rank != rank) continue;
    if (pair->pair == NULL) har_pair_open(pair);
    return pair->pair;
  }
  return NULL;
}

static bool on_expect(void *user, uint64_t key, uint32_t rank,
                      gli_pair_config *config) {
  const har_end *end = user;
  for (int i = 0; i < HAR_PAIRS && !end->later; i++) {
    const har_pair *pair = &end->pairs[i];
    if (pair->data == NULL || pair->config.local_key != key) continue;
    if (pair->config.peer_rank != rank) continue;
    *config = pair->config;
    return true;
  }
  return false;
}

void har_open(har_end *end, const char *host, int streams) {
  har_open_tls(end, host, streams, NULL);
}

void har_open_tls(har_end *end, const char *host, int streams,
                  gli_tls_settings *tls) {
  memset(end, 0, sizeof *end);
  end->upcalls = (gli_upcalls){.header = on_header,
                               .received = on_received,
                               .sent = on_sent,
                               .failed = on_failed,
                               .accept = on_accept,
                               .expect = on_expect};
  gli_transport_config config = {.host = host,
                                 .streams = streams,
                                 .tls = tls,
                                 .upcalls = &end->upcalls,
                                 .device_user = end,
                                 .owed = &end->owed};
  gloo_error error;
  if (gli_transport_tcp.open(&config, &end->t, &error) != GLOO_OK)
    fail_msg("%s", error.message);
}

void har_close(har_end *end) {
  for (int i = 0; i < HAR_PAIRS; i++) {
    if (end->pairs[i].pair != NULL) har_pair_close(&end->pairs[i], 0);
  }
  gli_transport_tcp.close(end->t);
  for (int i = 0; i < HAR_PAIRS; i++) free(end->pairs[i].data);
}

uint64_t har_key(uint32_t rank, uint32_t peer) {
  return (uint64_t)rank * UINT64_C(0x9e3779b97f4a7c15) + peer;
}

static har_pair *new_pair(har_end *end, uint32_t self, uint32_t peer) {
  for (int i = 0; i < HAR_PAIRS; i++) {
    har_pair *pair = &end->pairs[i];
    if (pair->data != NULL) continue;
    pair->end = end;
    pair->data = calloc(1, HAR_BYTES);
    assert_non_null(pair->data);
    pair->config = (gli_pair_config){.self_rank = self,
                                     .peer_rank = peer,
                                     .local_key = har_key(self, peer),
                                     .remote_key = har_key(peer, self),
                                     .user = pair};
    return pair;
  }
  fail_msg("too many pairs");
  return NULL;
}

void har_introduce(har_end *a, uint32_t rank_a, har_end *b, uint32_t rank_b,
                   har_pair **pair_a, har_pair **pair_b) {
  *pair_a = new_pair(a, rank_a, rank_b);
  *pair_b = new_pair(b, rank_b, rank_a);
  gli_transport_tcp.address(b->t, &(*pair_a)->config.address);
  gli_transport_tcp.address(a->t, &(*pair_b)->config.address);
}

void har_pair_open(har_pair *pair) {
  gloo_error error;
  gloo_status status = gli_transport_tcp.pair_open(pair->end->t, &pair->config,
                                                   &pair->pair, &error);
  if (status != GLOO_OK) fail_msg("%s", error.message);
}

void har_pair_close(har_pair *pair, int last_type) {
  const gli_send_request last = {.header = {.type = (uint8_t)last_type}};
  gli_transport_tcp.pair_close(pair->pair, last_type != 0 ? &last : NULL);
  pair->pair = NULL;
}

gli_post har_send(har_pair *pair, gli_send_request *request, uint32_t slot,
                  const void *payload, size_t bytes) {
  *request = (gli_send_request){
      .header = {.type = GLI_MESSAGE_DATA, .slot = slot, .length = bytes},
      .payload = payload};
  return gli_transport_tcp.send(pair->pair, request);
}

static int poll_one(har_end *end) {
  return end == NULL ? 0 : gli_transport_tcp.poll(end->t);
}

void har_poll(har_end *a, har_end *b, int times) {
  for (int i = 0; i < times; i++) {
    poll_one(a);
    poll_one(b);
  }
}

void har_until(har_end *a, har_end *b, const int *counter, int value) {
  int idle = 0;
  while (*counter < value) {
    if (poll_one(a) + poll_one(b) > 0) continue;
    if (++idle > TURNS_MAX) fail_msg("nothing happens any more");
    gli_transport_tcp.sleep(a->t, 1000000);
  }
}

void har_connect(har_pair *a, har_pair *b) {
  gli_send_request ping, pong;
  har_pair_open(a);
  har_send(a, &ping, 0, NULL, 0);
  har_until(a->end, b->end, &b->received, 1);
  har_send(b, &pong, 0, NULL, 0);
  har_until(a->end, b->end, &a->received, 1);
  assert_int_equal(a->failed + b->failed, 0);
}

gli_endpoint har_listens_at(gli_transport *t) {
  gli_address address;
  gli_tcp_contact contact;
  gli_transport_tcp.address(t, &address);
  assert_true(gli_tcp_contact_decode(&address, &contact));
  assert_true(contact.n >= 1);
  return contact.at[0];
}

int har_stranger(har_end *end) {
  gli_endpoint at = har_listens_at(end->t);
  int fd = socket(at.any.sa_family, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, &at.any, gli_endpoint_bytes(&at)), 0);
  return fd;
}

size_t har_read(har_end *end, int fd, uint8_t *to, size_t bytes) {
  size_t have = 0;
  for (int turn = 0; have < bytes; turn++) {
    if (turn > TURNS_MAX) fail_msg("neither an answer nor the end");
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    poll_one(end);
    if (poll(&ready, 1, 1) <= 0) continue;
    ssize_t got = recv(fd, to + have, bytes - have, 0);
    if (got <= 0) break;
    have += (size_t)got;
  }
  return have;
}

gli_tcp_reply har_read_reply(har_end *end, int fd) {
  uint8_t bytes[GLI_TCP_REPLY_BYTES];
  gli_tcp_reply reply = {.answer = 0};
  if (har_read(end, fd, bytes, sizeof bytes) == sizeof bytes)
    assert_true(gli_tcp_reply_decode(bytes, &reply));
  return reply;
}

void har_assert_hung_up(har_end *end, int fd) {
  uint8_t byte;
  assert_int_equal(har_read(end, fd, &byte, 1), 0);
  close(fd);
}
