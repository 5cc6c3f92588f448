/* CUDA's entry points that the stand-in has. */
#ifndef TESTS_CUDA_STANDIN_ENTRY_H
#define TESTS_CUDA_STANDIN_ENTRY_H

#include "standin.h"

/* contexts.c */
STANDIN_API gli_gpu_result cuInit(unsigned flags);
STANDIN_API gli_gpu_result cuDriverGetVersion(int *version);
STANDIN_API gli_gpu_result cuDeviceGetCount(int *count);
STANDIN_API gli_gpu_result cuDeviceGet(cu_device *device, int ordinal);
STANDIN_API gli_gpu_result cuDeviceGetName(char *name, int bytes,
                                           cu_device device);
STANDIN_API gli_gpu_result cuGetErrorName(gli_gpu_result error,
                                          const char **name);
STANDIN_API gli_gpu_result cuGetErrorString(gli_gpu_result error,
                                            const char **text);
STANDIN_API gli_gpu_result cuDevicePrimaryCtxRetain(cu_context *context,
                                                    cu_device device);
STANDIN_API gli_gpu_result cuDevicePrimaryCtxRelease_v2(cu_device device);
STANDIN_API gli_gpu_result cuDevicePrimaryCtxGetState(cu_device device,
                                                      unsigned *flags,
                                                      int *active);
STANDIN_API gli_gpu_result cuDevicePrimaryCtxReset_v2(cu_device device);
STANDIN_API gli_gpu_result cuCtxPushCurrent_v2(cu_context context);
STANDIN_API gli_gpu_result cuCtxPopCurrent_v2(cu_context *context);
STANDIN_API gli_gpu_result cuCtxGetCurrent(cu_context *context);

/* memory.c */
STANDIN_API gli_gpu_result cuMemAlloc_v2(cu_address *memory, size_t bytes);
STANDIN_API gli_gpu_result cuMemAllocAsync(cu_address *memory, size_t bytes,
                                           cu_stream stream);
STANDIN_API gli_gpu_result cuMemAllocManaged(cu_address *memory, size_t bytes,
                                             unsigned flags);
STANDIN_API gli_gpu_result cuMemFree_v2(cu_address memory);
STANDIN_API gli_gpu_result cuMemHostRegister_v2(void *memory, size_t bytes,
                                                unsigned flags);
STANDIN_API gli_gpu_result cuMemHostUnregister(void *memory);
STANDIN_API gli_gpu_result cuMemHostAlloc(void **memory, size_t bytes,
                                          unsigned flags);
STANDIN_API gli_gpu_result cuMemFreeHost(void *memory);
STANDIN_API gli_gpu_result cuMemHostGetDevicePointer_v2(cu_address *pointer,
                                                        void *memory,
                                                        unsigned flags);
STANDIN_API gli_gpu_result cuPointerGetAttributes(unsigned n,
                                                  const int *attributes,
                                                  void **data,
                                                  cu_address pointer);

/* streams.c */
STANDIN_API gli_gpu_result cuMemcpyAsync(cu_address to, cu_address from,
                                         size_t bytes, cu_stream stream);
STANDIN_API gli_gpu_result cuStreamCreate(cu_stream *stream, unsigned flags);
STANDIN_API gli_gpu_result cuStreamDestroy_v2(cu_stream stream);
STANDIN_API gli_gpu_result cuStreamSynchronize(cu_stream stream);
STANDIN_API gli_gpu_result cuStreamGetCtx(cu_stream stream,
                                          cu_context *context);
STANDIN_API gli_gpu_result cuStreamIsCapturing(cu_stream stream, int *status);
STANDIN_API gli_gpu_result cuThreadExchangeStreamCaptureMode(int *mode);
STANDIN_API gli_gpu_result cuStreamWaitEvent(cu_stream stream, cu_event event,
                                             unsigned flags);
STANDIN_API gli_gpu_result cuStreamWaitValue32_v2(cu_stream stream,
                                                  cu_address address,
                                                  uint32_t value,
                                                  unsigned flags);
STANDIN_API gli_gpu_result cuLaunchHostFunc(cu_stream stream,
                                            void (*host)(void *user),
                                            void *user);
STANDIN_API gli_gpu_result cuEventCreate(cu_event *event, unsigned flags);
STANDIN_API gli_gpu_result cuEventRecord(cu_event event, cu_stream stream);
STANDIN_API gli_gpu_result cuEventQuery(cu_event event);
STANDIN_API gli_gpu_result cuEventSynchronize(cu_event event);
STANDIN_API gli_gpu_result cuEventDestroy_v2(cu_event event);

#endif
