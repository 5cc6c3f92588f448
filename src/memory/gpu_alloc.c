/* Allocation of GPU memory for benchmarks of this project. */
#include <stdbool.h>
#include <strings.h>

#include "core/error.h"
#include "memory/gpu_state.h"

/* Retains the process's primary context of a device, until the process ends. */
static gloo_status hold_device(gli_gpu_api *api, int number,
                               gli_gpu_place *place, gloo_error *error) {
  int devices = 0;
  gli_gpu_result result = api->driver->init(0);
  if (result == GLI_GPU_SUCCESS) result = api->driver->device_count(&devices);
  if (result == GLI_GPU_SUCCESS && devices == 0)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "%s: no GPU found",
                    api->name);
  *place = (gli_gpu_place){.kind = GLI_MEMORY_DEVICE, .api = api};
  if (result == GLI_GPU_SUCCESS) {
    place->device = number % devices;
    result = api->context_of_device(place->device, true, &place->context);
  }
  if (result == GLI_GPU_SUCCESS) return GLOO_OK;
  return gli_gpu_api_failed(api, result, "initialising a GPU", error);
}

gloo_status gli_gpu_allocate(const char *name, int device, size_t bytes,
                             void **memory, gloo_error *error) {
  gli_gpu_api *api = gli_gpu_apis[0];
  gli_gpu_place place;
  gli_gpu *gpu;
  for (int i = 0; api != NULL && strcasecmp(api->name, name) != 0;)
    api = gli_gpu_apis[++i];
  if (api == NULL || !gli_gpu_open(api, true))
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "%s: %s", name,
                    api != NULL ? api->why : "not built");
  gloo_status status = hold_device(api, device, &place, error);
  if (status == GLOO_OK) status = gli_gpu_of(&place, &gpu, error);
  if (status == GLOO_OK) status = gli_gpu_enter(gpu, error);
  if (status != GLOO_OK) return status;
  gli_gpu_result result = api->driver->allocate(memory, bytes);
  gli_gpu_leave(gpu);
  if (result == GLI_GPU_SUCCESS) return GLOO_OK;
  return gli_gpu_failed(gpu, result, "allocating GPU memory", error);
}

void gli_gpu_free(void *memory) {
  gli_gpu_place place;
  gli_gpu *gpu;
  gloo_error error;
  if (memory == NULL || gli_gpu_find(memory, &place, &error) != GLOO_OK ||
      place.kind != GLI_MEMORY_DEVICE ||
      gli_gpu_of(&place, &gpu, &error) != GLOO_OK ||
      gli_gpu_enter(gpu, &error) != GLOO_OK)
    return;
  (void)gpu->api->driver->release(memory);
  gli_gpu_leave(gpu);
}

gloo_status gli_gpu_copy_now(void *gpu_memory, void *host_memory, size_t bytes,
                             gli_gpu_direction direction, gloo_error *error) {
  gli_gpu_place place;
  gli_gpu *gpu;
  bool out = direction == GLI_GPU_TO_DEVICE;
  gloo_status status = gli_gpu_find(gpu_memory, &place, error);
  if (status == GLOO_OK) status = gli_gpu_of(&place, &gpu, error);
  if (status == GLOO_OK)
    status = gli_gpu_copy(gpu, direction, out ? gpu_memory : host_memory,
                          out ? host_memory : gpu_memory, bytes, error);
  if (status == GLOO_OK) gli_gpu_await_copies(gpu);
  return status;
}
