#include "core/siphash.h"

#include "core/bytes.h"

typedef struct siphash_state {
  uint64_t v[4];
} siphash_state;

static uint64_t siphash_rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static void siphash_rounds(siphash_state *s, int n) {
  uint64_t *v = s->v;
  for (int i = 0; i < n; i++) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = siphash_rotate(v[1], 13) ^ v[0];
    v[3] = siphash_rotate(v[3], 16) ^ v[2];
    v[0] = siphash_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = siphash_rotate(v[1], 17) ^ v[2];
    v[3] = siphash_rotate(v[3], 21) ^ v[0];
    v[2] = siphash_rotate(v[2], 32);
  }
}

static void siphash_take(siphash_state *s, uint64_t word) {
  s->v[3] ^= word;
  siphash_rounds(s, 2);
  s->v[0] ^= word;
}

uint64_t gli_siphash(const gli_siphash_key *key, const void *data,
                     size_t bytes) {
  const uint8_t *at = data;
  uint64_t k0 = gli_get_u64(key->bytes), k1 = gli_get_u64(key->bytes + 8);
  uint64_t last = (uint64_t)bytes << 56;
  siphash_state s = {
      {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
       k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)}};
  for (; bytes >= 8; at += 8, bytes -= 8) siphash_take(&s, gli_get_u64(at));
  for (size_t i = 0; i < bytes; i++) last |= (uint64_t)at[i] << (8 * i);
  siphash_take(&s, last);
  s.v[2] ^= 0xff;
  siphash_rounds(&s, 4);
  return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}
