/* Build without GPUs: all buffers are host memory. */
#include "core/environment.h"
#include "core/error.h"
#include "memory/gpu_api.h"

gli_gpu_api *const gli_gpu_apis[] = {NULL};

bool gli_gpu_open(gli_gpu_api *api, bool load) {
  (void)api, (void)load;
  return false;
}

gloo_status gli_gpu_watch(gloo_error *error) {
  static const char *const variables[] = {"GLOO_CUDA", "GLOO_HIP"};
  gloo_status status = GLOO_OK;
  for (int i = 0; i < 2 && status == GLOO_OK; i++) {
    bool wanted;
    status = gli_switch_read(0, variables[i], false, &wanted, error);
    if (status == GLOO_OK && wanted)
      return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                      "%s is 1, but this library was built without GPUs "
                      "(meson setup -Dcuda=enabled)",
                      variables[i]);
  }
  return status;
}
