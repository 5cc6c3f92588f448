/* The entry points of HIP. The current device is the thread's, and no call needs
 * a context. */
#include "entry.h"

enum { COPY_ANY = 4, TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_MANAGED = 3 };

typedef struct hip_attributes {
  int type, device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
} hip_attributes;

#define HIP_API STANDIN_API gli_gpu_result

HIP_API hipInit(unsigned flags);
HIP_API hipRuntimeGetVersion(int *version);
HIP_API hipGetDeviceCount(int *count);
HIP_API hipDeviceGetName(char *name, int bytes, int device);
STANDIN_API const char *hipGetErrorName(gli_gpu_result error);
STANDIN_API const char *hipGetErrorString(gli_gpu_result error);
HIP_API hipGetDevice(int *number);
HIP_API hipSetDevice(int number);
HIP_API hipMalloc(void **memory, size_t bytes);
HIP_API hipMallocManaged(void **memory, size_t bytes, unsigned flags);
HIP_API hipFree(void *memory);
HIP_API hipHostRegister(void *memory, size_t bytes, unsigned flags);
HIP_API hipHostUnregister(void *memory);
HIP_API hipHostMalloc(void **memory, size_t bytes, unsigned flags);
HIP_API hipHostFree(void *memory);
HIP_API hipPointerGetAttributes(hip_attributes *attributes,
                                const void *pointer);
HIP_API hipStreamCreateWithFlags(cu_stream *stream, unsigned flags);
HIP_API hipStreamDestroy(cu_stream stream);
HIP_API hipStreamSynchronize(cu_stream stream);
HIP_API hipStreamGetDevice(cu_stream stream, int *number);
HIP_API hipStreamIsCapturing(cu_stream stream, int *status);
HIP_API hipThreadExchangeStreamCaptureMode(int *mode);
HIP_API hipLaunchHostFunc(cu_stream stream, void (*host)(void *), void *user);
HIP_API hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind,
                       cu_stream stream);
HIP_API hipEventCreateWithFlags(cu_event *event, unsigned flags);
HIP_API hipEventRecord(cu_event event, cu_stream stream);
HIP_API hipEventQuery(cu_event event);
HIP_API hipEventDestroy(cu_event event);

static _Thread_local int device;

/* Makes the device's context current during a call. */
static gli_gpu_result hip_enter(void) {
  cu_context context;
  gli_gpu_result result = cuInit(0);
  if (result == GLI_GPU_SUCCESS)
    result = cuDevicePrimaryCtxRetain(&context, device);
  return result == GLI_GPU_SUCCESS ? cuCtxPushCurrent_v2(context) : result;
}

static gli_gpu_result hip_leave(gli_gpu_result result) {
  standin_pop();
  return result;
}

#define WITH_DEVICE(call)                             \
  do {                                                \
    gli_gpu_result entered_ = hip_enter();            \
    if (entered_ != GLI_GPU_SUCCESS) return entered_; \
    return hip_leave(call);                           \
  } while (0)

static cu_address address_of(const void *memory) {
  return (cu_address)(uintptr_t)memory;
}

gli_gpu_result hipInit(unsigned flags) {
  return cuInit(flags);
}

gli_gpu_result hipRuntimeGetVersion(int *version) {
  *version = 60342134;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result hipGetDeviceCount(int *count) {
  WITH_DEVICE(cuDeviceGetCount(count));
}

gli_gpu_result hipDeviceGetName(char *name, int bytes, int number) {
  return cuDeviceGetName(name, bytes, number);
}

const char *hipGetErrorName(gli_gpu_result error) {
  return error == GLI_GPU_OUT_OF_MEMORY ? "hipErrorOutOfMemory"
                                        : "hipErrorIllegalAddress";
}

const char *hipGetErrorString(gli_gpu_result error) {
  (void)error;
  return "the stand-in was told to fail";
}

gli_gpu_result hipGetDevice(int *number) {
  *number = device;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result hipSetDevice(int number) {
  if (number < 0 || number >= standin_devices()) return 101;
  device = number;
  return GLI_GPU_SUCCESS;
}

static gli_gpu_result hip_allocate(void **memory, size_t bytes, bool managed) {
  cu_address address = 0;
  gli_gpu_result result = managed ? cuMemAllocManaged(&address, bytes, 1)
                                  : cuMemAlloc_v2(&address, bytes);
  *memory = (void *)(uintptr_t)address;
  return result;
}

gli_gpu_result hipMalloc(void **memory, size_t bytes) {
  WITH_DEVICE(hip_allocate(memory, bytes, false));
}

gli_gpu_result hipMallocManaged(void **memory, size_t bytes, unsigned flags) {
  (void)flags;
  WITH_DEVICE(hip_allocate(memory, bytes, true));
}

gli_gpu_result hipFree(void *memory) {
  WITH_DEVICE(cuMemFree_v2(address_of(memory)));
}

gli_gpu_result hipHostRegister(void *memory, size_t bytes, unsigned flags) {
  WITH_DEVICE(cuMemHostRegister_v2(memory, bytes, flags));
}

gli_gpu_result hipHostUnregister(void *memory) {
  WITH_DEVICE(cuMemHostUnregister(memory));
}

gli_gpu_result hipHostMalloc(void **memory, size_t bytes, unsigned flags) {
  WITH_DEVICE(cuMemHostAlloc(memory, bytes, flags));
}

gli_gpu_result hipHostFree(void *memory) {
  WITH_DEVICE(cuMemFreeHost(memory));
}

static gli_gpu_result hip_attributes_of(hip_attributes *a, cu_address pointer) {
  static const int wanted[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_IS_MANAGED,
                               CU_POINTER_DEVICE_ORDINAL};
  unsigned type, managed;
  void *data[] = {&type, &managed, &a->device};
  gli_gpu_result result = cuPointerGetAttributes(3, wanted, data, pointer);
  if (result != GLI_GPU_SUCCESS) return result;
  if (type == 0) return GLI_GPU_INVALID_VALUE;
  a->managed = (int)managed;
  a->type = managed                  ? TYPE_MANAGED
            : type == CU_MEMORY_HOST ? TYPE_HOST
                                     : TYPE_DEVICE;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result hipPointerGetAttributes(hip_attributes *attributes,
                                       const void *pointer) {
  WITH_DEVICE(hip_attributes_of(attributes, address_of(pointer)));
}

gli_gpu_result hipStreamCreateWithFlags(cu_stream *stream, unsigned flags) {
  WITH_DEVICE(cuStreamCreate(stream, flags));
}

gli_gpu_result hipStreamDestroy(cu_stream stream) {
  WITH_DEVICE(cuStreamDestroy_v2(stream));
}

gli_gpu_result hipStreamSynchronize(cu_stream stream) {
  WITH_DEVICE(cuStreamSynchronize(stream));
}

gli_gpu_result hipStreamGetDevice(cu_stream stream, int *number) {
  cu_context context;
  gli_gpu_result result = hip_enter();
  if (result != GLI_GPU_SUCCESS) return result;
  result = cuStreamGetCtx(stream, &context);
  if (result == GLI_GPU_SUCCESS) *number = context->device;
  return hip_leave(result);
}

gli_gpu_result hipStreamIsCapturing(cu_stream stream, int *status) {
  WITH_DEVICE(cuStreamIsCapturing(stream, status));
}

gli_gpu_result hipThreadExchangeStreamCaptureMode(int *mode) {
  return cuThreadExchangeStreamCaptureMode(mode);
}

gli_gpu_result hipLaunchHostFunc(cu_stream stream, void (*host)(void *),
                                 void *user) {
  WITH_DEVICE(cuLaunchHostFunc(stream, host, user));
}

gli_gpu_result hipMemcpyAsync(void *to, const void *from, size_t bytes,
                              int kind, cu_stream stream) {
  if (kind != COPY_ANY) return GLI_GPU_INVALID_VALUE;
  WITH_DEVICE(cuMemcpyAsync(address_of(to), address_of(from), bytes, stream));
}

gli_gpu_result hipEventCreateWithFlags(cu_event *event, unsigned flags) {
  WITH_DEVICE(cuEventCreate(event, flags));
}

gli_gpu_result hipEventRecord(cu_event event, cu_stream stream) {
  WITH_DEVICE(cuEventRecord(event, stream));
}

gli_gpu_result hipEventQuery(cu_event event) {
  WITH_DEVICE(cuEventQuery(event));
}

gli_gpu_result hipEventDestroy(cu_event event) {
  WITH_DEVICE(cuEventDestroy_v2(event));
}
