/* Replacement on Windows, where file stores are not written yet. */
#include "core/error.h"
#include "gloo_c/store.h"

gloo_status gloo_store_file_create(const gloo_store_file_options *given,
                                   gloo_store **store, gloo_error *error) {
  (void)given;
  (void)store;
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "file stores are not available on Windows: use a TCP store "
                  "(tcp://HOST:PORT)");
}
