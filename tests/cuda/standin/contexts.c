/* The driver, its devices and their contexts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "entry.h"

enum { MOST_PUSHED = 32 };

static struct CUctx_st contexts[STANDIN_MOST_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool initialized; /* set by every rank that starts */
static _Thread_local cu_context pushed[MOST_PUSHED];
static _Thread_local int n_pushed;

int standin_devices(void) {
  unsigned long n = standin_number("STANDIN_DEVICES", 2);
  return (int)(n < STANDIN_MOST_DEVICES ? n : STANDIN_MOST_DEVICES);
}

gli_gpu_result cuInit(unsigned flags) {
  ENTER();
  (void)flags;
  initialized = true;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDriverGetVersion(int *version) {
  ENTER();
  *version = 12080;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDeviceGetCount(int *count) {
  ENTER();
  if (!initialized) return GLI_GPU_NOT_INITIALIZED;
  *count = standin_devices();
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDeviceGet(cu_device *device, int ordinal) {
  ENTER();
  if (ordinal < 0 || ordinal >= standin_devices()) return GLI_GPU_INVALID_VALUE;
  *device = ordinal;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDeviceGetName(char *name, int bytes, cu_device device) {
  ENTER();
  snprintf(name, (size_t)bytes, "stand-in %d", device);
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuGetErrorName(gli_gpu_result error, const char **name) {
  *name = error == GLI_GPU_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == GLI_GPU_INVALID_HANDLE  ? "CUDA_ERROR_INVALID_HANDLE"
          : error == GLI_GPU_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == GLI_GPU_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
          : error == GLI_GPU_NOT_SUPPORTED   ? "CUDA_ERROR_NOT_SUPPORTED"
                                             : "CUDA_ERROR_ILLEGAL_ADDRESS";
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuGetErrorString(gli_gpu_result error, const char **text) {
  (void)error;
  *text = "the stand-in was told to fail";
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device) {
  ENTER();
  if (!initialized) return GLI_GPU_NOT_INITIALIZED;
  pthread_mutex_lock(&lock);
  cu_context c = &contexts[device];
  if (!c->alive) {
    c->device = device;
    c->made++;
    c->legacy = standin_stream_new(c);
    c->alive = true;
  }
  pthread_mutex_unlock(&lock);
  *context = c;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDevicePrimaryCtxRelease_v2(cu_device device) {
  ENTER();
  (void)device; /* the program holds another reference */
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuDevicePrimaryCtxGetState(cu_device device, unsigned *flags,
                                          int *active) {
  ENTER();
  if (!initialized) return GLI_GPU_NOT_INITIALIZED;
  *flags = 0;
  *active = contexts[device].alive;
  return GLI_GPU_SUCCESS;
}

/* Resets the context as a program does to have another library clean up. */
gli_gpu_result cuDevicePrimaryCtxReset_v2(cu_device device) {
  ENTER();
  pthread_mutex_lock(&lock);
  contexts[device].alive = false;
  pthread_mutex_unlock(&lock);
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuCtxPushCurrent_v2(cu_context context) {
  ENTER();
  if (n_pushed == MOST_PUSHED) return GLI_GPU_INVALID_VALUE;
  if (!context->alive) return GLI_GPU_CONTEXT_IS_DESTROYED;
  pushed[n_pushed++] = context;
  return GLI_GPU_SUCCESS;
}

gli_gpu_result cuCtxPopCurrent_v2(cu_context *context) {
  ENTER();
  if (n_pushed == 0) return GLI_GPU_INVALID_CONTEXT;
  *context = standin_current();
  standin_pop();
  return GLI_GPU_SUCCESS;
}

void standin_pop(void) {
  n_pushed--;
}

cu_context standin_current(void) {
  return n_pushed > 0 ? pushed[n_pushed - 1] : NULL;
}

bool standin_lacks_context(void) {
  return standin_current() == NULL &&
         standin_number("STANDIN_NEEDS_CONTEXT", 0);
}

gli_gpu_result cuCtxGetCurrent(cu_context *context) {
  ENTER();
  *context = standin_current();
  return GLI_GPU_SUCCESS;
}
