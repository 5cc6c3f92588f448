#include "security/keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "security/openssl.h"

#define EXPAND_MAX (255 * GLI_KEY_BYTES)
#define LENGTH_BYTES ((size_t)8)
/* First byte of the input of a derivation, and of a tag. */
#define IS_KEY 'K'
#define IS_TAG 'T'

/* ---- keys ---------------------------------------------------------------- */

static OSSL_PARAM keys_sha256(void) {
  static char name[] = OSSL_DIGEST_NAME_SHA2_256;
  return OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, name, 0);
}

static OSSL_PARAM keys_bytes(const char *name, const void *data, size_t bytes) {
  return OSSL_PARAM_construct_octet_string(
      name, bytes > 0 ? (void *)data : (void *)"", bytes);
}

/* Runs HKDF. `with` is the salt or the info. */
static bool keys_hkdf(int mode, OSSL_PARAM key, OSSL_PARAM with, void *out,
                      size_t out_bytes) {
  EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
  EVP_KDF_CTX *context = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode), keys_sha256(), key,
      with, OSSL_PARAM_construct_end()};
  bool good = context != NULL &&
              EVP_KDF_derive(context, out, out_bytes, parameters) == 1;
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return good;
}

gloo_status gli_key_extract(const void *salt, size_t salt_bytes,
                            const void *secret, size_t secret_bytes,
                            gli_key *key, gloo_error *error) {
  gli_key made = {{0}};
  gloo_status status = gli_openssl_begin(error);
  if (status != GLOO_OK) return status;
  bool good = keys_hkdf(EVP_KDF_HKDF_MODE_EXTRACT_ONLY,
                        keys_bytes(OSSL_KDF_PARAM_KEY, secret, secret_bytes),
                        keys_bytes(OSSL_KDF_PARAM_SALT, salt, salt_bytes),
                        made.bytes, sizeof made.bytes);
  if (good) *key = made;
  gli_wipe(&made, sizeof made);
  status = gli_openssl_made(good, "a key from the job secret", error);
  gli_openssl_end();
  return status;
}

gloo_status gli_key_expand(const gli_key *key, const void *info,
                           size_t info_bytes, void *out, size_t out_bytes,
                           gloo_error *error) {
  if (info_bytes > GLI_INFO_MAX || out_bytes > EXPAND_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "cannot derive %zu bytes from a key and %zu bytes; the "
                    "limits are %d and %d",
                    out_bytes, info_bytes, EXPAND_MAX, GLI_INFO_MAX);
  gloo_status status = gli_openssl_begin(error);
  if (status != GLOO_OK) return status;
  bool good = keys_hkdf(
      EVP_KDF_HKDF_MODE_EXPAND_ONLY,
      keys_bytes(OSSL_KDF_PARAM_KEY, key->bytes, sizeof key->bytes),
      keys_bytes(OSSL_KDF_PARAM_INFO, info, info_bytes), out, out_bytes);
  status = gli_openssl_made(good, "a derived key", error);
  gli_openssl_end();
  return status;
}

/* Appends data to `info` and advances `used`. Returns false if out of room. */
static bool info_add(uint8_t info[GLI_INFO_MAX], size_t *used, const void *data,
                     size_t bytes) {
  size_t room = GLI_INFO_MAX - *used;
  if (room < LENGTH_BYTES || bytes > room - LENGTH_BYTES) return false;
  gli_put_u64(info + *used, bytes);
  if (bytes > 0) memcpy(info + *used + LENGTH_BYTES, data, bytes);
  *used += LENGTH_BYTES + bytes;
  return true;
}

gloo_status gli_key_derive(const gli_key *key, const char *label,
                           const gli_part *parts, size_t n_parts,
                           gli_key *derived, gloo_error *error) {
  uint8_t info[GLI_INFO_MAX] = {IS_KEY};
  size_t used = 1;
  bool fits = info_add(info, &used, label, strlen(label));
  for (size_t i = 0; i < n_parts && fits; i++)
    fits = info_add(info, &used, parts[i].data, parts[i].bytes);
  if (!fits)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "cannot derive the key '%.40s' from more than %d bytes",
                    label, GLI_INFO_MAX);
  gli_key made = {{0}};
  gloo_status status =
      gli_key_expand(key, info, used, made.bytes, sizeof made.bytes, error);
  if (status == GLOO_OK) *derived = made;
  gli_wipe(&made, sizeof made);
  return status;
}

/* ---- tags ---------------------------------------------------------------- */

struct gli_mac {
  EVP_MAC_CTX *context;
};

static EVP_MAC_CTX *mac_open(const gli_key *key) {
  EVP_MAC *hmac = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
  EVP_MAC_CTX *context = hmac != NULL ? EVP_MAC_CTX_new(hmac) : NULL;
  EVP_MAC_free(hmac);
  const OSSL_PARAM parameters[] = {keys_sha256(), OSSL_PARAM_construct_end()};
  if (context != NULL &&
      EVP_MAC_init(context, key->bytes, sizeof key->bytes, parameters) != 1) {
    EVP_MAC_CTX_free(context);
    context = NULL;
  }
  return context;
}

gloo_status gli_mac_create(const gli_key *key, gli_mac **mac,
                           gloo_error *error) {
  gli_mac *made = malloc(sizeof *made);
  if (made == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a key");
  gloo_status status = gli_openssl_begin(error);
  if (status == GLOO_OK) {
    made->context = mac_open(key);
    status = gli_openssl_made(made->context != NULL, "a key for tags", error);
    gli_openssl_end();
  }
  if (status != GLOO_OK) {
    free(made);
    return status;
  }
  *mac = made;
  return GLOO_OK;
}

static bool mac_add(EVP_MAC_CTX *context, const gli_part *part) {
  uint8_t length[LENGTH_BYTES];
  gli_put_u64(length, part->bytes);
  return EVP_MAC_update(context, length, sizeof length) == 1 &&
         (part->bytes == 0 ||
          EVP_MAC_update(context, part->data, part->bytes) == 1);
}

/* Computes a tag. Init without a key reuses the last one, which saves two
 * blocks of SHA-256. */
gloo_status gli_mac_tag(gli_mac *mac, const gli_part *parts, size_t n_parts,
                        uint8_t tag[GLI_TAG_BYTES], gloo_error *error) {
  static const uint8_t is_tag = IS_TAG;
  uint8_t whole[GLI_KEY_BYTES];
  size_t bytes = 0;
  (void)ERR_set_mark();
  bool good = EVP_MAC_init(mac->context, NULL, 0, NULL) == 1 &&
              EVP_MAC_update(mac->context, &is_tag, 1) == 1;
  for (size_t i = 0; i < n_parts && good; i++)
    good = mac_add(mac->context, &parts[i]);
  good = good &&
         EVP_MAC_final(mac->context, whole, &bytes, sizeof whole) == 1 &&
         bytes == sizeof whole;
  if (good) memcpy(tag, whole, GLI_TAG_BYTES);
  gloo_status status = gli_openssl_made(good, "a tag", error);
  (void)ERR_pop_to_mark();
  return status;
}

void gli_mac_destroy(gli_mac *mac) {
  if (mac == NULL) return;
  EVP_MAC_CTX_free(mac->context);
  free(mac);
}

bool gli_tags_equal(const uint8_t a[GLI_TAG_BYTES],
                    const uint8_t b[GLI_TAG_BYTES]) {
  return CRYPTO_memcmp(a, b, GLI_TAG_BYTES) == 0;
}
