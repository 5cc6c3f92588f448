/* Choices of algorithms: GLOO_ALGORITHM, and after a byte of 0 a tuning
 * file. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/tuning.h"
#include "fuzz.h"

static void find_some(const gli_tuning *tuning) {
  static const gli_collective collectives[] = {GLI_ALLREDUCE, GLI_BROADCAST,
                                               GLI_ALLTOALL};
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
    for (int shift = 0; shift < 40; shift += 8) {
      const gli_plan_params params = {.collective = collectives[i],
                                      .size = 4,
                                      .count = (uint64_t)1 << shift,
                                      .elem_bytes = 4};
      (void)gli_tuning_find(tuning, &params);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  const uint8_t *end = bytes > 0 ? memchr(data, 0, bytes) : NULL;
  size_t first = end != NULL ? (size_t)(end - data) : bytes;
  fuzz_input words = {data, first};
  fuzz_input rest = {data + first, bytes - first};
  if (end != NULL) (void)fuzz_take_u8(&rest);
  char *variable = fuzz_text(&words), *file = fuzz_text(&rest);
  const gli_tuning_text texts[] = {{"GLOO_ALGORITHM", variable, true},
                                   {"a file", file, false}};
  gli_tuning *tuning = NULL;
  gloo_error error;
  gloo_status status = gli_tuning_parse(texts, 2, &tuning, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK && tuning != NULL) find_some(tuning);
  if (status == GLOO_OK) free(tuning);
  free(variable);
  free(file);
  return 0;
}
