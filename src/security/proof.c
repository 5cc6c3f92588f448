#include "security/proof.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

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
