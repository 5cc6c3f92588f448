/* End points of the TCP transport, polled by hand in one thread, without an
 * engine. */
#ifndef TESTS_TRANSPORT_TCP_HARNESS_H
#define TESTS_TRANSPORT_TCP_HARNESS_H

/* cmocka.h needs the first four. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transport_tcp/tcp.h"

enum { HAR_BYTES = 1 << 20, HAR_PAIRS = 4 };

typedef struct har_end har_end;

/* A pair and the results of its upcalls. */
typedef struct har_pair {
  har_end *end;
  gli_pair *pair; /* NULL: not open */
  gli_pair_config config;
  int headers, received, sent, failed, byes;
  gloo_error cause;
  gli_header header; /* the last one */
  uint8_t *data;     /* the last payload; has room for HAR_BYTES */
} har_pair;

struct har_end {
  gli_transport *t;
  uint32_t owed;
  gli_upcalls upcalls;
  har_pair pairs[HAR_PAIRS]; /* entries with `data` are in use */
  bool later;                /* every peer that asks is answered LATER */
  int asked;
};

void har_open(har_end *end, const char *host, int streams);
/* Opens an end point with TLS; the caller keeps the settings. */
void har_open_tls(har_end *end, const char *host, int streams,
                  gli_tls_settings *tls);
void har_close(har_end *end);

/* Introduces two end points, as ranks, and opens neither pair. Keys are made of
 * ranks: har_key(rank, peer) is what `peer` presents to `rank`. There is no
 * secret unless the caller sets `config.job_key` of both. */
void har_introduce(har_end *a, uint32_t rank_a, har_end *b, uint32_t rank_b,
                   har_pair **pair_a, har_pair **pair_b);
uint64_t har_key(uint32_t rank, uint32_t peer);

void har_pair_open(har_pair *pair);
void har_pair_close(har_pair *pair, int last_type); /* 0: no last message */
gli_post har_send(har_pair *pair, gli_send_request *request, uint32_t slot,
                  const void *payload, size_t bytes);

/* Polls both (b may be NULL) until *counter reaches `value`. Sleeps in between,
 * and fails the test if that never happens. */
void har_until(har_end *a, har_end *b, const int *counter, int value);
/* Polls until both pairs can send and receive. */
void har_connect(har_pair *a, har_pair *b);
void har_poll(har_end *a, har_end *b, int times);

/* Returns the first address that it publishes. */
gli_endpoint har_listens_at(gli_transport *t);
/* Returns a plain blocking socket that is connected to the listener of
 * `end`. */
int har_stranger(har_end *end);
/* Returns the number of bytes read: fewer than asked if the connection ends. */
size_t har_read(har_end *end, int fd, uint8_t *to, size_t bytes);
/* Returns the reply to a hello; its `answer` is 0 if the connection ends
 * instead. */
gli_tcp_reply har_read_reply(har_end *end, int fd);
/* Checks that the other side closes the connection within bounded time. */
void har_assert_hung_up(har_end *end, int fd);

#endif
