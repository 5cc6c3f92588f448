/* The header of a message, as the transports read it. */
#include <string.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "fuzz.h"
#include "transport/header.h"

enum { SUM_AT = 56 };

/* Sets the right checksum if the input selects that; otherwise the code behind
 * the check would never run. */
static void make_sum_right(uint8_t bytes[GLI_HEADER_BYTES]) {
  uint32_t sum = gli_crc32c(0, bytes, SUM_AT);
  sum = gli_crc32c(sum, bytes + SUM_AT + 4, GLI_HEADER_BYTES - SUM_AT - 4);
  gli_put_u32(bytes + SUM_AT, sum);
}

static void check_header(const gli_header *header) {
  fuzz_check(gli_header_valid(header), "a header that was read is a valid one");
  fuzz_check(gli_header_is(header, header), "it is the one that it is");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  uint8_t bytes[GLI_HEADER_BYTES], again[GLI_HEADER_BYTES];
  gli_header header;
  uint32_t sum;
  bool right = (fuzz_take_u8(&input) & 1) != 0;
  fuzz_take_bytes(&input, bytes, sizeof bytes);
  if (right) make_sum_right(bytes);
  bool plain = gli_header_decode(bytes, &header);
  if (plain) {
    check_header(&header);
    gli_header_encode(&header, again);
    fuzz_check(memcmp(bytes, again, sizeof again) == 0,
               "what was read is written the same");
  }
  if (!gli_header_decode_checked(bytes, &header, &sum)) return 0;
  fuzz_check(!plain, "it is either with checksums or without");
  check_header(&header);
  gli_header_encode_checked(&header, sum, again);
  fuzz_check(memcmp(bytes, again, sizeof again) == 0,
             "what was read is written the same");
  return 0;
}
