/* What two processes say to each other before the first message. All of it is
 * of fixed size, so that nothing a stranger sends is ever buffered or believed.
 * The one that connects, the initiator, says hello; the one that accepts sends
 * its reply. In a job with a secret a challenge of the acceptor and a proof of
 * the initiator, which are tags (security/trust.h), come in between.
 *
 * With TLS the initiator's handshake of that begins right behind its hello, and
 * all else is said in it; challenge and proof, which cover the hello, in every
 * job. Only a reply that refuses the hello may come before, in clear; its first
 * byte tells it apart from TLS. */
#ifndef GLI_TRANSPORT_TCP_HANDSHAKE_H
#define GLI_TRANSPORT_TCP_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/tls.h"
#include "security/trust.h"

#define GLI_TCP_VERSION 8
#define GLI_TCP_HELLO_BYTES 64
#define GLI_TCP_CHALLENGE_BYTES 48
#define GLI_TCP_REPLY_BYTES 32

typedef struct gli_tcp_hello {
  uint32_t version;
  uint32_t stream, streams; /* which one this is to be, of how many at most */
  uint32_t from, to;        /* ranks */
  uint64_t key;
  bool asks; /* the sender has a secret */
  gli_tls_kind tls;
  uint8_t nonce[GLI_NONCE_BYTES]; /* drawn, with a secret or TLS; else
                                               0 */
} gli_tcp_hello;

typedef struct gli_tcp_challenge {
  uint8_t nonce[GLI_NONCE_BYTES];
  uint8_t tag[GLI_TAG_BYTES];
} gli_tcp_challenge;

typedef enum gli_tcp_answer {
  GLI_TCP_ACCEPTED = 1,
  GLI_TCP_USE_MINE, /* our own connection to you is under way: wait for it */
  GLI_TCP_UNKNOWN,  /* no such key and rank here */
  GLI_TCP_LATER,    /* not yet, but soon: ask again */
  GLI_TCP_TAKEN,    /* this stream is connected already */
  GLI_TCP_OTHER_VERSION,
  GLI_TCP_DENIED,    /* to a proof: it is wrong; to a hello that asks for one: I
                        have none */
  GLI_TCP_OTHER_TLS, /* I use none, or another kind */
  GLI_TCP_ANSWERS
} gli_tcp_answer;

typedef struct gli_tcp_reply {
  uint32_t version;
  uint32_t answer;  /* gli_tcp_answer */
  uint32_t streams; /* ACCEPTED: agreed number; OTHER_TLS: gli_tls_kind */
  uint64_t key;     /* ACCEPTED: what the asking side expects of this peer */
} gli_tcp_reply;

void gli_tcp_hello_encode(const gli_tcp_hello *hello,
                          uint8_t out[GLI_TCP_HELLO_BYTES]);
/* Does what has come begin a hello of another version? That may be shorter than
 * ours. */
bool gli_tcp_hello_is_other(const uint8_t *in, size_t bytes);
/* False when it is no hello of any version. Of another version, only `version`
 * is set. */
bool gli_tcp_hello_decode(const uint8_t in[GLI_TCP_HELLO_BYTES],
                          gli_tcp_hello *hello);

void gli_tcp_challenge_encode(const gli_tcp_challenge *challenge,
                              uint8_t out[GLI_TCP_CHALLENGE_BYTES]);
/* The first byte of what is said in clear, which TLS never begins with. */
uint8_t gli_tcp_reply_first(void);
/* Does a challenge begin so, and not a reply? */
bool gli_tcp_challenge_begins(const uint8_t in[GLI_TCP_REPLY_BYTES]);
bool gli_tcp_challenge_decode(const uint8_t in[GLI_TCP_CHALLENGE_BYTES],
                              gli_tcp_challenge *challenge);

/* Computes the tags of a connection: the transcript is the hello as it was
 * sent, which names both ranks and the stream and has a nonce of the initiator,
 * and the nonce of the acceptor. */
gloo_status gli_tcp_handshake_proofs(const gli_key *key,
                                     const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                     const uint8_t nonce[GLI_NONCE_BYTES],
                                     gli_proofs *proofs, gloo_error *error);
/* Derives the key of TLS, where it is authenticated by the secret. */
gloo_status gli_tcp_handshake_tls_key(const gli_key *key,
                                      const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                      gli_key *tls_key, gloo_error *error);

void gli_tcp_reply_encode(const gli_tcp_reply *reply,
                          uint8_t out[GLI_TCP_REPLY_BYTES]);
bool gli_tcp_reply_decode(const uint8_t in[GLI_TCP_REPLY_BYTES],
                          gli_tcp_reply *reply);

#endif
