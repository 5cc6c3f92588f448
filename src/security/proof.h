/* Proofs of a handshake: tags by which the two ends of a connection show each
 * other that they know a key. A tag covers the name of the protocol, the end
 * that sends it, and the transcript, which both ends have: what they have said
 * to each other so far, with a nonce of each end where others can read the
 * connection. So a tag proves nothing in another handshake, in another
 * protocol, or when it is sent back. All protocols of the library that ask for
 * a secret use these: connections of pairs ("tcp"), sockets of shared memory
 * ("shm") and sessions of the store ("store").
 *
 * Threads and forks: as security/keys.h. */
#ifndef GLI_SECURITY_PROOF_H
#define GLI_SECURITY_PROOF_H

#include "security/keys.h"

enum { GLI_NONCE_BYTES = 16, GLI_TRANSCRIPT_PARTS = 4 };

typedef struct gli_proofs {
  uint8_t initiator[GLI_TAG_BYTES]; /* tag of the end that connects */
  uint8_t acceptor[GLI_TAG_BYTES];
} gli_proofs;

/* Computes the tags of both ends. The transcript has at most
 * GLI_TRANSCRIPT_PARTS parts. Fails with GLOO_ERR_UNSUPPORTED without OpenSSL;
 * `proofs` is set on success only. */
gloo_status gli_proofs_compute(const gli_key *key, const char *protocol,
                               const gli_part *transcript, size_t n_parts,
                               gli_proofs *proofs, gloo_error *error);

/* Derives the key that authenticates TLS of a connection, where the secret
 * does. */
gloo_status gli_proofs_tls_key(const gli_key *key, const char *protocol,
                               const gli_part *transcript, size_t n_parts,
                               gli_key *tls_key, gloo_error *error);

#endif
