/* TLS clients at the store of ranks that authenticate by certificates. */
#include <stdlib.h>

#include "net/tls.h"
#include "rendezvous/store/tcp/tcp_protocol.h"
#include "tls_client.h"

/* ---- at the store -------------------------------------------------------- */

static int hello_to_store(const hostile *h, gli_tcp_how how, uint32_t kind) {
  gli_frame frame;
  int fd = hostile_connect_tcp(h->port);
  gli_frame_begin(&frame, 64);
  gli_frame_put_u64(&frame, GLI_TCP_MAGIC);
  gli_frame_put_u32(&frame, GLI_TCP_VERSION);
  gli_frame_put_u32(&frame, how);
  if (how == GLI_TCP_BY_TLS) {
    gli_frame_put_u32(&frame, kind);
  } else {
    gli_frame_put_u64(&frame, JOB_EPOCH);
    gli_frame_put_key(&frame, JOB_NAME);
  }
  gli_frame_end(&frame, GLI_TCP_HELLO);
  if (frame.failed) abort();
  if (fd >= 0) hostile_send(fd, frame.data, frame.bytes);
  free(frame.data);
  return fd;
}

static int begin_at_store(hostile *h) {
  uint8_t answer[GLI_TCP_HEAD_BYTES];
  int fd = hello_to_store(h, GLI_TCP_BY_TLS, GLI_TLS_BY_CERTIFICATE);
  if (fd >= 0)
    hostile_demand(h, hostile_read(fd, answer, sizeof answer),
                   "TLS is not begun");
  return fd;
}

static void is_no_client(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = begin_at_store(h);
    if (fd >= 0) hostile_tls_is_refused(h, fd, h->peer->number);
  }
}

static void asks_in_clear(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = hello_to_store(h, (gli_tcp_how)h->peer->number, GLI_TLS_BY_SECRET);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static int open_at_store(hostile *h, size_t i) {
  (void)i;
  return hello_to_store(h, GLI_TCP_BY_TLS, GLI_TLS_BY_CERTIFICATE);
}

static void stay_at_store(hostile *h) {
  hostile_crowd(h, h->peer->number, open_at_store);
}

/* ---- the list ------------------------------------------------------------ */

static const hostile_peer peers[] = {
    PEER("no certificate", is_no_client, .number = TLS_WITHOUT_PAPERS),
    PEER("of no rank", is_no_client, .number = TLS_OF_ANOTHER_HOST),
    PEER("expired", is_no_client, .number = TLS_EXPIRED),
    PEER("not valid yet", is_no_client, .number = TLS_EARLY),
    PEER("of another authority", is_no_client, .number = TLS_UNBELIEVED),
    PEER("TLS 1.2", is_no_client, .number = TLS_1_2),
    PEER("without TLS", asks_in_clear, .number = GLI_TCP_BY_NAME),
    PEER("the other kind", asks_in_clear, .number = GLI_TCP_BY_TLS),
    PEER("500 that stay in the middle", stay_at_store, .number = 500),
};

const hostile_list hostile_tls_store_list = {HOSTILE_TLS, peers,
                                             sizeof peers / sizeof *peers};
