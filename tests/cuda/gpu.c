#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/gpu_api.h"

enum { MOST_DEVICES = 64, COPY_ANY = 4 };

typedef gli_gpu_result result;

static struct functions {
  result (*init)(unsigned flags);
  result (*device_count)(int *count);
  result (*alloc)(void **memory, size_t bytes);
  result (*alloc_managed)(void **memory, size_t bytes, unsigned flags);
  result (*free)(void *memory);
  result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  result (*host_free)(void *memory);
  result (*stream_create)(void **stream, unsigned flags);
  result (*stream_destroy)(void *stream);
  result (*stream_synchronize)(void *stream);
  result (*host_function)(void *stream, void (*fn)(void *user), void *user);
  /* CUDA */
  result (*retain)(void **context, int device);
  result (*push)(void *context);
  result (*pop)(void **context);
  result (*current)(void **context);
  result (*copy)(void *to, const void *from, size_t bytes, void *stream);
  /* HIP */
  result (*get_device)(int *device);
  result (*set_device)(int device);
  result (*copy_hip)(void *to, const void *from, size_t bytes, int kind,
                     void *stream);
} gpu;

typedef struct symbol {
  const char *cuda, *hip; /* NULL if only the other driver has the function */
  void *function;
} symbol;

static const symbol symbols[] = {
    {"cuInit", "hipInit", &gpu.init},
    {"cuDeviceGetCount", "hipGetDeviceCount", &gpu.device_count},
    {"cuMemAlloc_v2", "hipMalloc", &gpu.alloc},
    {"cuMemAllocManaged", "hipMallocManaged", &gpu.alloc_managed},
    {"cuMemFree_v2", "hipFree", &gpu.free},
    {"cuMemHostAlloc", "hipHostMalloc", &gpu.host_alloc},
    {"cuMemFreeHost", "hipHostFree", &gpu.host_free},
    {"cuStreamCreate", "hipStreamCreateWithFlags", &gpu.stream_create},
    {"cuStreamDestroy_v2", "hipStreamDestroy", &gpu.stream_destroy},
    {"cuStreamSynchronize", "hipStreamSynchronize", &gpu.stream_synchronize},
    {"cuLaunchHostFunc", "hipLaunchHostFunc", &gpu.host_function},
    {"cuDevicePrimaryCtxRetain", NULL, &gpu.retain},
    {"cuCtxPushCurrent_v2", NULL, &gpu.push},
    {"cuCtxPopCurrent_v2", NULL, &gpu.pop},
    {"cuCtxGetCurrent", NULL, &gpu.current},
    {"cuMemcpyAsync", NULL, &gpu.copy},
    {NULL, "hipGetDevice", &gpu.get_device},
    {NULL, "hipSetDevice", &gpu.set_device},
    {NULL, "hipMemcpyAsync", &gpu.copy_hip},
};

static void *library;
static bool is_hip;
static int devices;
static void *contexts[MOST_DEVICES];

static void must(result r, const char *what) {
  if (r == GLI_GPU_SUCCESS) return;
  fprintf(stderr, "%s: %s: error %d\n", gpu_name(), what, r);
  abort();
}
#define MUST(call) must(gpu.call, #call)

const char *gpu_name(void) {
  return is_hip ? "HIP" : "CUDA";
}

void *gpu_symbol(const char *name) {
  return library != NULL ? dlsym(library, name) : NULL;
}

static const char *take_all(void) {
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    const char *name = is_hip ? symbols[i].hip : symbols[i].cuda;
    void *found = name != NULL ? dlsym(library, name) : NULL;
    if (name != NULL && found == NULL) return name;
    memcpy(symbols[i].function, &found, sizeof found);
  }
  return NULL;
}

bool gpu_open(const char **why) {
  if (devices > 0) return true;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  is_hip = library == NULL;
  if (is_hip) library = dlopen("libamdhip64.so.7", RTLD_NOW);
  if (library == NULL) library = dlopen("libamdhip64.so.6", RTLD_NOW);
  *why = "there is no libcuda.so.1 and no libamdhip64.so";
  if (library == NULL) return false;
  *why = take_all();
  if (*why != NULL) return false;
  *why = "there is no device";
  if (gpu.init(0) != GLI_GPU_SUCCESS) return false;
  if (gpu.device_count(&devices) != GLI_GPU_SUCCESS || devices == 0)
    return false;
  if (devices > MOST_DEVICES) devices = MOST_DEVICES;
  for (int i = 0; i < devices && !is_hip; i++) MUST(retain(&contexts[i], i));
  return true;
}

int gpu_devices(void) {
  return devices;
}

static _Thread_local int device_before;

void gpu_use(int device) {
  if (is_hip) {
    MUST(get_device(&device_before));
    MUST(set_device(device));
  } else {
    MUST(push(contexts[device]));
  }
}

void gpu_leave(void) {
  void *left;
  if (is_hip)
    MUST(set_device(device_before));
  else
    MUST(pop(&left));
}

int gpu_current(void) {
  int device = 0;
  void *context;
  if (is_hip) {
    MUST(get_device(&device));
    return device;
  }
  MUST(current(&context));
  while (device < devices && contexts[device] != context) device++;
  return device;
}

void *gpu_alloc(int device, gpu_kind kind, size_t bytes) {
  void *memory = NULL;
  if (kind == GPU_HOST) return malloc(bytes);
  gpu_use(device);
  if (kind == GPU_PINNED)
    MUST(host_alloc(&memory, bytes, GLI_GPU_HOST_PORTABLE));
  else if (kind == GPU_MANAGED)
    MUST(alloc_managed(&memory, bytes, 1)); /* accessible from all devices */
  else
    MUST(alloc(&memory, bytes));
  gpu_leave();
  return memory;
}

void gpu_free(int device, gpu_kind kind, void *memory) {
  if (kind == GPU_HOST) free(memory);
  if (memory == NULL || kind == GPU_HOST) return;
  gpu_use(device);
  if (kind == GPU_PINNED)
    MUST(host_free(memory));
  else
    MUST(free(memory));
  gpu_leave();
}

gpu_stream gpu_stream_new(int device) {
  gpu_stream stream;
  gpu_use(device);
  MUST(stream_create(&stream, GLI_GPU_STREAM_NON_BLOCKING));
  gpu_leave();
  return stream;
}

void gpu_stream_free(int device, gpu_stream stream) {
  gpu_use(device);
  MUST(stream_destroy(stream));
  gpu_leave();
}

static void nap(void *user) {
  struct timespec t = {0, (long)(uintptr_t)user * 1000};
  while (nanosleep(&t, &t) != 0) continue;
}

void gpu_call(int device, gpu_stream stream, void (*function)(void *user),
              void *user) {
  gpu_use(device);
  MUST(host_function(stream, function, user));
  gpu_leave();
}

void gpu_delay(int device, gpu_stream stream, unsigned us) {
  gpu_call(device, stream, nap, (void *)(uintptr_t)us);
}

void gpu_copy(int device, gpu_stream stream, void *to, const void *from,
              size_t bytes) {
  gpu_use(device);
  if (is_hip)
    MUST(copy_hip(to, from, bytes, COPY_ANY, stream));
  else
    MUST(copy(to, from, bytes, stream));
  gpu_leave();
}

void gpu_sync(int device, gpu_stream stream) {
  gpu_use(device);
  MUST(stream_synchronize(stream));
  gpu_leave();
}
