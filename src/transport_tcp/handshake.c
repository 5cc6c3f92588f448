/* hello:     0 magic  8 version  12 stream  16 streams  20 from  24 to
 *           28 sender has a secret (bit 0), its kind of TLS (above)
 *           32 key   40 zero  48 nonce
 * challenge: 0 magic  8 version  12 zero  16 nonce  32 tag
 * reply:     0 magic  8 version  12 answer  16 streams  20 zero  24 key
 * Little-endian. Magic and version are at the same place in all versions. */
#include "transport_tcp/handshake.h"

#include <string.h>

#include "core/bytes.h"
#include "transport_tcp/tcp.h"

static const uint8_t hello_magic[8] = "gloo_c>";
static const uint8_t challenge_magic[8] = "gloo_c?";
static const uint8_t reply_magic[8] = "gloo_c<";

void gli_tcp_hello_encode(const gli_tcp_hello *hello,
                          uint8_t out[GLI_TCP_HELLO_BYTES]) {
  memset(out, 0, GLI_TCP_HELLO_BYTES);
  memcpy(out, hello_magic, sizeof hello_magic);
  gli_put_u32(out + 8, hello->version);
  gli_put_u32(out + 12, hello->stream);
  gli_put_u32(out + 16, hello->streams);
  gli_put_u32(out + 20, hello->from);
  gli_put_u32(out + 24, hello->to);
  gli_put_u32(out + 28, (hello->asks ? 1 : 0) | (uint32_t)hello->tls << 1);
  gli_put_u64(out + 32, hello->key);
  memcpy(out + 48, hello->nonce, sizeof hello->nonce);
}

bool gli_tcp_hello_is_other(const uint8_t *in, size_t bytes) {
  return bytes >= 12 && memcmp(in, hello_magic, sizeof hello_magic) == 0 &&
         gli_get_u32(in + 8) != GLI_TCP_VERSION;
}

bool gli_tcp_hello_decode(const uint8_t in[GLI_TCP_HELLO_BYTES],
                          gli_tcp_hello *hello) {
  if (memcmp(in, hello_magic, sizeof hello_magic) != 0) return false;
  gli_tcp_hello got = {.version = gli_get_u32(in + 8)};
  if (got.version == GLI_TCP_VERSION) {
    uint32_t security = gli_get_u32(in + 28);
    if (security >> 1 > GLI_TLS_BY_CERTIFICATE || gli_get_u64(in + 40) != 0)
      return false;
    got.asks = (security & 1) != 0;
    got.tls = (gli_tls_kind)(security >> 1);
    memcpy(got.nonce, in + 48, sizeof got.nonce);
    got.stream = gli_get_u32(in + 12);
    got.streams = gli_get_u32(in + 16);
    got.from = gli_get_u32(in + 20);
    got.to = gli_get_u32(in + 24);
    got.key = gli_get_u64(in + 32);
    if (got.streams == 0 || got.streams > GLI_TCP_STREAMS_MAX) return false;
    if (got.stream >= got.streams || got.from == got.to) return false;
  }
  *hello = got;
  return true;
}

uint8_t gli_tcp_reply_first(void) {
  return (uint8_t)reply_magic[0];
}

void gli_tcp_challenge_encode(const gli_tcp_challenge *challenge,
                              uint8_t out[GLI_TCP_CHALLENGE_BYTES]) {
  memcpy(out, challenge_magic, sizeof challenge_magic);
  gli_put_u32(out + 8, GLI_TCP_VERSION);
  gli_put_u32(out + 12, 0);
  memcpy(out + 16, challenge->nonce, sizeof challenge->nonce);
  memcpy(out + 32, challenge->tag, sizeof challenge->tag);
}

bool gli_tcp_challenge_begins(const uint8_t in[GLI_TCP_REPLY_BYTES]) {
  return memcmp(in, challenge_magic, sizeof challenge_magic) == 0;
}

bool gli_tcp_challenge_decode(const uint8_t in[GLI_TCP_CHALLENGE_BYTES],
                              gli_tcp_challenge *challenge) {
  if (!gli_tcp_challenge_begins(in)) return false;
  if (gli_get_u32(in + 8) != GLI_TCP_VERSION || gli_get_u32(in + 12) != 0)
    return false;
  memcpy(challenge->nonce, in + 16, sizeof challenge->nonce);
  memcpy(challenge->tag, in + 32, sizeof challenge->tag);
  return true;
}

gloo_status gli_tcp_handshake_proofs(const gli_key *key,
                                     const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                     const uint8_t nonce[GLI_NONCE_BYTES],
                                     gli_proofs *proofs, gloo_error *error) {
  const gli_part transcript[] = {{hello, GLI_TCP_HELLO_BYTES},
                                 {nonce, GLI_NONCE_BYTES}};
  return gli_proofs_compute(key, "tcp", transcript, 2, proofs, error);
}

gloo_status gli_tcp_handshake_tls_key(const gli_key *key,
                                      const uint8_t hello[GLI_TCP_HELLO_BYTES],
                                      gli_key *tls_key, gloo_error *error) {
  const gli_part transcript = {hello, GLI_TCP_HELLO_BYTES};
  return gli_proofs_tls_key(key, "tcp", &transcript, 1, tls_key, error);
}

void gli_tcp_reply_encode(const gli_tcp_reply *reply,
                          uint8_t out[GLI_TCP_REPLY_BYTES]) {
  memcpy(out, reply_magic, sizeof reply_magic);
  gli_put_u32(out + 8, reply->version);
  gli_put_u32(out + 12, reply->answer);
  gli_put_u32(out + 16, reply->streams);
  gli_put_u32(out + 20, 0);
  gli_put_u64(out + 24, reply->key);
}

bool gli_tcp_reply_decode(const uint8_t in[GLI_TCP_REPLY_BYTES],
                          gli_tcp_reply *reply) {
  if (memcmp(in, reply_magic, sizeof reply_magic) != 0) return false;
  gli_tcp_reply got = {
      .version = gli_get_u32(in + 8),
      .answer = gli_get_u32(in + 12),
      .streams = gli_get_u32(in + 16),
      .key = gli_get_u64(in + 24),
  };
  if (got.answer == 0 || got.answer >= GLI_TCP_ANSWERS) return false;
  *reply = got;
  return true;
}
