#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/cuda_driver.h"

enum { MOST_DEVICES = 64 };

static struct functions {
  gli_cu_result (*init)(unsigned flags);
  gli_cu_result (*device_count)(int *count);
  gli_cu_result (*device_get)(gli_cu_device *device, int ordinal);
  gli_cu_result (*retain)(gli_cu_context *context, gli_cu_device device);
  gli_cu_result (*push)(gli_cu_context context);
  gli_cu_result (*pop)(gli_cu_context *context);
  gli_cu_result (*alloc)(gli_cu_address *memory, size_t bytes);
  gli_cu_result (*alloc_managed)(gli_cu_address *memory, size_t bytes,
                                 unsigned flags);
  gli_cu_result (*free)(gli_cu_address memory);
  gli_cu_result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  gli_cu_result (*host_free)(void *memory);
  gli_cu_result (*stream_create)(gli_cu_stream *stream, unsigned flags);
  gli_cu_result (*stream_destroy)(gli_cu_stream stream);
  gli_cu_result (*stream_synchronize)(gli_cu_stream stream);
  gli_cu_result (*host_function)(gli_cu_stream stream, void (*fn)(void *user),
                                 void *user);
  gli_cu_result (*copy)(gli_cu_address to, gli_cu_address from, size_t bytes,
                        gli_cu_stream stream);
} cu;

static void *library;
static int devices;
static gli_cu_context contexts[MOST_DEVICES];

static void must(gli_cu_result result, const char *what) {
  if (result == GLI_CU_SUCCESS) return;
  fprintf(stderr, "CUDA: %s: error %d\n", what, result);
  abort();
}
#define MUST(call) must(cu.call, #call)

void *gpu_symbol(const char *name) {
  return library != NULL ? dlsym(library, name) : NULL;
}

static const char *take_all(void) {
  const struct symbol {
    const char *name;
    void *function;
  } all[] = {
      {"cuInit", &cu.init},
      {"cuDeviceGetCount", &cu.device_count},
      {"cuDeviceGet", &cu.device_get},
      {"cuDevicePrimaryCtxRetain", &cu.retain},
      {"cuCtxPushCurrent_v2", &cu.push},
      {"cuCtxPopCurrent_v2", &cu.pop},
      {"cuMemAlloc_v2", &cu.alloc},
      {"cuMemAllocManaged", &cu.alloc_managed},
      {"cuMemFree_v2", &cu.free},
      {"cuMemHostAlloc", &cu.host_alloc},
      {"cuMemFreeHost", &cu.host_free},
      {"cuStreamCreate", &cu.stream_create},
      {"cuStreamDestroy_v2", &cu.stream_destroy},
      {"cuStreamSynchronize", &cu.stream_synchronize},
      {"cuLaunchHostFunc", &cu.host_function},
      {"cuMemcpyAsync", &cu.copy},
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    void *symbol = dlsym(library, all[i].name);
    if (symbol == NULL) return all[i].name;
    memcpy(all[i].function, &symbol, sizeof symbol);
  }
  return NULL;
}

bool gpu_open(const char **why) {
  if (devices > 0) return true;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  *why = "there is no libcuda.so.1";
  if (library == NULL) return false;
  *why = take_all();
  if (*why != NULL) return false;
  *why = "there is no CUDA device";
  if (cu.init(0) != GLI_CU_SUCCESS) return false;
  if (cu.device_count(&devices) != GLI_CU_SUCCESS || devices == 0) return false;
  if (devices > MOST_DEVICES) devices = MOST_DEVICES;
  for (int i = 0; i < devices; i++) {
    gli_cu_device device;
    MUST(device_get(&device, i));
    MUST(retain(&contexts[i], device));
  }
  return true;
}

int gpu_devices(void) {
  return devices;
}

static void use(int device) {
  MUST(push(contexts[device]));
}

static void leave(void) {
  gli_cu_context left;
  MUST(pop(&left));
}

void *gpu_alloc(int device, gpu_kind kind, size_t bytes) {
  gli_cu_address at = 0;
  void *memory = NULL;
  if (kind == GPU_HOST) return malloc(bytes);
  use(device);
  if (kind == GPU_PINNED) {
    MUST(host_alloc(&memory, bytes, GLI_CU_HOST_PORTABLE));
  } else if (kind == GPU_MANAGED) {
    MUST(alloc_managed(&at, bytes, 1)); /* accessible from all devices */
  } else {
    MUST(alloc(&at, bytes));
  }
  leave();
  return memory != NULL ? memory : (void *)(uintptr_t)at;
}

void gpu_free(int device, gpu_kind kind, void *memory) {
  if (memory == NULL) return;
  if (kind != GPU_HOST) {
    use(device);
    if (kind == GPU_PINNED)
      MUST(host_free(memory));
    else
      MUST(free((gli_cu_address)(uintptr_t)memory));
    leave();
  }
  if (kind == GPU_HOST) free(memory);
}

gpu_stream gpu_stream_new(int device) {
  gpu_stream stream;
  use(device);
  MUST(stream_create(&stream, GLI_CU_STREAM_NON_BLOCKING));
  leave();
  return stream;
}

void gpu_stream_free(int device, gpu_stream stream) {
  use(device);
  MUST(stream_destroy(stream));
  leave();
}

static void nap(void *user) {
  struct timespec t = {0, (long)(uintptr_t)user * 1000};
  while (nanosleep(&t, &t) != 0) continue;
}

static gpu_stream or_legacy(gpu_stream stream) {
  return stream != NULL ? stream : GLI_CU_STREAM_LEGACY;
}

void gpu_call(int device, gpu_stream stream, void (*function)(void *user),
              void *user) {
  use(device);
  MUST(host_function(or_legacy(stream), function, user));
  leave();
}

void gpu_delay(int device, gpu_stream stream, unsigned us) {
  gpu_call(device, stream, nap, (void *)(uintptr_t)us);
}

void gpu_copy(int device, gpu_stream stream, void *to, const void *from,
              size_t bytes) {
  use(device);
  MUST(copy((gli_cu_address)(uintptr_t)to, (gli_cu_address)(uintptr_t)from,
            bytes, or_legacy(stream)));
  leave();
}

void gpu_sync(int device, gpu_stream stream) {
  use(device);
  MUST(stream_synchronize(or_legacy(stream)));
  leave();
}
