/* Comparison of src/memory/cuda_driver.h with the toolkit's cuda.h at compile
 * time; no code of this file runs. */
#include <cuda.h>

#include "memory/cuda_driver.h"

#define SAME_VALUE(own, theirs) \
  _Static_assert((int)(own) == (int)(theirs), #own " is not " #theirs)
#define SAME_SIZE(own, theirs) \
  _Static_assert(sizeof(own) == sizeof(theirs), #own " is no " #theirs)

SAME_VALUE(GLI_CU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(GLI_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(GLI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(GLI_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(GLI_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(GLI_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(GLI_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(GLI_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(GLI_CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(GLI_CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(GLI_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(GLI_CU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_VALUE(GLI_CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(GLI_CU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(GLI_CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(GLI_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME_VALUE(GLI_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME_VALUE(GLI_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(GLI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(GLI_CU_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME_VALUE(GLI_CU_HOST_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME_VALUE(GLI_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(GLI_CU_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_VALUE(GLI_CU_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME_VALUE(GLI_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(GLI_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_SIZE(gli_cu_result, CUresult);
SAME_SIZE(gli_cu_device, CUdevice);
SAME_SIZE(gli_cu_address, CUdeviceptr);
SAME_SIZE(int, CUpointer_attribute);
SAME_SIZE(int, CUstreamCaptureMode);
SAME_SIZE(int, CUstreamCaptureStatus);

/* Checks that the function of that name takes the same arguments as the table's
 * entry; `any` matches pointers to enumerations, which are ints in the
 * table. */
#define TAKE_THE_SAME(function, member, ...) \
  ((void)sizeof(function(__VA_ARGS__)),      \
   (void)sizeof(driver->member(__VA_ARGS__)))

void gli_test_cuda_declarations(const gli_cu_driver *driver);
void gli_test_cuda_declarations(const gli_cu_driver *driver) {
  gli_cu_device device = 0;
  gli_cu_context context = NULL;
  gli_cu_stream stream = NULL;
  gli_cu_event event = NULL;
  gli_cu_address address = 0;
  const char *text = NULL;
  char name[8] = "";
  int number = 0;
  void *any = NULL;
  size_t bytes = 0;
  unsigned flags = 0;
  uint32_t value = 0;
  TAKE_THE_SAME(cuInit, init, flags);
  TAKE_THE_SAME(cuDriverGetVersion, driver_version, &number);
  TAKE_THE_SAME(cuDeviceGetCount, device_count, &number);
  TAKE_THE_SAME(cuDeviceGet, device_get, &device, number);
  TAKE_THE_SAME(cuDeviceGetName, device_name, name, number, device);
  TAKE_THE_SAME(cuGetErrorName, error_name, CUDA_SUCCESS, &text);
  TAKE_THE_SAME(cuGetErrorString, error_string, CUDA_SUCCESS, &text);
  TAKE_THE_SAME(cuDevicePrimaryCtxRetain, primary_retain, &context, device);
  TAKE_THE_SAME(cuDevicePrimaryCtxRelease_v2, primary_release, device);
  TAKE_THE_SAME(cuDevicePrimaryCtxGetState, primary_state, device, &flags,
                &number);
  TAKE_THE_SAME(cuMemHostAlloc, host_alloc, &any, bytes, flags);
  TAKE_THE_SAME(cuMemFreeHost, host_free, any);
  TAKE_THE_SAME(cuCtxPushCurrent_v2, context_push, context);
  TAKE_THE_SAME(cuCtxPopCurrent_v2, context_pop, &context);
  TAKE_THE_SAME(cuPointerGetAttributes, pointer_attributes, flags, any, &any,
                address);
  TAKE_THE_SAME(cuMemAlloc_v2, memory_allocate, &address, bytes);
  TAKE_THE_SAME(cuMemFree_v2, memory_free, address);
  TAKE_THE_SAME(cuMemHostRegister_v2, host_register, any, bytes, flags);
  TAKE_THE_SAME(cuMemHostUnregister, host_unregister, any);
  TAKE_THE_SAME(cuMemHostGetDevicePointer_v2, host_device_pointer, &address,
                any, flags);
  TAKE_THE_SAME(cuMemcpyAsync, copy, address, address, bytes, stream);
  TAKE_THE_SAME(cuStreamCreate, stream_create, &stream, flags);
  TAKE_THE_SAME(cuStreamDestroy_v2, stream_destroy, stream);
  TAKE_THE_SAME(cuStreamSynchronize, stream_synchronize, stream);
  TAKE_THE_SAME(cuStreamGetCtx, stream_context, stream, &context);
  TAKE_THE_SAME(cuStreamIsCapturing, stream_is_capturing, stream, any);
  TAKE_THE_SAME(cuThreadExchangeStreamCaptureMode, exchange_capture_mode, any);
  TAKE_THE_SAME(cuStreamWaitValue32_v2, stream_wait_value, stream, address,
                value, flags);
  TAKE_THE_SAME(cuEventCreate, event_create, &event, flags);
  TAKE_THE_SAME(cuEventRecord, event_record, event, stream);
  TAKE_THE_SAME(cuEventQuery, event_query, event);
  TAKE_THE_SAME(cuEventDestroy_v2, event_destroy, event);
  (void)driver, (void)device, (void)context, (void)stream, (void)event;
  (void)address, (void)text, (void)name, (void)number, (void)any;
  (void)bytes, (void)flags, (void)value;
}
