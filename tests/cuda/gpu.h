/* What tests do with GPUs themselves: through the driver, be it the real one or
 * the stand-in. All of it fails the process when the driver refuses: what the
 * library makes of that is tested elsewhere. */
#ifndef TESTS_CUDA_GPU_H
#define TESTS_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Load the driver. False: there is none, or no device; *why says so. */
bool gpu_open(const char **why);
int gpu_devices(void);
/* A function of the stand-in's, or NULL. */
void *gpu_symbol(const char *name);

typedef enum gpu_kind {
  GPU_HOST, /* plain: from malloc */
  GPU_PINNED,
  GPU_MANAGED,
  GPU_DEVICE,
  GPU_KINDS
} gpu_kind;

void *gpu_alloc(int device, gpu_kind kind, size_t bytes);
void gpu_free(int device, gpu_kind kind, void *memory); /* NULL is none */

typedef struct CUstream_st *gpu_stream;

gpu_stream gpu_stream_new(int device);
void gpu_stream_free(int device, gpu_stream stream);

/* In the order of the stream (NULL: the device's legacy default one): let it
 * wait so long; copy, anything to anything. */
void gpu_delay(int device, gpu_stream stream, unsigned us);
void gpu_copy(int device, gpu_stream stream, void *to, const void *from,
              size_t bytes);
void gpu_sync(int device, gpu_stream stream);

#endif
