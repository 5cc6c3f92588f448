/* Keys that are derived from a job's secret, and tags that prove knowledge of a
 * key: HKDF (RFC 5869) and HMAC (RFC 2104) with SHA-256, computed by OpenSSL.
 * Only the order of the input bytes is defined here.
 *
 * Without OpenSSL (keys_absent.c) all functions that make a key or a tag fail
 * with GLOO_ERR_UNSUPPORTED, and no tag is equal to another.
 *
 * Random bytes, for secrets and nonces, are those of gli_random
 * (core/random.h), from the kernel, so there is no generator whose state a
 * forked child could share with its parent.
 *
 * Threads: any, but a gli_mac belongs to one thread at a time. Forks: a child
 * may use its parent's keys, and make its own. Memory: only gli_mac_create
 * makes an object to be released; owners wipe their keys. */
#ifndef GLI_SECURITY_KEYS_H
#define GLI_SECURITY_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/random.h"
#include "gloo_c/status.h"

enum { GLI_KEY_BYTES = 32, GLI_TAG_BYTES = 16 };

typedef struct gli_key {
  uint8_t bytes[GLI_KEY_BYTES];
} gli_key;

/* A message is a list of parts. Each part is preceded by its length, so no two
 * lists have the same encoding: neither "ab", "c" and "a", "bc", nor "a" and
 * "a", "". */
typedef struct gli_part {
  const void *data; /* may be NULL if there are no bytes */
  size_t bytes;
} gli_part;

/* Returns the version of OpenSSL, such as "3.0.19"; NULL in a build without. */
const char *gli_openssl_version(void);

/* ---- keys ---------------------------------------------------------------- */

/* HKDF-Extract: derives a key from secret input that is not uniformly random.
 * The salt may be public. */
gloo_status gli_key_extract(const void *salt, size_t salt_bytes,
                            const void *secret, size_t secret_bytes,
                            gli_key *key, gloo_error *error);

/* HKDF-Expand: derives up to 255 * 32 bytes from the key and `info` (up to
 * GLI_INFO_MAX). */
gloo_status gli_key_expand(const gli_key *key, const void *info,
                           size_t info_bytes, void *out, size_t out_bytes,
                           gloo_error *error);

/* The limit of every OpenSSL 3. */
enum { GLI_INFO_MAX = 2048 };

/* Derives another key by HKDF-Expand. It reveals neither `key` nor the keys of
 * other labels or parts. The label names the purpose. Label and parts, with 8
 * bytes more each, have at most GLI_INFO_MAX - 1 bytes (GLOO_ERR_INVALID).
 * `derived` is set on success only, and may be `key`. */
gloo_status gli_key_derive(const gli_key *key, const char *label,
                           const gli_part *parts, size_t n_parts,
                           gli_key *derived, gloo_error *error);

/* ---- tags ---------------------------------------------------------------- */

/* A key prepared for any number of tags: HMAC-SHA256, truncated to 16 bytes.
 * Inputs of tags and of derivations differ, so the same gli_key may serve for
 * both. */
typedef struct gli_mac gli_mac;

gloo_status gli_mac_create(const gli_key *key, gli_mac **mac,
                           gloo_error *error);
/* Computes a tag, without locks and with no allocations but OpenSSL's. `tag` is
 * set on success only. */
gloo_status gli_mac_tag(gli_mac *mac, const gli_part *parts, size_t n_parts,
                        uint8_t tag[GLI_TAG_BYTES], gloo_error *error);
/* Accepts NULL. */
void gli_mac_destroy(gli_mac *mac);

/* Compares in constant time. */
bool gli_tags_equal(const uint8_t a[GLI_TAG_BYTES],
                    const uint8_t b[GLI_TAG_BYTES]);

#endif
