/* Loading of libcuda.so.1. It stays loaded, like the program's CUDA. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "memory/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

#define LIBRARY "libcuda.so.1"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gli_cu_driver driver;
static bool opened, unusable; /* `unusable`: lacks a function */
static char reason[256];

typedef struct cu_symbol {
  const char *name;
  void *function;
  bool optional;
} cu_symbol;

/* Loads functions by their versioned names, which match the table's types. */
static const char *take_symbols(void *library) {
  const cu_symbol symbols[] = {
      {"cuInit", &driver.init, false},
      {"cuDriverGetVersion", &driver.driver_version, false},
      {"cuDeviceGetCount", &driver.device_count, false},
      {"cuDeviceGet", &driver.device_get, false},
      {"cuDeviceGetName", &driver.device_name, false},
      {"cuGetErrorName", &driver.error_name, false},
      {"cuGetErrorString", &driver.error_string, false},
      {"cuDevicePrimaryCtxRetain", &driver.primary_retain, false},
      {"cuDevicePrimaryCtxRelease_v2", &driver.primary_release, false},
      {"cuDevicePrimaryCtxGetState", &driver.primary_state, false},
      {"cuCtxPushCurrent_v2", &driver.context_push, false},
      {"cuCtxPopCurrent_v2", &driver.context_pop, false},
      {"cuPointerGetAttributes", &driver.pointer_attributes, false},
      {"cuMemAlloc_v2", &driver.memory_allocate, false},
      {"cuMemFree_v2", &driver.memory_free, false},
      {"cuMemHostRegister_v2", &driver.host_register, false},
      {"cuMemHostUnregister", &driver.host_unregister, false},
      {"cuMemHostAlloc", &driver.host_alloc, false},
      {"cuMemFreeHost", &driver.host_free, false},
      {"cuMemHostGetDevicePointer_v2", &driver.host_device_pointer, false},
      {"cuMemcpyAsync", &driver.copy, false},
      {"cuStreamCreate", &driver.stream_create, false},
      {"cuStreamDestroy_v2", &driver.stream_destroy, false},
      {"cuStreamSynchronize", &driver.stream_synchronize, false},
      {"cuStreamGetCtx", &driver.stream_context, false},
      {"cuStreamIsCapturing", &driver.stream_is_capturing, false},
      {"cuThreadExchangeStreamCaptureMode", &driver.exchange_capture_mode,
       false},
      {"cuStreamWaitValue32_v2", &driver.stream_wait_value, true},
      {"cuEventCreate", &driver.event_create, false},
      {"cuEventRecord", &driver.event_record, false},
      {"cuEventQuery", &driver.event_query, false},
      {"cuEventDestroy_v2", &driver.event_destroy, false},
  };
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *symbol = dlsym(library, symbols[i].name);
    if (symbol == NULL && !symbols[i].optional) return symbols[i].name;
    memcpy(symbols[i].function, &symbol, sizeof symbol); /* as POSIX permits */
  }
  return NULL;
}

static void open_library(bool load) {
  void *library =
      dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
  if (library == NULL) {
    if (!load) {
      snprintf(reason, sizeof reason, "the program has not loaded " LIBRARY);
      return;
    }
    const char *text = dlerror();
    snprintf(reason, sizeof reason, "no NVIDIA driver (%.120s)",
             text != NULL ? text : "no reason given");
    gli_make_printable(reason);
    return;
  }
  const char *missing = take_symbols(library);
  opened = missing == NULL;
  unusable = !opened;
  if (opened) return;
  snprintf(reason, sizeof reason,
           LIBRARY " is too old: it lacks %s (CUDA 11 or newer is needed)",
           missing);
  dlclose(library);
}

const gli_cu_driver *gli_cu_open(bool load, char *why, size_t bytes) {
  pthread_mutex_lock(&lock);
  if (!opened && !unusable) open_library(load);
  const gli_cu_driver *found = opened ? &driver : NULL;
  if (found == NULL) snprintf(why, bytes, "%s", reason);
  pthread_mutex_unlock(&lock);
  return found;
}
