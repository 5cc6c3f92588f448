/* Comparison of src/memory/gpu_api.h and gpu_cuda.c with the toolkit's cuda.h at
 * compile time; no code of this file runs. */
#include <cuda.h>

#include "memory/gpu_cuda.c"

#define SAME_VALUE(own, theirs) \
  _Static_assert((int)(own) == (int)(theirs), #own " is not " #theirs)
#define SAME_SIZE(own, theirs) \
  _Static_assert(sizeof(own) == sizeof(theirs), #own " is no " #theirs)

SAME_VALUE(GLI_GPU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(GLI_GPU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(GLI_GPU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(GLI_GPU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(GLI_GPU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(GLI_GPU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(GLI_GPU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(GLI_GPU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(GLI_GPU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(GLI_GPU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(GLI_GPU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(GLI_GPU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_VALUE(POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME_VALUE(GLI_GPU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(GLI_GPU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(GLI_GPU_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME_VALUE(GLI_GPU_HOST_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME_VALUE(GLI_GPU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(GLI_GPU_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_VALUE(GLI_GPU_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME_VALUE(GLI_GPU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(GLI_GPU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_SIZE(gli_gpu_result, CUresult);
SAME_SIZE(int, CUdevice);
SAME_SIZE(void *, CUdeviceptr);
SAME_SIZE(int, CUpointer_attribute);
SAME_SIZE(int, CUstreamCaptureMode);
SAME_SIZE(int, CUstreamCaptureStatus);

/* Checks that the function of that name takes as many arguments as the table's
 * entry, of the same kinds. CUDA's addresses are integers (`at`), and pointers
 * in the table (`any`), which also stand for pointers to enumerations. */
#define BOTH_TAKE(function, theirs, entry, ours) \
  ((void)sizeof(function theirs), (void)sizeof(entry ours))

void gli_test_cuda_declarations(void);
void gli_test_cuda_declarations(void) {
  void *any = NULL, *pointer = NULL;
  CUdeviceptr at = 0;
  CUcontext context = NULL;
  CUstream stream = NULL;
  CUevent event = NULL;
  const char *text = NULL;
  char name[8] = "";
  int number = 0;
  size_t bytes = 0;
  unsigned flags = 0;
  uint32_t value = 0;
  CUresult error = CUDA_SUCCESS;
  const gli_gpu_driver *d = &driver;
  BOTH_TAKE(cuInit, (flags), d->init, (flags));
  BOTH_TAKE(cuDriverGetVersion, (&number), d->version, (&number));
  BOTH_TAKE(cuDeviceGetCount, (&number), d->device_count, (&number));
  BOTH_TAKE(cuDeviceGetName, (name, 8, number), d->device_name,
            (name, 8, number));
  BOTH_TAKE(cuMemAlloc_v2, (&at, bytes), d->allocate, (&any, bytes));
  BOTH_TAKE(cuMemFree_v2, (at), d->release, (any));
  BOTH_TAKE(cuMemHostRegister_v2, (any, bytes, flags), d->host_register,
            (any, bytes, flags));
  BOTH_TAKE(cuMemHostUnregister, (any), d->host_unregister, (any));
  BOTH_TAKE(cuMemHostAlloc, (&any, bytes, flags), d->host_alloc,
            (&any, bytes, flags));
  BOTH_TAKE(cuMemFreeHost, (any), d->host_free, (any));
  BOTH_TAKE(cuStreamCreate, (&stream, flags), d->stream_create, (&any, flags));
  BOTH_TAKE(cuStreamDestroy_v2, (stream), d->stream_destroy, (any));
  BOTH_TAKE(cuStreamSynchronize, (stream), d->stream_synchronize, (any));
  BOTH_TAKE(cuStreamIsCapturing, (stream, pointer), d->stream_is_capturing,
            (any, &number));
  BOTH_TAKE(cuThreadExchangeStreamCaptureMode, (pointer),
            d->exchange_capture_mode, (&number));
  BOTH_TAKE(cuEventCreate, (&event, flags), d->event_create, (&any, flags));
  BOTH_TAKE(cuEventRecord, (event, stream), d->event_record, (any, any));
  BOTH_TAKE(cuEventQuery, (event), d->event_query, (any));
  BOTH_TAKE(cuEventDestroy_v2, (event), d->event_destroy, (any));
  BOTH_TAKE(cuMemHostGetDevicePointer_v2, (&at, any, flags),
            d->host_device_pointer, (&any, any, flags));
  BOTH_TAKE(cuStreamWaitValue32_v2, (stream, at, value, flags),
            d->stream_wait_value, (any, any, value, flags));
  BOTH_TAKE(cuGetErrorName, (error, &text), cu.error_name, (number, &text));
  BOTH_TAKE(cuGetErrorString, (error, &text), cu.error_string, (number, &text));
  BOTH_TAKE(cuDevicePrimaryCtxRetain, (&context, number), cu.retain,
            (&any, number));
  BOTH_TAKE(cuDevicePrimaryCtxRelease_v2, (number), cu.release, (number));
  BOTH_TAKE(cuDevicePrimaryCtxGetState, (number, &flags, &number), cu.state,
            (number, &flags, &number));
  BOTH_TAKE(cuCtxPushCurrent_v2, (context), cu.push, (any));
  BOTH_TAKE(cuCtxPopCurrent_v2, (&context), cu.pop, (&any));
  BOTH_TAKE(cuPointerGetAttributes, (flags, pointer, &any, at), cu.attributes,
            (flags, &number, &any, any));
  BOTH_TAKE(cuStreamGetCtx, (stream, &context), cu.stream_context, (any, &any));
  BOTH_TAKE(cuMemcpyAsync, (at, at, bytes, stream), cu.copy,
            (any, any, bytes, any));
  (void)any, (void)pointer, (void)at, (void)context, (void)stream, (void)d;
  (void)event, (void)text, (void)name, (void)number, (void)bytes, (void)flags;
  (void)value, (void)error;
}
