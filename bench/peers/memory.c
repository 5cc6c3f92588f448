/* Memory for a peer, which has neither that of gloo_alloc nor of GPUs. */
#include <stdlib.h>

#include "core/error.h"
#include "gloo_c/gloo_c.h"
#include "memory/gpu.h"

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

/* ---- GPU memory ---------------------------------------------------------- */

static gloo_status no_gpu(gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "a peer is measured with memory of the host");
}

gloo_status gli_gpu_allocate(const char *name, int device, size_t bytes,
                             void **memory, gloo_error *error) {
  (void)name, (void)device, (void)bytes, (void)memory;
  return no_gpu(error);
}

void gli_gpu_free(void *memory) {
  (void)memory;
}

gloo_status gli_gpu_find(const void *memory, gli_gpu_place *place,
                         gloo_error *error) {
  (void)memory, (void)error;
  *place = (gli_gpu_place){.kind = GLI_MEMORY_HOST, .device = -1};
  return GLOO_OK;
}

gloo_status gli_gpu_copy_now(void *gpu_memory, void *host_memory, size_t bytes,
                             gli_gpu_direction direction, gloo_error *error) {
  (void)gpu_memory, (void)host_memory, (void)bytes, (void)direction;
  return no_gpu(error);
}
