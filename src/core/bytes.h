/* Fixed-width integers in bytes, little endian whatever the machine is. */
#ifndef GLI_CORE_BYTES_H
#define GLI_CORE_BYTES_H

#include <stdint.h>

static inline void gli_put_u32(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}
static inline void gli_put_u64(uint8_t *at, uint64_t value) {
  for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> (8 * i));
}
static inline uint32_t gli_get_u32(const uint8_t *at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) value |= (uint32_t)at[i] << (8 * i);
  return value;
}
static inline uint64_t gli_get_u64(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

#endif
