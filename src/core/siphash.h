/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF",
 * 2012): a keyed hash. Without the key an attacker cannot construct collisions,
 * so a hash table may hold keys that strangers choose. */
#ifndef GLI_CORE_SIPHASH_H
#define GLI_CORE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct gli_siphash_key {
  uint8_t bytes[16];
} gli_siphash_key;

uint64_t gli_siphash(const gli_siphash_key *key, const void *data,
                     size_t bytes);

#endif
