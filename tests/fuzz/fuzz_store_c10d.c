/* The client of a store that PyTorch serves. The server sends the whole input,
 * after the right greeting if the first byte is odd. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/store.h"
#include "rendezvous/store/store_url.h"
#include "store_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char greeting[] = "oolg";
  fuzz_input input = {data, bytes};
  size_t greeted = (fuzz_take_u8(&input) & 1) != 0 ? strlen(greeting) : 0;
  uint8_t *all = malloc(greeted + input.left + 1);
  gloo_store *store;
  gloo_error error;
  fuzz_check(all != NULL, "there is memory");
  memcpy(all, greeting, greeted);
  if (input.left > 0) memcpy(all + greeted, input.at, input.left);
  said_by_server(all, greeted + input.left);
  gloo_status status =
      gloo_store_open("c10d://127.0.0.1:1/a/b", 1, &store, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) {
    fuzz_use_store(store);
    gloo_store_destroy(store);
  }
  free(all);
  return 0;
}
