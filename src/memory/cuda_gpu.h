/* The inside of memory/cuda.h: what its parts share. */
#ifndef GLI_MEMORY_CUDA_GPU_H
#define GLI_MEMORY_CUDA_GPU_H

#include "memory/cuda.h"
#include "memory/cuda_driver.h"

struct gli_cuda_event {
  gli_cuda_gpu *gpu;
  gli_cu_event event;
  gli_cuda_event *next; /* of unused ones */
};

/* `lost`: the driver does not know its context any more, and has freed what was
 * made in it. No call finds it again, and nothing of it is given back. */
struct gli_cuda_gpu {
  gli_cu_context context;
  atomic_bool lost;
  gli_cu_stream streams[GLI_CUDA_DIRECTIONS];
  gli_cuda_event *free_events;
  gli_cuda_gpu *next;
};

/* The driver, once the program has loaded it and begun to use it; else NULL. */
const gli_cu_driver *gli_cuda_driver(void);

/* Turns the driver's result into an error: "CUDA: WHAT failed: TEXT (NAME)". */
gloo_status gli_cuda_failed(gli_cu_result result, const char *what,
                            gloo_error *error);
/* The same of work in its context, which may be gone. */
gloo_status gli_cuda_gpu_failed(gli_cuda_gpu *gpu, gli_cu_result result,
                                const char *what, gloo_error *error);

/* The same of a stream of the program's, which may be gone alone. */
gloo_status gli_cuda_stream_failed(gli_cuda_gpu *gpu, gli_cu_result result,
                                   const char *what, gloo_error *error);

/* Make its context the thread's current one, and undo that. */
gloo_status gli_cuda_enter(gli_cuda_gpu *gpu, gloo_error *error);
void gli_cuda_leave(void);

/* Read GLOO_CUDA_STAGING. */
gloo_status gli_pinned_read_limit(gloo_error *error);

#endif
