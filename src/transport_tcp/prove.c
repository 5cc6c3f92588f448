#include "transport_tcp/prove.h"

gloo_status gli_tcp_prove_tls_key(const gli_key *key,
                                  const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                  gli_key *tls_key, gloo_error *error) {
  const gli_part part = {hello, GLI_TCP_HELLO_BYTES};
  return gli_key_derive(key, "tcp tls", &part, 1, tls_key, error);
}

gloo_status gli_tcp_prove_tags(const gli_key *key,
                               const uint8_t hello[GLI_TCP_HELLO_BYTES],
                               const uint8_t nonce[GLI_TCP_PROVE_NONCE_BYTES],
                               gli_tcp_tags *tags, gloo_error *error) {
  gli_part parts[] = {{"tcp A", 5},
                      {hello, GLI_TCP_HELLO_BYTES},
                      {nonce, GLI_TCP_PROVE_NONCE_BYTES}};
  gli_mac *mac;
  gloo_status status = gli_mac_create(key, &mac, error);
  if (status != GLOO_OK) return status;
  status = gli_mac_tag(mac, parts, 3, tags->of_acceptor, error);
  parts[0].data = "tcp I";
  if (status == GLOO_OK)
    status = gli_mac_tag(mac, parts, 3, tags->of_initiator, error);
  gli_mac_destroy(mac);
  return status;
}
