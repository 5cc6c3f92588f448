/* HIP (ROCm 6 and newer), whose contexts are devices: they are numbers from 1
 * here. Its streams wait only for memory of the GPU's, so they never wait for
 * the host. */
#include <stdio.h>

#include "memory/gpu_state.h"

/* Types of memory (hipMemoryType), and of copies. */
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_MANAGED = 3, COPY_ANY = 4 };

/* As hipPointerAttribute_t; later versions may add members. */
typedef struct hip_attributes {
  int type, device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
  void *reserved[8];
} hip_attributes;

static gli_gpu_driver driver;

static struct {
  const char *(*error_name)(gli_gpu_result error);
  const char *(*error_string)(gli_gpu_result error);
  gli_gpu_result (*get_device)(int *device);
  gli_gpu_result (*set_device)(int device);
  gli_gpu_result (*attributes)(hip_attributes *attributes, const void *pointer);
  gli_gpu_result (*stream_device)(void *stream, int *device);
  gli_gpu_result (*copy)(void *to, const void *from, size_t bytes, int type,
                         void *stream);
} hip;

static const char *const nodes[] = {"/dev/kfd", NULL};
static const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6",
                                        NULL};
static const gli_gpu_symbol symbols[] = {
    {"hipInit", &driver.init, false},
    {"hipRuntimeGetVersion", &driver.version, false},
    {"hipGetDeviceCount", &driver.device_count, false},
    {"hipDeviceGetName", &driver.device_name, false},
    {"hipMalloc", &driver.allocate, false},
    {"hipFree", &driver.release, false},
    {"hipHostRegister", &driver.host_register, false},
    {"hipHostUnregister", &driver.host_unregister, false},
    {"hipHostMalloc", &driver.host_alloc, false},
    {"hipHostFree", &driver.host_free, false},
    {"hipStreamCreateWithFlags", &driver.stream_create, false},
    {"hipStreamDestroy", &driver.stream_destroy, false},
    {"hipStreamSynchronize", &driver.stream_synchronize, false},
    {"hipStreamIsCapturing", &driver.stream_is_capturing, false},
    {"hipThreadExchangeStreamCaptureMode", &driver.exchange_capture_mode,
     false},
    {"hipEventCreateWithFlags", &driver.event_create, false},
    {"hipEventRecord", &driver.event_record, false},
    {"hipEventQuery", &driver.event_query, false},
    {"hipEventDestroy", &driver.event_destroy, false},
    {"hipGetErrorName", &hip.error_name, false},
    {"hipGetErrorString", &hip.error_string, false},
    {"hipGetDevice", &hip.get_device, false},
    {"hipSetDevice", &hip.set_device, false},
    {"hipPointerGetAttributes", &hip.attributes, false},
    {"hipStreamGetDevice", &hip.stream_device, false},
    {"hipMemcpyAsync", &hip.copy, false},
    {NULL, NULL, false}};

static void hip_error_text(gli_gpu_result error, const char **name,
                           const char **text) {
  *name = hip.error_name(error);
  *text = hip.error_string(error);
}

static void hip_version_text(int version, char *text, size_t bytes) {
  snprintf(text, bytes, "%d.%d", version / 10000000, version / 100000 % 100);
}

static void *context_of(int device) {
  return (void *)((uintptr_t)device + 1);
}

static gli_gpu_result hip_find(const void *memory, gli_gpu_place *place) {
  hip_attributes a = {.type = 0};
  gli_gpu_result result = hip.attributes(&a, memory);
  if (result != GLI_GPU_SUCCESS || a.type == 0) return result;
  place->kind = a.managed || a.type == MEMORY_MANAGED ? GLI_MEMORY_MANAGED
                : a.type == MEMORY_HOST               ? GLI_MEMORY_PINNED
                                                      : GLI_MEMORY_DEVICE;
  place->device = a.device;
  place->context = context_of(a.device);
  return result;
}

static gli_gpu_result hip_context_of_device(int device, bool hold,
                                            void **context) {
  (void)hold;
  *context = context_of(device);
  return GLI_GPU_SUCCESS;
}

static gli_gpu_result hip_context_of_stream(void *stream, void **context) {
  int device = 0;
  gli_gpu_result result = hip.stream_device(stream, &device);
  *context = context_of(device);
  return result;
}

static bool hip_device_is_used(int device) {
  (void)device;
  return false; /* no query needs a context */
}

static _Thread_local int device_before;

static gli_gpu_result hip_enter(void *context) {
  gli_gpu_result result = hip.get_device(&device_before);
  if (result != GLI_GPU_SUCCESS) return result;
  return hip.set_device((int)((uintptr_t)context - 1));
}

static void hip_leave(void) {
  (void)hip.set_device(device_before);
}

static gli_gpu_result hip_copy(void *to, const void *from, size_t bytes,
                               void *stream) {
  return hip.copy(to, from, bytes, COPY_ANY, stream);
}

gli_gpu_api gli_gpu_hip = {.name = "HIP",
                           .variable = "GLOO_HIP",
                           .needs = "ROCm 6",
                           .nodes = nodes,
                           .libraries = libraries,
                           .symbols = symbols,
                           .driver = &driver,
                           .error_text = hip_error_text,
                           .version_text = hip_version_text,
                           .find = hip_find,
                           .context_of_stream = hip_context_of_stream,
                           .context_of_device = hip_context_of_device,
                           .device_is_used = hip_device_is_used,
                           .enter = hip_enter,
                           .leave = hip_leave,
                           .copy = hip_copy};
