/* Replacement for a build without OpenSSL. */
#include "core/error.h"
#include "security/keys.h"

static gloo_status keys_absent(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "this build cannot authenticate ranks: build it with OpenSSL "
                  "3 (libssl-dev on Debian; meson setup -Dopenssl=enabled)");
}

const char *gli_openssl_version(void) {
  return NULL;
}

gloo_status gli_key_extract(const void *salt, size_t salt_bytes,
                            const void *secret, size_t secret_bytes,
                            gli_key *key, gloo_error *error) {
  (void)salt;
  (void)salt_bytes;
  (void)secret;
  (void)secret_bytes;
  (void)key;
  return keys_absent(error);
}

gloo_status gli_key_expand(const gli_key *key, const void *info,
                           size_t info_bytes, void *out, size_t out_bytes,
                           gloo_error *error) {
  (void)key;
  (void)info;
  (void)info_bytes;
  (void)out;
  (void)out_bytes;
  return keys_absent(error);
}

gloo_status gli_key_derive(const gli_key *key, const char *label,
                           const gli_part *parts, size_t n_parts,
                           gli_key *derived, gloo_error *error) {
  (void)key;
  (void)label;
  (void)parts;
  (void)n_parts;
  (void)derived;
  return keys_absent(error);
}

gloo_status gli_mac_create(const gli_key *key, gli_mac **mac,
                           gloo_error *error) {
  (void)key;
  (void)mac;
  return keys_absent(error);
}

gloo_status gli_mac_tag(gli_mac *mac, const gli_part *parts, size_t n_parts,
                        uint8_t tag[GLI_TAG_BYTES], gloo_error *error) {
  (void)mac;
  (void)parts;
  (void)n_parts;
  (void)tag;
  return keys_absent(error);
}

void gli_mac_destroy(gli_mac *mac) {
  (void)mac;
}

/* Returns false: no tag can be made, so none is valid. */
bool gli_tags_equal(const uint8_t a[GLI_TAG_BYTES],
                    const uint8_t b[GLI_TAG_BYTES]) {
  (void)a;
  (void)b;
  return false;
}
