/* CRC32C (Castagnoli 1993; RFC 3720 appendix B.4): of all errors of one to
 * three bits, and of one burst of up to 32, none in a message of up to 256 MiB
 * goes unnoticed, and of others one in 2^32. */
#ifndef GLI_CORE_CRC32C_H
#define GLI_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of what came before, 0 at first, and of `bytes` more. Any thread. */
uint32_t gli_crc32c(uint32_t before, const void *data, size_t bytes);

/* The ways that it is computed: the first is the best that this processor has,
 * and the last works on any. NULL beyond that. */
typedef struct gli_crc32c_way {
  const char *name;
  uint32_t (*compute)(uint32_t before, const void *data, size_t bytes);
} gli_crc32c_way;
const gli_crc32c_way *gli_crc32c_way_at(size_t i);

#endif
