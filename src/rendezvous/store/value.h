/* Operations on single values. */
#ifndef GLI_RENDEZVOUS_STORE_VALUE_H
#define GLI_RENDEZVOUS_STORE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "gloo_c/store.h"

#define GLI_DECIMAL_BYTES 24 /* any int64 in decimal, with terminator */

/* Copies `bytes` bytes, for free(). */
gloo_status gli_value_copy(const void *data, size_t bytes, gloo_value *value,
                           gloo_error *error);

void gli_value_free(gloo_value *value);

/* Adds `amount` to the value of `key` (`old` NULL: absent, counts as 0). The
 * sum is returned as a number and in decimal. */
gloo_status gli_value_add(const char *key, const gloo_value *old,
                          int64_t amount, int64_t *sum,
                          char decimal[GLI_DECIMAL_BYTES], gloo_error *error);

/* Returns true if `old` (NULL: absent) equals `expected`, as compare-and-set
 * defines it. */
bool gli_value_matches(const gloo_value *old, const void *expected,
                       size_t expected_bytes);

/* Fails if `bytes` more bytes would exceed the limit on the value of `key`. */
gloo_status gli_value_append_check(const char *key, size_t old_bytes,
                                   size_t bytes, gloo_error *error);

#endif
