/* Mutual authentication of server and client of a TCP store, and integrity of
 * their frames: each frame ends with a tag, so that an attacker in between
 * cannot insert, alter, replay or drop one. Frames are not encrypted.
 *
 * The server proves itself first: a client reveals nothing of its job to a
 * stranger that has the port. Both sides draw a nonce against replay, and each
 * direction has its own key against reflection. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_TCP_AUTH_H
#define GLI_RENDEZVOUS_STORE_TCP_TCP_AUTH_H

#include "rendezvous/store/tcp/tcp_protocol.h"
#include "security/trust.h"

/* The nonces of both sides. */
typedef struct gli_tcp_nonces {
  uint8_t client[GLI_NONCE_BYTES], server[GLI_NONCE_BYTES];
} gli_tcp_nonces;

/* Computes the proof of the server. The client proves itself by the tag of its
 * first frame. */
gloo_status gli_tcp_auth_tag(const gli_key *key, const gli_tcp_nonces *nonces,
                             uint8_t tag[GLI_TAG_BYTES], gloo_error *error);

/* One end of a connection whose frames have tags. */
typedef struct gli_tcp_seal gli_tcp_seal;

gloo_status gli_tcp_seal_create(const gli_key *key, bool serves,
                                const gli_tcp_nonces *nonces,
                                gli_tcp_seal **seal, gloo_error *error);
/* Accepts NULL. */
void gli_tcp_seal_destroy(gli_tcp_seal *seal);

/* Returns the size of the tag, which the head of a frame does not count. NULL:
 * 0. */
size_t gli_tcp_seal_bytes(const gli_tcp_seal *seal);

/* Adds the tag to a complete frame, the next one to be sent. Without memory the
 * frame is marked as failed. NULL: no tag. */
void gli_tcp_seal_frame(gli_tcp_seal *seal, gli_frame *frame);

/* Returns true if this is the next frame of the other side. Its tag follows the
 * body. NULL: no tag, always true. */
bool gli_tcp_seal_holds(gli_tcp_seal *seal,
                        const uint8_t head[GLI_TCP_HEAD_BYTES],
                        const uint8_t *body, size_t body_bytes);

#endif
