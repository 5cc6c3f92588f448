/* Allocation of GPU memory for benchmarks of this project. */
#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"
#include "memory/cuda_gpu.h"

/* Retains the process's primary context of a device, until the process ends. */
static gloo_status hold_device(const gli_cu_driver *driver, int number,
                               gli_cuda_place *place, gloo_error *error) {
  int devices = 0;
  gli_cu_device device = 0;
  gli_cu_context context = NULL;
  gli_cu_result result = driver->init(0);
  if (result == GLI_CU_SUCCESS) result = driver->device_count(&devices);
  if (result == GLI_CU_SUCCESS && devices == 0)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "CUDA: no GPU found");
  if (result == GLI_CU_SUCCESS)
    result = driver->device_get(&device, number % devices);
  if (result == GLI_CU_SUCCESS)
    result = driver->primary_retain(&context, device);
  if (result != GLI_CU_SUCCESS)
    return gli_cuda_failed(result, "initialising a GPU", error);
  *place = (gli_cuda_place){.kind = GLI_MEMORY_DEVICE,
                            .device = number % devices,
                            .context = context};
  return GLOO_OK;
}

gloo_status gli_cuda_allocate(int device, size_t bytes, void **memory,
                              gloo_error *error) {
  char why[256];
  gli_cuda_place place;
  gli_cuda_gpu *gpu;
  const gli_cu_driver *driver = gli_cu_open(true, why, sizeof why);
  if (driver == NULL)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1, "CUDA: %s", why);
  gloo_status status = hold_device(driver, device, &place, error);
  if (status == GLOO_OK) status = gli_cuda_gpu_of(&place, &gpu, error);
  if (status == GLOO_OK) status = gli_cuda_enter(gpu, error);
  if (status != GLOO_OK) return status;
  gli_cu_address address = 0;
  gli_cu_result result = driver->memory_allocate(&address, bytes);
  gli_cuda_leave();
  if (result != GLI_CU_SUCCESS)
    return gli_cuda_gpu_failed(gpu, result, "allocating GPU memory", error);
  *memory = (void *)(uintptr_t)address;
  return GLOO_OK;
}

void gli_cuda_free(void *memory) {
  gli_cuda_place place;
  gli_cuda_gpu *gpu;
  gloo_error error;
  if (memory == NULL || gli_cuda_find(memory, &place, &error) != GLOO_OK ||
      place.kind != GLI_MEMORY_DEVICE ||
      gli_cuda_gpu_of(&place, &gpu, &error) != GLOO_OK ||
      gli_cuda_enter(gpu, &error) != GLOO_OK)
    return;
  (void)gli_cuda_driver()->memory_free((gli_cu_address)(uintptr_t)memory);
  gli_cuda_leave();
}

gloo_status gli_cuda_copy_now(void *gpu_memory, void *host_memory, size_t bytes,
                              gli_cuda_direction direction, gloo_error *error) {
  gli_cuda_place place;
  gli_cuda_gpu *gpu;
  bool out = direction == GLI_CUDA_TO_DEVICE;
  gloo_status status = gli_cuda_find(gpu_memory, &place, error);
  if (status == GLOO_OK) status = gli_cuda_gpu_of(&place, &gpu, error);
  if (status == GLOO_OK)
    status = gli_cuda_copy(gpu, direction, out ? gpu_memory : host_memory,
                           out ? host_memory : gpu_memory, bytes, error);
  if (status == GLOO_OK) gli_cuda_await_copies(gpu);
  return status;
}
