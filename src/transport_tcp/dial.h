/* Addresses of a peer, while a stream connects to one of them.
 *
 * They are tried in the order of order.c, overlapping in time: the next attempt
 * starts when one fails, or has not connected within a moment, or has connected
 * and gets no answer for longer. The first that is answered ACCEPTED wins, and
 * the others are closed. An attempt with its hello sent is never closed before
 * that: the peer may be about to accept it (see connect.c). Streams other than
 * the first have one address, that of the first stream's connection. */
#ifndef GLI_TRANSPORT_TCP_DIAL_H
#define GLI_TRANSPORT_TCP_DIAL_H

#include "core/error.h"
#include "transport_tcp/tcp.h"

typedef enum gli_tcp_attempt_state {
  GLI_ATTEMPT_IDLE,   /* not started in this round */
  GLI_ATTEMPT_TRYING, /* `conn` connects or greets */
  GLI_ATTEMPT_FAILED, /* may be tried again in the next round */
  GLI_ATTEMPT_WRONG   /* the listener is not the peer, or not usable */
} gli_tcp_attempt_state;

enum { GLI_ATTEMPT_WHY_BYTES = 160 };

/* One address, and the attempt to connect to it. */
typedef struct gli_tcp_attempt {
  gli_tcp_stream *stream;
  gli_endpoint at;
  gli_tcp_attempt_state state;
  gli_conn *conn; /* connection in TRYING */
  uint64_t begun_ns;
  uint8_t hello[GLI_TCP_HELLO_BYTES]; /* hello as sent */
  /* Input: a reply, or the challenge before it. */
  uint8_t reply[GLI_TCP_CHALLENGE_BYTES];
  size_t reply_bytes;
  bool proved; /* true if both ends have proved that they know the secret, or
                  are the ends of this TLS connection, and saw the same hello */
  bool denied; /* true if WRONG because the secrets differ or one is missing */
  int code;    /* errno of FAILED; 0 if none */
  char why[GLI_ATTEMPT_WHY_BYTES]; /* cause of FAILED and WRONG */
  const char *guess;               /* hint at a likely cause */
} gli_tcp_attempt;

struct gli_tcp_dial {
  uint32_t n;
  uint64_t begun_ns;
  gli_tcp_attempt *found; /* attempt that the peer answered; NULL if none */
  uint64_t next_ns;  /* time to start the next attempt; 0 if no time is set */
  uint64_t retry_ns; /* time to ask `found` again, or to start a new round; 0
                        while attempts are in progress */
  gli_tcp_attempt attempts[];
};

/* Fails the attempt, with an errno or a reason; the next round may retry it. */
void gli_tcp_attempt_failed(gli_tcp_attempt *attempt, int code);
void gli_tcp_attempt_failed_because(gli_tcp_attempt *attempt, const char *why,
                                    const char *guess);
/* Fails the attempt for good. `why` continues "rank N (address)". */
void gli_tcp_attempt_bad_peer(gli_tcp_attempt *attempt, const char *format, ...)
    GLI_PRINTF(2, 3);
/* Fails the attempt for good because the secrets differ or one is missing. */
void gli_tcp_attempt_rejected(gli_tcp_attempt *attempt, const char *format, ...)
    GLI_PRINTF(2, 3);
/* Asks the peer, which has answered here, again at `due_ns`. The texts are as
 * for a failure. */
void gli_tcp_attempt_retry_at(gli_tcp_attempt *attempt, uint64_t due_ns,
                              const char *why, const char *guess);
/* Fails the attempt without a time limit: the answer "later" has no proof that
 * it is the peer's, so another address may be the right one. */
void gli_tcp_attempt_postpone(gli_tcp_attempt *attempt);
/* Notes that the hello was sent. */
void gli_tcp_attempt_hello_sent(gli_tcp_attempt *attempt);

/* Returns true, and the end of a sentence, if the attempts have taken long. */
bool gli_tcp_dial_explain(const gli_tcp_stream *stream,
                          char text[GLI_OBSTACLE_BYTES]);

/* Ends all attempts of a stream, if any. */
void gli_tcp_dial_drop(gli_tcp_stream *stream);
/* Ignores all further input. */
void gli_tcp_dial_ignore(gli_tcp_stream *stream);
void gli_tcp_dial_forked(gli_tcp_stream *stream);

/* connect.c: callbacks of an attempt's connection. */
extern const gli_conn_calls gli_tcp_attempt_calls;

#endif
