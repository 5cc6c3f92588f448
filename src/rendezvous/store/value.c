#include "rendezvous/store/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

gloo_status gli_value_copy(const void *data, size_t bytes, gloo_value *value,
                           gloo_error *error) {
  gloo_value copy = {NULL, bytes};
  if (bytes > 0) {
    copy.data = malloc(bytes);
    if (copy.data == NULL)
      return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "no memory for a value of %zu bytes", bytes);
    memcpy(copy.data, data, bytes);
  }
  *value = copy;
  return GLOO_OK;
}

void gli_value_free(gloo_value *value) {
  free(value->data);
  *value = (gloo_value){NULL, 0};
}

/* Parses a decimal int64: an optional minus sign and digits, nothing else. */
static bool parse_decimal(const gloo_value *value, int64_t *number) {
  const char *at = value->data;
  size_t left = value->bytes;
  bool negative = left > 0 && *at == '-';
  if (negative) at++, left--;
  if (left == 0 || left > 19) return false;
  uint64_t magnitude = 0; /* 19 digits fit */
  for (; left > 0; at++, left--) {
    if (*at < '0' || *at > '9') return false;
    magnitude = magnitude * 10 + (uint64_t)(*at - '0');
  }
  if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return false;
  *number = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
  return true;
}

gloo_status gli_value_add(const char *key, const gloo_value *old,
                          int64_t amount, int64_t *sum,
                          char decimal[GLI_DECIMAL_BYTES], gloo_error *error) {
  int64_t before = 0;
  if (old != NULL && !parse_decimal(old, &before))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "cannot add to key '%s': the %zu bytes it holds are not a "
                    "decimal integer of 64 bits",
                    gli_quote(key).text, old->bytes);
  if (amount > 0 ? before > INT64_MAX - amount : before < INT64_MIN - amount)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "cannot add %" PRId64 " to key '%s', which holds %" PRId64
                    ": the sum does not fit in 64 bits",
                    amount, gli_quote(key).text, before);
  *sum = before + amount;
  snprintf(decimal, GLI_DECIMAL_BYTES, "%" PRId64, *sum);
  return GLOO_OK;
}

bool gli_value_matches(const gloo_value *old, const void *expected,
                       size_t expected_bytes) {
  size_t bytes = old == NULL ? 0 : old->bytes;
  if (bytes != expected_bytes) return false;
  return bytes == 0 || memcmp(old->data, expected, bytes) == 0;
}

gloo_status gli_value_append_check(const char *key, size_t old_bytes,
                                   size_t bytes, gloo_error *error) {
  if (gli_in_bounds(old_bytes, bytes, GLOO_STORE_VALUE_MAX)) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot append %zu bytes to key '%s', which has %zu; the "
                  "limit is %zu bytes",
                  bytes, gli_quote(key).text, old_bytes, GLOO_STORE_VALUE_MAX);
}
