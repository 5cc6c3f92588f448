/* Handshake of two processes before the first message. All parts have a fixed
 * size, so that nothing from a stranger is buffered or trusted. The connecting
 * end, the initiator, sends a hello; the acceptor sends a reply. In a job with
 * a secret the acceptor's challenge and the initiator's proof, which are tags
 * (security/trust.h), come in between.
 *
 * With TLS, the initiator's TLS handshake starts right after its hello and
 * protects everything that follows; every job then has a challenge and a proof,
 * which cover the hello. Only a reply that refuses the hello may come before
 * TLS, in plaintext; its first byte distinguishes it from TLS. */
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
  uint32_t stream, streams; /* its index, and the maximum number */
  uint32_t from, to;        /* ranks */
  uint64_t key;
  bool asks; /* true if the sender has a secret */
  gli_tls_kind tls;
  uint8_t nonce[GLI_NONCE_BYTES]; /* random with a secret or TLS; else 0 */
} gli_tcp_hello;

typedef struct gli_tcp_challenge {
  uint8_t nonce[GLI_NONCE_BYTES];
  uint8_t tag[GLI_TAG_BYTES];
} gli_tcp_challenge;

typedef enum gli_tcp_answer {
  GLI_TCP_ACCEPTED = 1,
  GLI_TCP_USE_MINE, /* my own connection to you is in progress: wait for it */
  GLI_TCP_UNKNOWN,  /* no such key and rank here */
  GLI_TCP_LATER,    /* not yet, but soon: ask again */
  GLI_TCP_TAKEN,    /* this stream is connected already */
  GLI_TCP_OTHER_VERSION,
  GLI_TCP_DENIED,    /* the proof is wrong, or I have no secret */
  GLI_TCP_OTHER_TLS, /* I use no TLS, or another kind */
  GLI_TCP_ANSWERS
} gli_tcp_answer;

typedef struct gli_tcp_reply {
  uint32_t version;
  uint32_t answer;  /* gli_tcp_answer */
  uint32_t streams; /* ACCEPTED: agreed number; OTHER_TLS: gli_tls_kind */
  uint64_t key; /* ACCEPTED: key that the initiator expects from this peer */
} gli_tcp_reply;

void gli_tcp_hello_encode(const gli_tcp_hello *hello,
                          uint8_t out[GLI_TCP_HELLO_BYTES]);
/* Returns true for the start of a hello of another version, of any length. */
bool gli_tcp_hello_is_other(const uint8_t *in, size_t bytes);
/* Returns false if not a hello. Of another version only `version` is set. */
bool gli_tcp_hello_decode(const uint8_t in[GLI_TCP_HELLO_BYTES],
                          gli_tcp_hello *hello);

void gli_tcp_challenge_encode(const gli_tcp_challenge *challenge,
                              uint8_t out[GLI_TCP_CHALLENGE_BYTES]);
/* Returns the first byte of plaintext replies, with which TLS never starts. */
uint8_t gli_tcp_reply_first(void);
/* Returns true if the bytes start a challenge, and not a reply. */
bool gli_tcp_challenge_begins(const uint8_t in[GLI_TCP_REPLY_BYTES]);
bool gli_tcp_challenge_decode(const uint8_t in[GLI_TCP_CHALLENGE_BYTES],
                              gli_tcp_challenge *challenge);

/* Computes the tags of a connection over the hello as sent, which has both
 * ranks, the stream and the initiator's nonce, and over the acceptor's
 * nonce. */
gloo_status gli_tcp_handshake_proofs(const gli_key *key,
                                     const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                     const uint8_t nonce[GLI_NONCE_BYTES],
                                     gli_proofs *proofs, gloo_error *error);
/* Derives the key that authenticates TLS from the secret. */
gloo_status gli_tcp_handshake_tls_key(const gli_key *key,
                                      const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                      gli_key *tls_key, gloo_error *error);

void gli_tcp_reply_encode(const gli_tcp_reply *reply,
                          uint8_t out[GLI_TCP_REPLY_BYTES]);
bool gli_tcp_reply_decode(const uint8_t in[GLI_TCP_REPLY_BYTES],
                          gli_tcp_reply *reply);

#endif
