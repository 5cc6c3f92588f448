/* Both ends of a ring, in one thread. */
#ifndef TESTS_TRANSPORT_SHM_RING_H
#define TESTS_TRANSPORT_SHM_RING_H

#include "ends.h"
#include "transport_shm/shm_ring.h"

typedef struct ring {
  gli_shm_out out;
  gli_shm_in in;
} ring;

static inline uint64_t next_random(
    uint64_t *state) { /* splitmix64, Steele 2014 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static inline gli_header header_of(uint64_t length, uint64_t number) {
  return (gli_header){.type = GLI_MESSAGE_DATA,
                      .tag = 7,
                      .slot = (uint32_t)number,
                      .operation = number * 3,
                      .length = length};
}

#endif
