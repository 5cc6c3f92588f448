/* A record is its length (4 bytes, little endian), followed by runs until it is
 * complete. A run is the number of bytes that equal those of the previous
 * record (1 byte), the number of bytes that follow (1 byte), and these bytes.
 * Beyond its end the previous record counts as zeros. */
#include "rendezvous/join/record_delta.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"

enum { LENGTH_BYTES = 4, RUN_BYTES = 2, RUN_MAX = 255 };

/* Number of equal bytes worth a new run; fewer cost less than its header. */
enum { EQUAL_MIN = 3 };

size_t gli_roster_bytes_max(size_t n, size_t record_max) {
  /* EQUAL_MIN equal bytes follow a run shorter than that, and its header costs
   * no more than they would. */
  size_t runs = record_max / (RUN_MAX - EQUAL_MIN) + 1;
  return n * (LENGTH_BYTES + record_max + runs * RUN_BYTES);
}

static uint8_t byte_at(const gloo_value *record, size_t at) {
  return at < record->bytes ? ((const uint8_t *)record->data)[at] : 0;
}

/* Counts the bytes from `at` on that equal those of `before`, up to RUN_MAX. */
static size_t count_equal(const gloo_value *record, const gloo_value *before,
                          size_t at) {
  size_t n = 0;
  while (at + n < record->bytes && n < RUN_MAX &&
         byte_at(record, at + n) == byte_at(before, at + n))
    n++;
  return n;
}

/* Counts the bytes of a run from `at` on; EQUAL_MIN equal bytes end it. */
static size_t count_different(const gloo_value *record,
                              const gloo_value *before, size_t at) {
  size_t n = 0, equal = 0;
  while (at + n < record->bytes && n < RUN_MAX && equal < EQUAL_MIN) {
    bool same = byte_at(record, at + n) == byte_at(before, at + n);
    equal = same ? equal + 1 : 0;
    n++;
  }
  return n - equal;
}

size_t gli_roster_pack(const gloo_value *records, size_t n, uint8_t *out) {
  static const gloo_value nothing;
  const gloo_value *before = &nothing;
  uint8_t *to = out;
  for (size_t i = 0; i < n; i++) {
    const gloo_value *record = &records[i];
    gli_put_u32(to, (uint32_t)record->bytes);
    to += LENGTH_BYTES;
    for (size_t at = 0; at < record->bytes;) {
      size_t equal = count_equal(record, before, at);
      size_t taken = count_different(record, before, at + equal);
      *to++ = (uint8_t)equal;
      *to++ = (uint8_t)taken;
      at += equal;
      for (size_t end = at + taken; at < end; at++) *to++ = byte_at(record, at);
    }
    before = record;
  }
  return (size_t)(to - out);
}

/* ---- reading ------------------------------------------------------------- */

typedef struct roster_reader {
  const uint8_t *at;
  size_t left;
} roster_reader;

static bool read_runs(roster_reader *r, const gloo_value *before, uint8_t *out,
                      size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    if (r->left < RUN_BYTES) return false;
    size_t equal = r->at[0], taken = r->at[1];
    r->at += RUN_BYTES;
    r->left -= RUN_BYTES;
    if (equal + taken == 0 || equal + taken > bytes - done || taken > r->left)
      return false;
    for (size_t end = done + equal; done < end; done++)
      out[done] = byte_at(before, done);
    memcpy(out + done, r->at, taken);
    done += taken;
    r->at += taken;
    r->left -= taken;
  }
  return true;
}

static gli_roster_result read_record(roster_reader *r, size_t record_max,
                                     const gloo_value *before,
                                     gloo_value *record) {
  if (r->left < LENGTH_BYTES) return GLI_ROSTER_DAMAGED;
  size_t bytes = gli_get_u32(r->at);
  r->at += LENGTH_BYTES;
  r->left -= LENGTH_BYTES;
  if (bytes > record_max) return GLI_ROSTER_DAMAGED;
  uint8_t *data = malloc(bytes > 0 ? bytes : 1);
  if (data == NULL) return GLI_ROSTER_NO_MEMORY;
  *record = (gloo_value){data, bytes};
  return read_runs(r, before, data, bytes) ? GLI_ROSTER_OK : GLI_ROSTER_DAMAGED;
}

gli_roster_result gli_roster_unpack(const uint8_t *data, size_t bytes,
                                    size_t record_max, gloo_value *records,
                                    size_t n) {
  static const gloo_value nothing;
  roster_reader r = {data, bytes};
  gli_roster_result result = GLI_ROSTER_OK;
  memset(records, 0, n * sizeof *records);
  for (size_t i = 0; i < n && result == GLI_ROSTER_OK; i++)
    result = read_record(&r, record_max, i > 0 ? &records[i - 1] : &nothing,
                         &records[i]);
  if (result == GLI_ROSTER_OK && r.left > 0) result = GLI_ROSTER_DAMAGED;
  if (result == GLI_ROSTER_OK) return result;
  for (size_t i = 0; i < n; i++) {
    free(records[i].data);
    records[i] = nothing;
  }
  return result;
}
