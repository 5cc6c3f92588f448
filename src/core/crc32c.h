/* CRC32C (Castagnoli 1993; RFC 3720 appendix B.4). In messages of up to 256 MiB
 * it detects all errors of one to three bits and all single bursts of up to 32
 * bits; of other errors it misses one in 2^32. */
#ifndef GLI_CORE_CRC32C_H
#define GLI_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of the data that `before` covers (0 for none), followed
 * by `bytes` more. Any thread. */
uint32_t gli_crc32c(uint32_t before, const void *data, size_t bytes);

/* Returns implementation `i`, or NULL beyond the last. The first is the best
 * for this processor, and the last works on any. */
typedef struct gli_crc32c_way {
  const char *name;
  uint32_t (*compute)(uint32_t before, const void *data, size_t bytes);
} gli_crc32c_way;
const gli_crc32c_way *gli_crc32c_way_at(size_t i);

#endif
