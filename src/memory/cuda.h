/* Memory of GPUs, and copies from and to it, in the order of the program's
 * streams. The one place that knows CUDA (cuda_absent.c stands for it in builds
 * without).
 *
 * The driver is never loaded for a program that has not loaded it itself, and a
 * program without a GPU in its machine pays nothing: see gli_cuda_watch. The
 * calling thread's current context is the same after each call as before.
 *
 * Any thread may call anything here. What returns a status says in the error
 * what the driver said, by its names: GLOO_ERR_IO, or GLOO_ERR_NO_MEMORY. */
#ifndef GLI_MEMORY_CUDA_H
#define GLI_MEMORY_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* ---- is it there? -------------------------------------------------------- */

/* May buffers be a GPU's? Once true it stays so. */
extern atomic_bool gli_cuda_watched_flag;
static inline bool gli_cuda_is_watched(void) {
  return atomic_load_explicit(&gli_cuda_watched_flag, memory_order_relaxed);
}
/* Decide it, before anything is asked about buffers: by GLOO_CUDA (1, 0), and
 * else by whether the machine has a GPU that this process sees. */
gloo_status gli_cuda_watch(gloo_error *error);

/* Describes the state of CUDA in one line, for people. Loads the driver. */
void gli_cuda_describe(char *text, size_t bytes);

/* ---- whose memory is it? ------------------------------------------------- */

typedef enum gli_memory_kind {
  GLI_MEMORY_HOST,
  GLI_MEMORY_PINNED,  /* of the host, and devices reach it */
  GLI_MEMORY_MANAGED, /* moves between host and devices */
  GLI_MEMORY_DEVICE
} gli_memory_kind;

typedef struct gli_cuda_place {
  gli_memory_kind kind;
  int device;    /* its number; -1 for GLI_MEMORY_HOST */
  void *context; /* the driver's, NULL: the device's primary one */
} gli_cuda_place;

/* Returns the location of the byte at `memory`. Asks the driver each time,
 * because freed memory may belong to another device. Memory that the driver
 * does not know is the host's. */
gloo_status gli_cuda_find(const void *memory, gli_cuda_place *place,
                          gloo_error *error);

/* Refuses GPU memory in a call that does not support it; `function` is its
 * name. */
gloo_status gli_cuda_refuse(const char *function, const void *memory,
                            gloo_error *error);

/* Is memory of that kind used through copies, in the order of a stream? What
 * the host reaches as well is, only where the program names the stream. */
static inline bool gli_cuda_copies(gli_memory_kind kind, const void *stream) {
  return kind == GLI_MEMORY_PINNED ? stream != NULL : kind != GLI_MEMORY_HOST;
}

/* ---- copies -------------------------------------------------------------- */

/* A GPU as one of the driver's contexts: two streams of ours, one in each
 * direction. It is kept until the process ends. */
typedef struct gli_cuda_gpu gli_cuda_gpu;

gloo_status gli_cuda_gpu_of(const gli_cuda_place *place, gli_cuda_gpu **gpu,
                            gloo_error *error);
/* That of a stream of the program's, which is not one of the default ones.
 * Refused (GLOO_ERR_INVALID, GLOO_ERR_UNSUPPORTED): what is no stream, or
 * records a graph. */
gloo_status gli_cuda_gpu_of_stream(void *stream, gli_cuda_gpu **gpu,
                                   gloo_error *error);
/* Is it a stream that each context has, or each thread? */
bool gli_cuda_is_default_stream(const void *stream);

typedef enum gli_cuda_direction {
  GLI_CUDA_TO_HOST,
  GLI_CUDA_TO_DEVICE,
  GLI_CUDA_DIRECTIONS
} gli_cuda_direction;

/* A point in the order of a stream's work. */
typedef struct gli_cuda_event gli_cuda_event;

/* All that is in the program's stream now; NULL: the legacy default one of this
 * GPU. */
gloo_status gli_cuda_mark(gli_cuda_gpu *gpu, void *stream,
                          gli_cuda_event **event, gloo_error *error);
/* Begin a copy. It goes on when this returns. */
gloo_status gli_cuda_copy(gli_cuda_gpu *gpu, gli_cuda_direction direction,
                          void *to, const void *from, size_t bytes,
                          gloo_error *error);
/* All copies in this direction that have begun. */
gloo_status gli_cuda_mark_copies(gli_cuda_gpu *gpu,
                                 gli_cuda_direction direction,
                                 gli_cuda_event **event, gloo_error *error);

/* GLOO_OK: it was reached. GLOO_IN_PROGRESS: not yet. */
gloo_status gli_cuda_reached(gli_cuda_event *event, gloo_error *error);
void gli_cuda_forget(gli_cuda_event *event); /* NULL is none */
/* Waits until all copies that have begun are complete, in both directions. */
void gli_cuda_await_copies(gli_cuda_gpu *gpu);

/* ---- host memory that GPUs reach quickly --------------------------------- */

/* `bytes` of it. What is given back is kept for the next who asks, up to
 * GLOO_CUDA_STAGING bytes (256 MiB) in the process. */
gloo_status gli_pinned_take(gli_cuda_gpu *gpu, size_t bytes, void **memory,
                            gloo_error *error);
void gli_pinned_give(void *memory); /* NULL is none */
size_t gli_pinned_limit(void);

/* ---- memory of a GPU's, for programs that measure ----------------------- */

/* `bytes` of device `device` modulo how many there are. Loads the driver; what
 * the process has of that device it keeps. */
gloo_status gli_cuda_allocate(int device, size_t bytes, void **memory,
                              gloo_error *error);
void gli_cuda_free(void *memory); /* NULL is none */
/* Copy and wait, behind all copies of ours. */
gloo_status gli_cuda_copy_now(void *gpu_memory, void *host_memory, size_t bytes,
                              gli_cuda_direction direction, gloo_error *error);

/* ---- a stream that waits for the host ------------------------------------ */

/* A number that only grows, which streams can wait for. */
typedef struct gli_cuda_flag gli_cuda_flag;

gloo_status gli_cuda_flag_take(gli_cuda_gpu *gpu, gli_cuda_flag **flag,
                               gloo_error *error);
void gli_cuda_flag_give(gli_cuda_flag *flag); /* NULL is none */
/* Have the stream of this GPU wait for the next raise; NULL: the legacy default
 * one. */
gloo_status gli_cuda_flag_wait(gli_cuda_flag *flag, gli_cuda_gpu *gpu,
                               void *stream, gloo_error *error);
void gli_cuda_flag_raise(gli_cuda_flag *flag);

#endif
