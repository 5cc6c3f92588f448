/* Internals that the parts of memory/cuda.h share. */
#ifndef GLI_MEMORY_CUDA_GPU_H
#define GLI_MEMORY_CUDA_GPU_H

#include "memory/cuda.h"
#include "memory/cuda_driver.h"

struct gli_cuda_event {
  gli_cuda_gpu *gpu;
  gli_cu_event event;
  gli_cuda_event *next; /* next unused event */
};

/* `lost` is true if the driver has destroyed the context and all that was in
 * it. No call returns such a GPU again, and its memory is not freed. */
struct gli_cuda_gpu {
  gli_cu_context context;
  atomic_bool lost;
  gli_cu_stream streams[GLI_CUDA_DIRECTIONS];
  gli_cuda_event *free_events;
  gli_cuda_gpu *next;
};

/* Returns the driver once the program has loaded it, or else NULL. */
const gli_cu_driver *gli_cuda_driver(void);

/* Turns the driver's result into an error: "CUDA: WHAT failed: TEXT (NAME)". */
gloo_status gli_cuda_failed(gli_cu_result result, const char *what,
                            gloo_error *error);
/* Returns the error of work in the GPU's context, which may be destroyed. */
gloo_status gli_cuda_gpu_failed(gli_cuda_gpu *gpu, gli_cu_result result,
                                const char *what, gloo_error *error);

/* Returns the error of work in a program's stream, which may be destroyed. */
gloo_status gli_cuda_stream_failed(gli_cuda_gpu *gpu, gli_cu_result result,
                                   const char *what, gloo_error *error);

/* Make the GPU's context the thread's current one, and undo that. */
gloo_status gli_cuda_enter(gli_cuda_gpu *gpu, gloo_error *error);
void gli_cuda_leave(void);
/* Makes any context of the program current, for queries by a thread without
 * one. Returns false if there is none. */
bool gli_cuda_enter_any(void);

/* Reads GLOO_CUDA_STAGING and GLOO_STREAM_WAIT_VALUE. */
gloo_status gli_pinned_read_settings(gloo_error *error);

#endif
