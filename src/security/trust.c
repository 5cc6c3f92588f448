#include "security/trust.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "core/log.h"
#include "security/secret.h"

/* Salt that separates these keys from those of other programs with the same
 * secret. */
#define SALT "gloo_c 1"

/* ---- the job's key ------------------------------------------------------- */

static gloo_status trust_lacks_secret(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_AUTH, -1,
                  "GLOO_SECURITY=required, but no job secret is set: set "
                  "GLOO_JOB_SECRET to the same value on all ranks (openssl "
                  "rand -hex 32), or GLOO_JOB_SECRET_FILE");
}

static gloo_status trust_lacks_openssl(gloo_error *error) {
  return gli_fail(
      error, GLOO_ERR_UNSUPPORTED, -1,
      "GLOO_SECURITY=required, but this library was built without OpenSSL and "
      "cannot authenticate peers: build it with -Dopenssl=enabled");
}

static void warn_of_build(const gli_secret *secret) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&said)) return;
  gli_log(GLOO_LOG_WARN,
          "a job secret is set (%s), but this library was built without "
          "OpenSSL: peers are not authenticated",
          secret->source);
}

static gloo_status trust_from_secret(const gli_secret *secret, bool required,
                                     gli_trust *trust, gloo_error *error) {
  if (secret->n_bytes == 0)
    return required ? trust_lacks_secret(error) : GLOO_OK;
  if (gli_openssl_version() == NULL) {
    if (required) return trust_lacks_openssl(error);
    warn_of_build(secret);
    return GLOO_OK;
  }
  gloo_status status = gli_key_extract(SALT, sizeof SALT - 1, secret->bytes,
                                       secret->n_bytes, &trust->key, error);
  trust->asks = status == GLOO_OK;
  if (trust->asks)
    gli_log(GLOO_LOG_DEBUG, "peer authentication is on (%s)", secret->source);
  return status;
}

gloo_status gli_trust_read_told(const void *given, size_t given_bytes,
                                const gli_secret *told, gli_trust *trust,
                                gloo_error *error) {
  gli_security security;
  gli_secret secret;
  gloo_status status = gli_security_read(&security, error);
  if (status != GLOO_OK) return status;
  gli_trust read = {.silent = security == GLI_SECURITY_OFF};
  if (!read.silent) {
    status = gli_secret_read(given, given_bytes, &secret, error);
    if (status != GLOO_OK) return status;
    if (secret.n_bytes == 0 && told != NULL) secret = *told;
    status = trust_from_secret(&secret, security == GLI_SECURITY_REQUIRE, &read,
                               error);
    gli_secret_release(&secret);
  }
  if (status == GLOO_OK) *trust = read;
  gli_wipe(&read, sizeof read);
  return status;
}

gloo_status gli_trust_read(const void *given, size_t given_bytes,
                           gli_trust *trust, gloo_error *error) {
  return gli_trust_read_told(given, given_bytes, NULL, trust, error);
}

gloo_status gli_trust_check(const void *given, size_t given_bytes,
                            const gli_secret *told, gloo_error *error) {
  gli_trust trust;
  gloo_status status =
      gli_trust_read_told(given, given_bytes, told, &trust, error);
  if (status == GLOO_OK) gli_trust_release(&trust);
  return status;
}

void gli_trust_release(gli_trust *trust) {
  gli_wipe(trust, sizeof *trust);
}

/* ---- derived keys -------------------------------------------------------- */

gloo_status gli_trust_store_key(const gli_trust *trust, const char *job,
                                uint64_t epoch, gli_key *key,
                                gloo_error *error) {
  uint8_t number[8];
  gli_put_u64(number, epoch);
  const gli_part parts[] = {{job, strlen(job)}, {number, sizeof number}};
  return gli_key_derive(&trust->key, "store", parts, 2, key, error);
}

gloo_status gli_trust_mark(const gli_trust *trust, uint32_t *mark,
                           gloo_error *error) {
  gli_key key;
  gloo_status status =
      gli_key_derive(&trust->key, "mark", NULL, 0, &key, error);
  if (status == GLOO_OK)
    *mark = gli_get_u32(key.bytes) >> (32 - GLI_TRUST_MARK_BITS);
  gli_wipe(&key, sizeof key);
  return status;
}

gloo_status gli_trust_record_key(const gli_trust *trust,
                                 const gli_trust_scope *scope, gli_key *key,
                                 gloo_error *error) {
  uint8_t numbers[16];
  gli_put_u64(numbers, scope->epoch);
  gli_put_u64(numbers + 8, (uint64_t)scope->round);
  const gli_part parts[] = {{scope->job, strlen(scope->job)},
                            {numbers, sizeof numbers},
                            {scope->number, sizeof scope->number}};
  return gli_key_derive(&trust->key, "record", parts, 3, key, error);
}

static void put_end(uint8_t to[12], gli_trust_end end) {
  gli_put_u32(to, end.rank);
  gli_put_u64(to + 4, end.context);
}

gloo_status gli_trust_pair_key(const uint8_t *job_key, gli_trust_end one,
                               gli_trust_end other, gli_key *key,
                               gloo_error *error) {
  gli_key job;
  uint8_t lower[12], upper[12];
  memcpy(job.bytes, job_key, sizeof job.bytes);
  put_end(one.rank < other.rank ? lower : upper, one);
  put_end(one.rank < other.rank ? upper : lower, other);
  const gli_part parts[] = {{lower, sizeof lower}, {upper, sizeof upper}};
  gloo_status status = gli_key_derive(&job, "pair", parts, 2, key, error);
  gli_wipe(&job, sizeof job);
  return status;
}

gli_trust_text gli_trust_differs(uint32_t self, bool self_asks,
                                 bool peer_asks) {
  gli_trust_text differs = {""};
  char *text = differs.text;
  const size_t room = sizeof differs.text;
  if (self_asks && peer_asks)
    snprintf(text, room,
             "has a different secret than rank %" PRIu32
             ": GLOO_JOB_SECRET must be the same on all ranks",
             self);
  else
    snprintf(text, room,
             "%s the job secret, which rank %" PRIu32
             " %s: set GLOO_JOB_SECRET to the same value on all ranks",
             self_asks ? "does not require" : "requires", self,
             self_asks ? "has" : "does not have");
  return differs;
}

/* ---- proofs -------------------------------------------------------------- */

/* Forms the message of one end: protocol, end, transcript. */
static gloo_status proof_tag(gli_mac *mac, const char *protocol,
                             const char *end, const gli_part *transcript,
                             size_t n_parts, uint8_t tag[GLI_TAG_BYTES],
                             gloo_error *error) {
  gli_part parts[2 + GLI_TRANSCRIPT_PARTS] = {{protocol, strlen(protocol)},
                                              {end, strlen(end)}};
  memcpy(parts + 2, transcript, n_parts * sizeof *parts);
  return gli_mac_tag(mac, parts, 2 + n_parts, tag, error);
}

gloo_status gli_proofs_compute(const gli_key *key, const char *protocol,
                               const gli_part *transcript, size_t n_parts,
                               gli_proofs *proofs, gloo_error *error) {
  gli_proofs computed;
  gli_mac *mac;
  if (n_parts > GLI_TRANSCRIPT_PARTS)
    return gli_fail(error, GLOO_ERR_INTERNAL, -1,
                    "a transcript of %zu parts, of at most %d", n_parts,
                    GLI_TRANSCRIPT_PARTS);
  gloo_status status = gli_mac_create(key, &mac, error);
  if (status != GLOO_OK) return status;
  status = proof_tag(mac, protocol, "initiator", transcript, n_parts,
                     computed.initiator, error);
  if (status == GLOO_OK)
    status = proof_tag(mac, protocol, "acceptor", transcript, n_parts,
                       computed.acceptor, error);
  gli_mac_destroy(mac);
  if (status == GLOO_OK) *proofs = computed;
  return status;
}

gloo_status gli_proofs_tls_key(const gli_key *key, const char *protocol,
                               const gli_part *transcript, size_t n_parts,
                               gli_key *tls_key, gloo_error *error) {
  char label[32];
  (void)snprintf(label, sizeof label, "%s tls", protocol);
  return gli_key_derive(key, label, transcript, n_parts, tls_key, error);
}

/* ---- without authentication ---------------------------------------------- */

void gli_trust_exposed(const gli_trust *trust, const char *what,
                       const char *where) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (trust->asks || trust->silent || atomic_flag_test_and_set(&said)) return;
  gli_log(GLOO_LOG_WARN,
          "anyone who can reach %s at %s can join this job: no job secret is "
          "set%s. Set GLOO_JOB_SECRET to the same value on all ranks (openssl "
          "rand -hex 32), or GLOO_SECURITY=off to silence this warning",
          what, where,
          gli_openssl_version() == NULL
              ? ", and this library was built without OpenSSL"
              : "");
}
