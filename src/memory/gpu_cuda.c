/* CUDA, through its driver's interface (libcuda.so.1). */
#include <stdio.h>

#include "memory/gpu_state.h"

/* Attributes of a pointer, and values of MEMORY_TYPE. */
enum {
  POINTER_CONTEXT = 1,
  POINTER_MEMORY_TYPE = 2,
  POINTER_IS_MANAGED = 8,
  POINTER_DEVICE_ORDINAL = 9,
  MEMORY_HOST = 1
};

static gli_gpu_driver driver;

static struct {
  gli_gpu_result (*error_name)(gli_gpu_result error, const char **name);
  gli_gpu_result (*error_string)(gli_gpu_result error, const char **text);
  gli_gpu_result (*retain)(void **context, int device);
  gli_gpu_result (*release)(int device);
  gli_gpu_result (*state)(int device, unsigned *flags, int *active);
  gli_gpu_result (*push)(void *context);
  gli_gpu_result (*pop)(void **context);
  gli_gpu_result (*attributes)(unsigned n, const int *attributes, void **data,
                               const void *pointer);
  gli_gpu_result (*stream_context)(void *stream, void **context);
  gli_gpu_result (*copy)(void *to, const void *from, size_t bytes,
                         void *stream);
} cu;

static const char *const nodes[] = {/* servers, WSL, boards */
                                    "/dev/nvidiactl", "/dev/dxg", "/dev/nvmap",
                                    "/dev/nvhost-gpu", NULL};
static const char *const libraries[] = {"libcuda.so.1", NULL};
static const gli_gpu_symbol symbols[] = {
    {"cuInit", &driver.init, false},
    {"cuDriverGetVersion", &driver.version, false},
    {"cuDeviceGetCount", &driver.device_count, false},
    {"cuDeviceGetName", &driver.device_name, false},
    {"cuMemAlloc_v2", &driver.allocate, false},
    {"cuMemFree_v2", &driver.release, false},
    {"cuMemHostRegister_v2", &driver.host_register, false},
    {"cuMemHostUnregister", &driver.host_unregister, false},
    {"cuMemHostAlloc", &driver.host_alloc, false},
    {"cuMemFreeHost", &driver.host_free, false},
    {"cuStreamCreate", &driver.stream_create, false},
    {"cuStreamDestroy_v2", &driver.stream_destroy, false},
    {"cuStreamSynchronize", &driver.stream_synchronize, false},
    {"cuStreamIsCapturing", &driver.stream_is_capturing, false},
    {"cuThreadExchangeStreamCaptureMode", &driver.exchange_capture_mode, false},
    {"cuEventCreate", &driver.event_create, false},
    {"cuEventRecord", &driver.event_record, false},
    {"cuEventQuery", &driver.event_query, false},
    {"cuEventDestroy_v2", &driver.event_destroy, false},
    {"cuMemHostGetDevicePointer_v2", &driver.host_device_pointer, true},
    {"cuStreamWaitValue32_v2", &driver.stream_wait_value, true},
    {"cuGetErrorName", &cu.error_name, false},
    {"cuGetErrorString", &cu.error_string, false},
    {"cuDevicePrimaryCtxRetain", &cu.retain, false},
    {"cuDevicePrimaryCtxRelease_v2", &cu.release, false},
    {"cuDevicePrimaryCtxGetState", &cu.state, false},
    {"cuCtxPushCurrent_v2", &cu.push, false},
    {"cuCtxPopCurrent_v2", &cu.pop, false},
    {"cuPointerGetAttributes", &cu.attributes, false},
    {"cuStreamGetCtx", &cu.stream_context, false},
    {"cuMemcpyAsync", &cu.copy, false},
    {NULL, NULL, false}};

static void cuda_error_text(gli_gpu_result error, const char **name,
                            const char **text) {
  if (cu.error_name(error, name) != GLI_GPU_SUCCESS) *name = NULL;
  if (cu.error_string(error, text) != GLI_GPU_SUCCESS) *text = NULL;
}

static void cuda_version_text(int version, char *text, size_t bytes) {
  snprintf(text, bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

static gli_gpu_result cuda_find(const void *memory, gli_gpu_place *place) {
  static const int wanted[] = {POINTER_MEMORY_TYPE, POINTER_IS_MANAGED,
                               POINTER_DEVICE_ORDINAL, POINTER_CONTEXT};
  unsigned type = 0, managed = 0;
  int device = -1;
  void *context = NULL;
  void *data[] = {&type, &managed, &device, &context};
  gli_gpu_result result = cu.attributes(4, wanted, data, memory);
  if (result != GLI_GPU_SUCCESS || type == 0) return result;
  place->kind = managed               ? GLI_MEMORY_MANAGED
                : type == MEMORY_HOST ? GLI_MEMORY_PINNED
                                      : GLI_MEMORY_DEVICE;
  place->device = device;
  place->context = context;
  return result;
}

static gli_gpu_result cuda_context_of_stream(void *stream, void **context) {
  return cu.stream_context(stream, context);
}

/* The reference to a primary context that is not held is released at once,
 * because the program has its own. */
static gli_gpu_result cuda_context_of_device(int device, bool hold,
                                             void **context) {
  gli_gpu_result result = cu.retain(context, device);
  if (result == GLI_GPU_SUCCESS && !hold) (void)cu.release(device);
  return result;
}

static bool cuda_device_is_used(int device) {
  unsigned flags;
  int active = 0;
  return cu.state(device, &flags, &active) == GLI_GPU_SUCCESS && active;
}

static gli_gpu_result cuda_enter(void *context) {
  return cu.push(context);
}

static void cuda_leave(void) {
  void *left;
  (void)cu.pop(&left);
}

static gli_gpu_result cuda_copy(void *to, const void *from, size_t bytes,
                                void *stream) {
  return cu.copy(to, from, bytes, stream);
}

gli_gpu_api gli_gpu_cuda = {.name = "CUDA",
                            .variable = "GLOO_CUDA",
                            .needs = "CUDA 11",
                            .nodes = nodes,
                            .libraries = libraries,
                            .symbols = symbols,
                            .driver = &driver,
                            .error_text = cuda_error_text,
                            .version_text = cuda_version_text,
                            .find = cuda_find,
                            .context_of_stream = cuda_context_of_stream,
                            .context_of_device = cuda_context_of_device,
                            .device_is_used = cuda_device_is_used,
                            .enter = cuda_enter,
                            .leave = cuda_leave,
                            .copy = cuda_copy};
