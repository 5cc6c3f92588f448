/* The addresses of a peer, while a stream is being connected to one of them.
 *
 * They are tried in the order of order.c, overlapping in time: the next one is
 * begun when one fails, or has not connected within a moment, or has connected
 * and does not answer for a longer one. The first that is answered ACCEPTED
 * wins, and the others are closed. An attempt whose hello is sent is never
 * closed before that: the peer may be about to accept it (see connect.c).
 * Streams but the first have one address, at which the first was connected. */
#ifndef GLI_TRANSPORT_TCP_DIAL_H
#define GLI_TRANSPORT_TCP_DIAL_H

#include "transport_tcp/tcp.h"

typedef enum gli_tcp_attempt_state {
  GLI_ATTEMPT_IDLE,   /* not begun yet, in this round */
  GLI_ATTEMPT_TRYING, /* `conn` is being connected, or greets */
  GLI_ATTEMPT_FAILED, /* to be tried again in the next round, if there is one */
  GLI_ATTEMPT_WRONG /* what listens there is not the peer, or not to be used */
} gli_tcp_attempt_state;

enum { GLI_ATTEMPT_WHY_BYTES = 160 };

/* One address, and the attempt that is under way there. */
typedef struct gli_tcp_attempt {
  gli_tcp_stream *stream;
  gli_endpoint at;
  gli_tcp_attempt_state state;
  gli_conn *conn; /* of TRYING */
  uint64_t begun_ns;
  uint8_t hello[GLI_TCP_HELLO_BYTES]; /* as it was sent */
  /* What comes: a reply, or the challenge before it. */
  uint8_t reply[GLI_TCP_CHALLENGE_BYTES];
  size_t reply_bytes;
  bool proved; /* each has shown the other that it knows the secret, or is
                  the other end of the same TLS; and both the same hello */
  bool denied; /* of WRONG: it is the secret that is wrong, or lacking */
  int code;    /* errno, of FAILED; 0: none */
  char why[GLI_ATTEMPT_WHY_BYTES]; /* of FAILED and WRONG */
  const char *guess;               /* what may be the cause */
} gli_tcp_attempt;

struct gli_tcp_dial {
  uint32_t n;
  gli_tcp_attempt *found; /* the peer has answered there; NULL: nowhere yet */
  uint64_t next_ns;       /* when to begin the next; 0: not by time */
  uint64_t retry_ns; /* when to ask `found` again, or to begin a new round; 0:
                        something is under way */
  gli_tcp_attempt attempts[];
};

/* The attempt has come to nothing: by a code from errno, or for a reason. */
void gli_tcp_attempt_failed(gli_tcp_attempt *attempt, int code);
void gli_tcp_attempt_failed_because(gli_tcp_attempt *attempt, const char *why,
                                    const char *guess);
/* So that there is no use in trying again. `why` continues "rank N (address)".
 */
void gli_tcp_attempt_bad_peer(gli_tcp_attempt *attempt, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, for want of a secret that both ends have. */
void gli_tcp_attempt_rejected(gli_tcp_attempt *attempt, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The peer is there, and is to be asked again. */
void gli_tcp_attempt_retry_at(gli_tcp_attempt *attempt, uint64_t due_ns);
/* It says so, and has not shown that it is the peer: another address may be
 * its.
 */
void gli_tcp_attempt_postpone(gli_tcp_attempt *attempt);
/* The hello is sent. */
void gli_tcp_attempt_hello_sent(gli_tcp_attempt *attempt);

/* All attempts of a stream are over, if there are any. */
void gli_tcp_dial_drop(gli_tcp_stream *stream);
/* Nothing that comes is looked at any more. */
void gli_tcp_dial_ignore(gli_tcp_stream *stream);
void gli_tcp_dial_forked(gli_tcp_stream *stream);

/* connect.c: what an attempt's connection calls. */
extern const gli_conn_calls gli_tcp_attempt_calls;

#endif
