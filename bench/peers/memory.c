/* gloo_alloc for a peer, which has no special memory. */
#include <stdlib.h>

#include "core/error.h"
#include "gloo_c/gloo_c.h"

gloo_status gloo_alloc(size_t bytes, void **memory, gloo_error *error) {
  void *got = NULL;
  if (posix_memalign(&got, 4096, bytes > 0 ? bytes : 1) != 0) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory");
  }
  *memory = got;
  return GLOO_OK;
}

void gloo_free(void *memory) {
  free(memory);
}
