/* The records of many ranks as one text of bytes: each as what differs from the
 * one before. Records of one host differ in a few numbers. */
#ifndef GLI_RENDEZVOUS_JOIN_ROSTER_H
#define GLI_RENDEZVOUS_JOIN_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/store.h"

/* The most bytes that `n` records take, each of `record_max` at most. */
size_t gli_roster_bytes_max(size_t n, size_t record_max);

/* Write n records to `out`, which has room for the most that they may take.
 * Returns the bytes. */
size_t gli_roster_pack(const gloo_value *records, size_t n, uint8_t *out);

typedef enum gli_roster_result {
  GLI_ROSTER_OK,
  GLI_ROSTER_DAMAGED, /* not n records of at most record_max bytes */
  GLI_ROSTER_NO_MEMORY
} gli_roster_result;

/* Read n records, and nothing else, from `data`; their bytes are for free(), on
 * success only. */
gli_roster_result gli_roster_unpack(const uint8_t *data, size_t bytes,
                                    size_t record_max, gloo_value *records,
                                    size_t n);

#endif
