/* What the two ends of a connection show each other in a job with a secret:
 * tags over the hello as it was sent, which names both ranks and the stream and
 * has a nonce of the initiator's, and over a nonce of the acceptor's. A tag of
 * one end is never one of the other's, and of use in one handshake alone. */
#ifndef GLI_TRANSPORT_TCP_PROVE_H
#define GLI_TRANSPORT_TCP_PROVE_H

#include "security/keys.h"
#include "transport/transport.h"
#include "transport_tcp/handshake.h"

typedef struct gli_tcp_tags {
  uint8_t of_acceptor[GLI_TAG_BYTES];  /* in its challenge */
  uint8_t of_initiator[GLI_TAG_BYTES]; /* its proof */
} gli_tcp_tags;

/* What TLS of a connection goes by, where it goes by the secret. */
gloo_status gli_tcp_prove_tls_key(const gli_key *key,
                                  const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                  gli_key *tls_key, gloo_error *error);

gloo_status gli_tcp_prove_tags(const gli_key *key,
                               const uint8_t hello[GLI_TCP_HELLO_BYTES],
                               const uint8_t nonce[GLI_TCP_PROVE_NONCE_BYTES],
                               gli_tcp_tags *tags, gloo_error *error);

#endif
