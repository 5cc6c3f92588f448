/* How server and client of a TCP store show each other that they know its key,
 * and what they say afterwards: every frame ends with a tag, so that nobody in
 * between can add, change, repeat or leave out one. What is said can be read.
 *
 * The server shows it first: a client says nothing of its job to a stranger who
 * has the port. Both have drawn a number, so that nothing that was heard before
 * is of use; and each direction has a key of its own, so that neither is what
 * the other said. */
#ifndef GLI_RENDEZVOUS_STORE_TCP_AUTH_H
#define GLI_RENDEZVOUS_STORE_TCP_AUTH_H

#include "rendezvous/store/tcp_protocol.h"
#include "security/trust.h"

/* What both have drawn. */
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
/* NULL is allowed. */
void gli_tcp_seal_destroy(gli_tcp_seal *seal);

/* How many bytes of a frame come after those that its head counts. NULL: none.
 */
size_t gli_tcp_seal_bytes(const gli_tcp_seal *seal);

/* The next frame that is sent, which is complete: add its tag. Running out of
 * memory makes it a failed one. NULL: it has none. */
void gli_tcp_seal_frame(gli_tcp_seal *seal, gli_frame *frame);

/* Is this the next frame of the other side? Its tag follows the body. NULL:
 * there is none. */
bool gli_tcp_seal_holds(gli_tcp_seal *seal,
                        const uint8_t head[GLI_TCP_HEAD_BYTES],
                        const uint8_t *body, size_t body_bytes);

#endif
