/* Direct use of GPUs by tests, through the real driver or the stand-in. Every
 * function ends the process if the driver returns an error: other tests cover
 * the library's error handling. */
#ifndef TESTS_CUDA_GPU_H
#define TESTS_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Loads the driver: CUDA's, or else HIP's. Returns false if there is no driver or no device, and sets
 * *why to the reason. */
bool gpu_open(const char **why);
const char *gpu_name(void); /* "CUDA" or "HIP" */
int gpu_devices(void);
/* Returns a function of the stand-in, or NULL. */
void *gpu_symbol(const char *name);

/* Makes a device current in this thread, and undoes that. */
void gpu_use(int device);
void gpu_leave(void);
int gpu_current(void);

typedef enum gpu_kind {
  GPU_HOST, /* pageable memory, from malloc */
  GPU_PINNED,
  GPU_MANAGED,
  GPU_DEVICE,
  GPU_KINDS
} gpu_kind;

void *gpu_alloc(int device, gpu_kind kind, size_t bytes);
void gpu_free(int device, gpu_kind kind, void *memory); /* NULL is allowed */

typedef void *gpu_stream;

gpu_stream gpu_stream_new(int device);
void gpu_stream_free(int device, gpu_stream stream);

/* Work that is queued on the stream (NULL: the device's legacy default stream):
 * a call, a delay, and a copy between any kinds of memory. */
void gpu_call(int device, gpu_stream stream, void (*function)(void *user),
              void *user);
void gpu_delay(int device, gpu_stream stream, unsigned us);
void gpu_copy(int device, gpu_stream stream, void *to, const void *from,
              size_t bytes);
void gpu_sync(int device, gpu_stream stream);

#endif
