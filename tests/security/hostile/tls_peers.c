/* TLS clients at the TCP listeners of ranks that authenticate by
 * certificates. */
#include <stdlib.h>
#include <unistd.h>

#include "tls_client.h"
#include "transport_tcp/contact.h"
#include "transport_tcp/handshake.h"

/* ---- at a rank ----------------------------------------------------------- */

static int connect_to(const hostile *h, int rank) {
  gli_tcp_contact contact;
  if (!gli_tcp_contact_decode(&h->job->ranks[rank].address, &contact)) abort();
  return hostile_connect_tcp(contact.port);
}

/* Sends a hello from rank 3 to rank 1, which are connected or about to be. */
static int greet(const hostile *h, gli_tls_kind kind) {
  uint8_t bytes[GLI_TCP_HELLO_BYTES];
  const gli_tcp_hello hello = {.version = GLI_TCP_VERSION,
                               .streams = 1,
                               .from = 3,
                               .to = 1,
                               .key = h->job->ranks[1].key,
                               .tls = kind,
                               .nonce = "drawn by nobody"};
  int fd = connect_to(h, 1);
  gli_tcp_hello_encode(&hello, bytes);
  if (fd >= 0) hostile_send(fd, bytes, sizeof bytes);
  return fd;
}

static void is_no_rank(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = greet(h, GLI_TLS_BY_CERTIFICATE);
    if (fd >= 0) hostile_tls_is_refused(h, fd, h->peer->number);
  }
}

static void says_it_in_clear(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = greet(h, (gli_tls_kind)h->peer->number);
    hostile_demand(h, hostile_is_closed(fd), "it was not hung up on");
  }
}

static void says_garbage_for_tls(hostile *h) {
  uint8_t junk[600];
  hostile_garbage(junk, sizeof junk);
  for (size_t n = 1; hostile_goes_on(h); n = n % sizeof junk + 1) {
    int fd = greet(h, GLI_TLS_BY_CERTIFICATE);
    junk[0] = n % 2 == 0 ? 0x16 : junk[1]; /* first byte of a handshake */
    hostile_send(fd, junk, n);
    close(fd);
  }
}

static void says_tls_without_a_hello(hostile *h) {
  while (hostile_goes_on(h)) {
    int fd = connect_to(h, 1);
    if (fd >= 0) hostile_tls_is_refused(h, fd, TLS_OF_RANK_2);
  }
}

static int open_in_the_middle(hostile *h, size_t i) {
  (void)i;
  return greet(h, GLI_TLS_BY_CERTIFICATE);
}

static void stay_in_the_middle(hostile *h) {
  hostile_crowd(h, h->peer->number, open_in_the_middle);
}

/* ---- the list ------------------------------------------------------------ */

static const hostile_peer peers[] = {
    PEER("no certificate", is_no_rank, .number = TLS_WITHOUT_PAPERS),
    PEER("another rank's certificate", is_no_rank, .number = TLS_OF_RANK_2),
    PEER("a certificate of another host", is_no_rank,
         .number = TLS_OF_ANOTHER_HOST),
    PEER("an expired certificate", is_no_rank, .number = TLS_EXPIRED),
    PEER("a certificate that is not valid yet", is_no_rank,
         .number = TLS_EARLY),
    PEER("a certificate of another authority", is_no_rank,
         .number = TLS_UNBELIEVED),
    PEER("TLS 1.2", is_no_rank, .number = TLS_1_2),
    PEER("a hello without TLS", says_it_in_clear, .number = GLI_TLS_NONE),
    PEER("a hello with the other kind of TLS", says_it_in_clear,
         .number = GLI_TLS_BY_SECRET),
    PEER("garbage after the hello", says_garbage_for_tls),
    PEER("TLS without a hello", says_tls_without_a_hello),
    PEER("500 that stay in the middle", stay_in_the_middle, .number = 500),
};

const hostile_list hostile_tls_list = {HOSTILE_TLS, peers,
                                       sizeof peers / sizeof *peers};
