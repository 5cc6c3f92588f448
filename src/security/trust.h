/* Credentials of this process: a key derived from the job's secret, and the
 * keys derived from it for each use. */
#ifndef GLI_SECURITY_TRUST_H
#define GLI_SECURITY_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"
#include "security/keys.h"
#include "security/secret.h"

typedef struct gli_trust {
  bool asks;   /* false: no key exists, and peers are not authenticated */
  bool silent; /* GLOO_SECURITY is off: peers are trusted */
  gli_key key;
} gli_trust;

/* Reads the trust from the secret (`given`, or the environment's if NULL, see
 * gli_secret_read) and from GLOO_SECURITY. A build without OpenSSL
 * authenticates no peer, and warns once if there is a secret. Errors: those of
 * gli_secret_read; with GLOO_SECURITY=required GLOO_ERR_AUTH if there is no
 * secret, and GLOO_ERR_UNSUPPORTED in such a build. `trust` is set on success
 * only; release it then.
 * Threads: any, while none changes the environment. */
gloo_status gli_trust_read(const void *given, size_t given_bytes,
                           gli_trust *trust, gloo_error *error);
/* Extends gli_trust_read by a fallback: the launcher's secret `told` (NULL, or
 * n_bytes 0: none) applies if options and environment have none. */
gloo_status gli_trust_read_told(const void *given, size_t given_bytes,
                                const gli_secret *told, gli_trust *trust,
                                gloo_error *error);
/* Fails if gli_trust_read_told would: called before a rank listens, connects or
 * writes to a store. */
gloo_status gli_trust_check(const void *given, size_t given_bytes,
                            const gli_secret *told, gloo_error *error);
/* Wipes the key. */
void gli_trust_release(gli_trust *trust);

/* Derives the key that server and clients of a store of that job and epoch
 * share. */
gloo_status gli_trust_store_key(const gli_trust *trust, const char *job,
                                uint64_t epoch, gli_key *key,
                                gloo_error *error);

/* Computes a number of GLI_TRUST_MARK_BITS that tells ranks early whether they
 * have the same secret. It is public, and proves nothing. */
enum { GLI_TRUST_MARK_BITS = 24 };
gloo_status gli_trust_mark(const gli_trust *trust, uint32_t *mark,
                           gloo_error *error);

/* Scope of the ranks' records: one secret may serve many jobs, and others may
 * be able to write to their stores. Unused members are zero, `job` may be "".
 */
typedef struct gli_trust_scope {
  const char *job;
  uint64_t epoch;
  int64_t round;      /* round of gloo_context_grow, from 1 */
  uint8_t number[16]; /* nonce of that round */
} gli_trust_scope;

/* Derives the key by which ranks sign their records in a store of any kind. */
gloo_status gli_trust_record_key(const gli_trust *trust,
                                 const gli_trust_scope *scope, gli_key *key,
                                 gloo_error *error);

/* One end of a pair: its rank, and the number that its context has drawn and
 * published. */
typedef struct gli_trust_end {
  uint32_t rank;
  uint64_t context;
} gli_trust_end;

/* Derives the key of two ranks, for either direction. `job_key` points to the
 * GLI_KEY_BYTES of a trust with authentication. */
gloo_status gli_trust_pair_key(const uint8_t *job_key, gli_trust_end one,
                               gli_trust_end other, gli_key *key,
                               gloo_error *error);

/* ---- proofs -------------------------------------------------------------- */

/* The two ends of a connection prove to each other by tags that they know a
 * key. A tag covers the name of the protocol, the end that sends it, and the
 * transcript, which both ends have: the messages so far, with a nonce of each
 * end if others can read the connection. So a tag proves nothing in another
 * handshake or protocol, or when it is reflected. All handshakes of the library
 * that require a secret use these: pairs over TCP ("tcp"), sockets of shared
 * memory ("shm") and the store ("store"). */
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

/* Derives the key that authenticates TLS of a connection by the secret. */
gloo_status gli_proofs_tls_key(const gli_key *key, const char *protocol,
                               const gli_part *transcript, size_t n_parts,
                               gli_key *tls_key, gloo_error *error);

/* ---- text ---------------------------------------------------------------- */

/* Describes the fault of a peer's secret, as the end of a sentence that begins
 * with its rank. If both ends have a secret, the peer's differs from that of
 * rank `self`. */
typedef struct gli_trust_text {
  char text[128];
} gli_trust_text;
gli_trust_text gli_trust_differs(uint32_t self, bool self_asks, bool peer_asks);

/* Warns in one line, once per process, that `what`, the object of a sentence,
 * listens at `where`, an address that other hosts may reach. Does nothing if
 * peers are authenticated, or GLOO_SECURITY is off. */
void gli_trust_exposed(const gli_trust *trust, const char *what,
                       const char *where);

#endif
