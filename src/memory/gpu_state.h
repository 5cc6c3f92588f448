/* Internals that the parts of memory/gpu.h share. */
#ifndef GLI_MEMORY_GPU_STATE_H
#define GLI_MEMORY_GPU_STATE_H

#include "memory/gpu_api.h"

extern gli_gpu_api gli_gpu_cuda, gli_gpu_hip;

struct gli_gpu_event {
  gli_gpu *gpu;
  void *event;
  gli_gpu_event *next; /* next unused event */
};

/* `lost` is true if the driver has destroyed the context and all that was in
 * it. No call returns such a GPU again, and its memory is not freed. */
struct gli_gpu {
  gli_gpu_api *api;
  void *context;
  atomic_bool lost;
  void *streams[GLI_GPU_DIRECTIONS];
  gli_gpu_event *free_events;
  gli_gpu *next;
};

/* Turns the driver's result into an error: "CUDA: WHAT failed: TEXT (NAME)". */
gloo_status gli_gpu_api_failed(const gli_gpu_api *api, gli_gpu_result result,
                               const char *what, gloo_error *error);
/* Returns the error of work in the GPU's context, which may be destroyed. */
gloo_status gli_gpu_failed(gli_gpu *gpu, gli_gpu_result result,
                           const char *what, gloo_error *error);

/* Returns the error of work in a program's stream, which may be destroyed. */
gloo_status gli_gpu_stream_failed(gli_gpu *gpu, gli_gpu_result result,
                                  const char *what, gloo_error *error);

/* Make the GPU's context the thread's current one, and undo that. */
gloo_status gli_gpu_enter(gli_gpu *gpu, gloo_error *error);
void gli_gpu_leave(const gli_gpu *gpu);
/* Makes any context of the program current, for queries by a thread without
 * one. Returns NULL if there is none. */
gli_gpu *gli_gpu_enter_any(gli_gpu_api *api);

#endif
