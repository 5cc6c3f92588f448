#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_METHOD */
#include "tls_keys.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "net/tls_context.h"
#include "security/openssl.h"
#include "tls_wire.h"

enum {
  SECRET_BYTES = 32, /* of SHA-256 */
  KEY_BYTES = 16,    /* of AES-128-GCM */
  NONCE_BYTES = 12,
  TAG_BYTES = 16,
  HEAD_BYTES = 5
};

/* ---- random numbers ------------------------------------------------------ */

static uint64_t keys_drawn;

static int keys_draw(unsigned char *to, int bytes) {
  for (int i = 0; i < bytes; i++) {
    keys_drawn ^= keys_drawn << 13;
    keys_drawn ^= keys_drawn >> 7;
    keys_drawn ^= keys_drawn << 17;
    to[i] = (unsigned char)(keys_drawn >> 32);
  }
  return 1;
}

static int keys_may_draw(void) {
  return 1;
}

void keys_draw_again(void) {
  static const RAND_METHOD method = {
      .bytes = keys_draw, .pseudorand = keys_draw, .status = keys_may_draw};
  keys_drawn = UINT64_C(88172645463325252);
  fuzz_check(RAND_set_rand_method(&method) == 1, "numbers can be the same");
}

/* ---- secrets ------------------------------------------------------------- */

typedef struct keys_end {
  const gli_tls *tls;
  bool known, next_known;
  uint8_t secret[SECRET_BYTES]; /* secret of the current keys */
  uint8_t next[SECRET_BYTES];   /* ... of the keys after its part of the
                                   handshake */
  uint64_t sealed;              /* records sealed with the current keys */
  uint8_t head[HEAD_BYTES];     /* header of the record being sent */
  size_t head_bytes, left;
} keys_end;

static keys_end keys_ends[ENDS];

static bool keys_read_secret(const char *line, const char *label,
                             uint8_t secret[SECRET_BYTES]) {
  size_t bytes = strlen(label);
  if (strncmp(line, label, bytes) != 0 || line[bytes] != ' ') return false;
  const char *digits = strrchr(line, ' ') + 1;
  fuzz_check(strlen(digits) == (size_t)2 * SECRET_BYTES,
             "a secret is one of SHA-256");
  for (int i = 0; i < SECRET_BYTES; i++) {
    unsigned byte;
    fuzz_check(sscanf(digits + (ptrdiff_t)2 * i, "%2x", &byte) == 1,
               "it has figures");
    secret[i] = (uint8_t)byte;
  }
  return true;
}

static void keys_hear(const SSL *ssl, const char *line) {
  static const char *const now[ENDS] = {"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
                                        "SERVER_HANDSHAKE_TRAFFIC_SECRET"};
  static const char *const next[ENDS] = {"CLIENT_TRAFFIC_SECRET_0",
                                         "SERVER_TRAFFIC_SECRET_0"};
  for (int e = 0; e < ENDS; e++) {
    keys_end *end = &keys_ends[e];
    if (SSL_get_app_data(ssl) != end->tls) continue;
    if (keys_read_secret(line, now[e], end->secret)) {
      end->known = true;
      end->sealed = 0;
    }
    if (keys_read_secret(line, next[e], end->next)) end->next_known = true;
  }
}

void keys_listen(const gli_tls_settings *settings) {
  gloo_error error;
  fuzz_check(gli_openssl_begin(&error) == GLOO_OK, error.message);
  SSL *ssl = gli_tls_context_connection(settings);
  fuzz_check(ssl != NULL, "there is memory");
  SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(ssl), keys_hear);
  SSL_free(ssl);
  gli_openssl_end();
}

void keys_begin(int e, const gli_tls *tls) {
  keys_ends[e] = (keys_end){.tls = tls};
}

/* Switches the keys. Each end sends its part of the handshake, and changes its
 * key, in the call in which it learns the next one. */
void keys_go_on(int e) {
  keys_end *end = &keys_ends[e];
  if (!end->next_known) return;
  memcpy(end->secret, end->next, sizeof end->secret);
  end->next_known = false;
  end->sealed = 0;
}

void keys_see_sent(int e, const void *data, size_t bytes) {
  keys_end *end = &keys_ends[e];
  const uint8_t *at = data;
  while (bytes > 0) {
    size_t n = end->left < bytes ? end->left : bytes;
    if (end->left == 0) {
      n = 1;
      end->head[end->head_bytes++] = *at;
    } else {
      end->left -= n;
    }
    if (end->head_bytes == HEAD_BYTES) {
      end->head_bytes = 0;
      end->left = (size_t)(end->head[3] << 8 | end->head[4]);
      /* Every sealed record has that type. */
      end->sealed += end->head[0] == KEYS_SAYING;
    }
    at += n;
    bytes -= n;
  }
}

/* ---- records (RFC 8446, sections 5.2, 5.3, and 7.1) ---------------------- */

static void keys_expand(const uint8_t secret[SECRET_BYTES], const char *label,
                        uint8_t *to, size_t bytes) {
  uint8_t info[32], made[EVP_MAX_MD_SIZE];
  size_t n = strlen(label);
  unsigned made_bytes;
  info[0] = 0;
  info[1] = (uint8_t)bytes;
  info[2] = (uint8_t)n;
  memcpy(info + 3, label, n);
  info[3 + n] = 0;
  info[4 + n] = 1;
  fuzz_check(HMAC(EVP_sha256(), secret, SECRET_BYTES, info, 5 + n, made,
                  &made_bytes) != NULL,
             "a key can be made");
  memcpy(to, made, bytes);
}

size_t keys_seal(int e, uint8_t type, const fuzz_input *content,
                 uint8_t record[KEYS_RECORD_MAX]) {
  keys_end *end = &keys_ends[e];
  uint8_t key[KEY_BYTES], nonce[NONCE_BYTES], inner[KEYS_CONTENT_MAX + 1];
  size_t n = content->left + 1, sealed = n + TAG_BYTES;
  int done;
  if (!end->known || end->head_bytes > 0 || end->left > 0) return 0;
  if (content->left > 0) memcpy(inner, content->at, content->left);
  inner[content->left] = type;
  keys_expand(end->secret, "tls13 key", key, sizeof key);
  keys_expand(end->secret, "tls13 iv", nonce, sizeof nonce);
  for (int i = 0; i < 8; i++)
    nonce[NONCE_BYTES - 1 - i] ^= (uint8_t)(end->sealed >> 8 * i);
  record[0] = KEYS_SAYING;
  record[1] = record[2] = 3;
  record[3] = (uint8_t)(sealed >> 8);
  record[4] = (uint8_t)sealed;
  EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
  fuzz_check(
      cipher != NULL &&
          EVP_EncryptInit_ex(cipher, EVP_aes_128_gcm(), NULL, key, nonce) ==
              1 &&
          EVP_EncryptUpdate(cipher, NULL, &done, record, HEAD_BYTES) == 1 &&
          EVP_EncryptUpdate(cipher, record + HEAD_BYTES, &done, inner,
                            (int)n) == 1 &&
          EVP_EncryptFinal_ex(cipher, record + HEAD_BYTES + n, &done) == 1 &&
          EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES,
                              record + HEAD_BYTES + n) == 1,
      "a record can be made");
  EVP_CIPHER_CTX_free(cipher);
  end->sealed++;
  return HEAD_BYTES + sealed;
}
