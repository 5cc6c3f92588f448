/* The client of a Redis server that sends the whole input. */
#include "rendezvous/store/store_url.h"
#include "store_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  bool logs_in = (fuzz_take_u8(&input) & 1) != 0;
  gloo_store *store;
  gloo_error error;
  said_by_server(input.at, input.left);
  gloo_status status = gloo_store_open(
      logs_in ? "redis://user:password@127.0.0.1:1/a" : "redis://127.0.0.1:1/a",
      1, &store, &error);
  fuzz_check_error(status, &error);
  if (status != GLOO_OK) return 0;
  fuzz_use_store(store);
  gloo_store_destroy(store);
  return 0;
}
