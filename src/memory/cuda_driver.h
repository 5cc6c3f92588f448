/* Declarations of the CUDA driver (libcuda.so.1) that the library uses. Types,
 * numbers and functions have names of our own, so that the build needs no CUDA
 * header, and one library serves machines with and without a driver.
 * tests/cuda/declarations.c compares them with cuda.h if that is installed. */
#ifndef GLI_MEMORY_CUDA_DRIVER_H
#define GLI_MEMORY_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int gli_cu_result;
typedef int gli_cu_device;
typedef unsigned long long gli_cu_address;
typedef struct CUctx_st *gli_cu_context;
typedef struct CUstream_st *gli_cu_stream;
typedef struct CUevent_st *gli_cu_event;

enum {
  GLI_CU_SUCCESS = 0,
  GLI_CU_INVALID_VALUE = 1,
  GLI_CU_OUT_OF_MEMORY = 2,
  GLI_CU_NOT_INITIALIZED = 3,
  GLI_CU_DEINITIALIZED = 4,
  GLI_CU_INVALID_CONTEXT = 201,
  GLI_CU_INVALID_HANDLE = 400,
  GLI_CU_NOT_READY = 600,
  GLI_CU_CONTEXT_IS_DESTROYED = 709,
  GLI_CU_NOT_PERMITTED = 800,
  GLI_CU_NOT_SUPPORTED = 801
};

/* Attributes of a pointer, and values of GLI_CU_POINTER_MEMORY_TYPE. */
enum {
  GLI_CU_POINTER_CONTEXT = 1,
  GLI_CU_POINTER_MEMORY_TYPE = 2,
  GLI_CU_POINTER_IS_MANAGED = 8,
  GLI_CU_POINTER_DEVICE_ORDINAL = 9,
  GLI_CU_MEMORY_HOST = 1,
  GLI_CU_MEMORY_DEVICE = 2
};

enum {
  GLI_CU_EVENT_DISABLE_TIMING = 2,
  GLI_CU_STREAM_NON_BLOCKING = 1,
  GLI_CU_HOST_PORTABLE = 1,
  GLI_CU_HOST_DEVICEMAP = 2,
  GLI_CU_WAIT_GEQ = 0,
  GLI_CU_CAPTURE_NONE = 0,
  GLI_CU_CAPTURE_MODE_RELAXED = 2
};

/* Legacy default stream of the current context. */
#define GLI_CU_STREAM_LEGACY ((gli_cu_stream)(uintptr_t)1)

typedef struct gli_cu_driver {
  gli_cu_result (*init)(unsigned flags);
  gli_cu_result (*driver_version)(int *version);
  gli_cu_result (*device_count)(int *count);
  gli_cu_result (*device_get)(gli_cu_device *device, int ordinal);
  gli_cu_result (*device_name)(char *name, int bytes, gli_cu_device device);
  gli_cu_result (*error_name)(gli_cu_result error, const char **name);
  gli_cu_result (*error_string)(gli_cu_result error, const char **text);
  gli_cu_result (*primary_retain)(gli_cu_context *context,
                                  gli_cu_device device);
  gli_cu_result (*primary_release)(gli_cu_device device);
  gli_cu_result (*primary_state)(gli_cu_device device, unsigned *flags,
                                 int *active);
  gli_cu_result (*context_push)(gli_cu_context context);
  gli_cu_result (*context_pop)(gli_cu_context *context);
  gli_cu_result (*pointer_attributes)(unsigned n, const int *attributes,
                                      void **data, gli_cu_address pointer);
  gli_cu_result (*memory_allocate)(gli_cu_address *address, size_t bytes);
  gli_cu_result (*memory_free)(gli_cu_address address);
  gli_cu_result (*host_register)(void *memory, size_t bytes, unsigned flags);
  gli_cu_result (*host_unregister)(void *memory);
  gli_cu_result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  gli_cu_result (*host_free)(void *memory);
  gli_cu_result (*host_device_pointer)(gli_cu_address *pointer, void *memory,
                                       unsigned flags);
  gli_cu_result (*copy)(gli_cu_address to, gli_cu_address from, size_t bytes,
                        gli_cu_stream stream);
  gli_cu_result (*stream_create)(gli_cu_stream *stream, unsigned flags);
  gli_cu_result (*stream_destroy)(gli_cu_stream stream);
  gli_cu_result (*stream_synchronize)(gli_cu_stream stream);
  gli_cu_result (*stream_context)(gli_cu_stream stream,
                                  gli_cu_context *context);
  gli_cu_result (*stream_is_capturing)(gli_cu_stream stream, int *status);
  gli_cu_result (*exchange_capture_mode)(int *mode);
  /* NULL if the driver is too old */
  gli_cu_result (*stream_wait_value)(gli_cu_stream stream,
                                     gli_cu_address address, uint32_t value,
                                     unsigned flags);
  gli_cu_result (*event_create)(gli_cu_event *event, unsigned flags);
  gli_cu_result (*event_record)(gli_cu_event event, gli_cu_stream stream);
  gli_cu_result (*event_query)(gli_cu_event event);
  gli_cu_result (*event_destroy)(gli_cu_event event);
} gli_cu_driver;

/* Returns the driver, or NULL with the reason in `why` if it cannot be used.
 * `load` also loads it if the program has not done so. Any thread. */
const gli_cu_driver *gli_cu_open(bool load, char *why, size_t bytes);

#endif
