/* Records of many ranks in one: the data that a rank forwards of other ranks'
 * records. The first byte gives the expected number of records. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rendezvous/join/record_delta.h"

enum { RECORDS_MAX = 15, RECORD_MAX = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  gloo_value read[RECORDS_MAX], again[RECORDS_MAX];
  size_t n = 1 + fuzz_take_u8(&input) % RECORDS_MAX;
  if (gli_roster_unpack(input.at, input.left, RECORD_MAX, read, n) !=
      GLI_ROSTER_OK)
    return 0;
  size_t most = gli_roster_bytes_max(n, RECORD_MAX);
  uint8_t *packed = malloc(most);
  fuzz_check(packed != NULL, "there is memory");
  size_t used = gli_roster_pack(read, n, packed);
  fuzz_check(used <= most, "records take what they may take");
  fuzz_check(
      gli_roster_unpack(packed, used, RECORD_MAX, again, n) == GLI_ROSTER_OK,
      "what is packed can be read");
  for (size_t i = 0; i < n; i++) {
    fuzz_check(read[i].bytes <= RECORD_MAX && read[i].bytes == again[i].bytes &&
                   memcmp(read[i].data, again[i].data, read[i].bytes) == 0,
               "and is the same");
    free(read[i].data);
    free(again[i].data);
  }
  free(packed);
  return 0;
}
