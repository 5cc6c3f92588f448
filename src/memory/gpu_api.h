/* Interface to GPU drivers (CUDA, HIP), which are loaded at run time. Types and
 * constants are declared here, so that a build needs no vendor header, and one
 * binary serves machines with and without GPUs. tests/cuda/declarations.c
 * compares them with cuda.h if that is installed.
 *
 * HIP has CUDA's numbers of errors and flags, and most of its functions with the
 * same arguments: those are in gli_gpu_driver. The others are functions of
 * gli_gpu_api. Addresses of devices are as long as pointers. */
#ifndef GLI_MEMORY_GPU_API_H
#define GLI_MEMORY_GPU_API_H

#include "memory/gpu.h"

typedef int gli_gpu_result;
enum {
  GLI_GPU_SUCCESS = 0,
  GLI_GPU_INVALID_VALUE = 1,
  GLI_GPU_OUT_OF_MEMORY = 2,
  GLI_GPU_NOT_INITIALIZED = 3,
  GLI_GPU_DEINITIALIZED = 4,
  GLI_GPU_NO_DEVICE = 100,
  GLI_GPU_INVALID_CONTEXT = 201,
  GLI_GPU_INVALID_HANDLE = 400,
  GLI_GPU_NOT_READY = 600,
  GLI_GPU_CONTEXT_IS_DESTROYED = 709,
  GLI_GPU_NOT_PERMITTED = 800,
  GLI_GPU_NOT_SUPPORTED = 801
};

enum {
  GLI_GPU_EVENT_DISABLE_TIMING = 2,
  GLI_GPU_STREAM_NON_BLOCKING = 1,
  GLI_GPU_HOST_PORTABLE = 1,
  GLI_GPU_HOST_MAPPED = 2,
  GLI_GPU_WAIT_GEQ = 0,
  GLI_GPU_CAPTURE_NONE = 0,
  GLI_GPU_CAPTURE_MODE_RELAXED = 2
};

/* Functions of the same type in all libraries. Optional ones may be NULL. */
typedef struct gli_gpu_driver {
  gli_gpu_result (*init)(unsigned flags);
  gli_gpu_result (*version)(int *version);
  gli_gpu_result (*device_count)(int *count);
  gli_gpu_result (*device_name)(char *name, int bytes, int device);
  gli_gpu_result (*allocate)(void **memory, size_t bytes);
  gli_gpu_result (*release)(void *memory);
  gli_gpu_result (*host_register)(void *memory, size_t bytes, unsigned flags);
  gli_gpu_result (*host_unregister)(void *memory);
  gli_gpu_result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  gli_gpu_result (*host_free)(void *memory);
  gli_gpu_result (*stream_create)(void **stream, unsigned flags);
  gli_gpu_result (*stream_destroy)(void *stream);
  gli_gpu_result (*stream_synchronize)(void *stream);
  gli_gpu_result (*stream_is_capturing)(void *stream, int *status);
  gli_gpu_result (*exchange_capture_mode)(int *mode);
  gli_gpu_result (*event_create)(void **event, unsigned flags);
  gli_gpu_result (*event_record)(void *event, void *stream);
  gli_gpu_result (*event_query)(void *event);
  gli_gpu_result (*event_destroy)(void *event);
  /* optional: streams that wait for words in host memory */
  gli_gpu_result (*host_device_pointer)(void **pointer, void *memory,
                                        unsigned flags);
  gli_gpu_result (*stream_wait_value)(void *stream, void *address,
                                      uint32_t value, unsigned flags);
} gli_gpu_driver;

typedef struct gli_gpu_symbol {
  const char *name;
  void *function; /* address of the pointer to set */
  bool optional;
} gli_gpu_symbol;

/* A kind of GPUs. A context is what work of a GPU happens in: the driver's, or
 * a device. */
struct gli_gpu_api {
  const char *name, *variable; /* "CUDA", "GLOO_CUDA" */
  const char *needs;           /* the oldest version, for messages */
  const char *const *nodes; /* device files, of which one exists; up to NULL */
  const char *const *libraries;  /* names to look for in turn; up to NULL */
  const gli_gpu_symbol *symbols; /* up to a NULL name */
  const gli_gpu_driver *driver;
  void (*error_text)(gli_gpu_result error, const char **name,
                     const char **text);
  void (*version_text)(int version, char *text, size_t bytes);
  /* Finds memory; leaves *place alone for host memory unknown to the driver. */
  gli_gpu_result (*find)(const void *memory, gli_gpu_place *place);
  gli_gpu_result (*context_of_stream)(void *stream, void **context);
  /* Gets a device's context, which the program uses; `hold`: keeps it until the
   * process ends. */
  gli_gpu_result (*context_of_device)(int device, bool hold, void **context);
  bool (*device_is_used)(int device); /* by the program */
  /* Makes a context current in this thread, and undoes that. */
  gli_gpu_result (*enter)(void *context);
  void (*leave)(void);
  gli_gpu_result (*copy)(void *to, const void *from, size_t bytes,
                         void *stream);
  /* Set by gpu_open.c. */
  atomic_bool wanted; /* buffers may be of this kind */
  atomic_bool opened; /* the driver's library is loaded */
  bool unusable;      /* the library lacks a function */
  char why[256];      /* reason for which it is not loaded */
};

/* All kinds of this build, in the order in which they are asked; up to NULL. */
extern gli_gpu_api *const gli_gpu_apis[];

/* Opens the library unless it is open. `load` also loads it if the program has
 * not done so. If false, api->why has the reason. Any thread. */
bool gli_gpu_open(gli_gpu_api *api, bool load);
/* Returns true if the program uses this kind, and buffers may be of it. */
static inline bool gli_gpu_is_used(gli_gpu_api *api) {
  if (!atomic_load_explicit(&api->wanted, memory_order_relaxed)) return false;
  return atomic_load(&api->opened) || gli_gpu_open(api, false);
}

#endif
