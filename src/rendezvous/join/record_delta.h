/* Delta encoding of the records of many ranks: each is stored as its difference
 * from the one before. Records of one host differ in a few numbers. */
#ifndef GLI_RENDEZVOUS_JOIN_RECORD_DELTA_H
#define GLI_RENDEZVOUS_JOIN_RECORD_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* Returns the size limit of `n` packed records of up to `record_max` bytes. */
size_t gli_roster_bytes_max(size_t n, size_t record_max);

/* Writes n records to `out`, which has room for gli_roster_bytes_max. Returns
 * the number of bytes. */
size_t gli_roster_pack(const gloo_value *records, size_t n, uint8_t *out);

typedef enum gli_roster_result {
  GLI_ROSTER_OK,
  GLI_ROSTER_DAMAGED, /* not n records of at most record_max bytes */
  GLI_ROSTER_NO_MEMORY
} gli_roster_result;

/* Parses n records, and no trailing bytes, from `data`. On success only, the
 * caller frees their bytes with free(). */
gli_roster_result gli_roster_unpack(const uint8_t *data, size_t bytes,
                                    size_t record_max, gloo_value *records,
                                    size_t n);

#endif
