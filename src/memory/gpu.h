/* GPU memory, and copies from and to it in the order of the program's streams.
 * Only this part of the library knows makers of GPUs: each kind (CUDA, HIP) is a
 * gli_gpu_api, and all are asked in turn. Builds without GPUs have none.
 *
 * The library never loads a driver for a program that has not loaded it
 * itself, and a program without a GPU in its machine pays nothing: see
 * gli_gpu_watch. Each call preserves the calling thread's current context.
 *
 * Any thread may call these functions. Those that return a status put the
 * driver's error, with its name, into the message: GLOO_ERR_IO, or
 * GLOO_ERR_NO_MEMORY. */
#ifndef GLI_MEMORY_GPU_H
#define GLI_MEMORY_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* ---- detection ----------------------------------------------------------- */

/* True if buffers may be GPU memory. Never reset once it is true. */
extern atomic_bool gli_gpu_watched_flag;
static inline bool gli_gpu_is_watched(void) {
  return atomic_load_explicit(&gli_gpu_watched_flag, memory_order_relaxed);
}
/* Sets the flag, before the first query about a buffer: from GLOO_CUDA and
 * GLOO_HIP (1, 0), or else by whether the machine has such a GPU that this
 * process can see. */
gloo_status gli_gpu_watch(gloo_error *error);

/* Describes the state of kind `i` in one line of text, and returns its name, or
 * NULL if there is no such kind. Loads the driver. */
const char *gli_gpu_describe(size_t i, char *text, size_t bytes);

/* ---- location of memory -------------------------------------------------- */

typedef enum gli_memory_kind {
  GLI_MEMORY_HOST,
  GLI_MEMORY_PINNED,  /* host memory that devices can access */
  GLI_MEMORY_MANAGED, /* moves between host and devices */
  GLI_MEMORY_DEVICE
} gli_memory_kind;

/* A kind of GPUs (gpu_api.h). */
typedef struct gli_gpu_api gli_gpu_api;

typedef struct gli_gpu_place {
  gli_memory_kind kind;
  gli_gpu_api *api; /* NULL for GLI_MEMORY_HOST */
  int device;       /* device number; -1 for GLI_MEMORY_HOST */
  void *context; /* the driver's context; NULL for the device's primary one */
} gli_gpu_place;

/* Gets the location of the byte at `memory`. Asks the drivers each time, because
 * freed memory may have been reused on another device. Memory unknown to them is
 * host memory, and so is what the host can read if a driver fails. */
gloo_status gli_gpu_find(const void *memory, gli_gpu_place *place,
                         gloo_error *error);

/* Refuses GPU memory in a call that does not support it; `function` is its
 * name. */
gloo_status gli_gpu_refuse(const char *function, const void *memory,
                           gloo_error *error);

/* Returns true if memory of this kind is accessed through copies, in the order
 * of a stream. For pinned memory, which the host can access as well, this
 * requires that the program names a stream. */
static inline bool gli_gpu_copies(gli_memory_kind kind, const void *stream) {
  return kind == GLI_MEMORY_PINNED ? stream != NULL : kind != GLI_MEMORY_HOST;
}

/* ---- copies -------------------------------------------------------------- */

/* A GPU in one of the driver's contexts, with two streams of the library, one
 * per direction. It is never freed. */
typedef struct gli_gpu gli_gpu;

gloo_status gli_gpu_of(const gli_gpu_place *place, gli_gpu **gpu,
                       gloo_error *error);
/* Gets the GPU of a stream of the program other than a default stream. Returns
 * GLOO_ERR_INVALID if the handle is not a stream, and GLOO_ERR_UNSUPPORTED if
 * the stream records a graph. */
gloo_status gli_gpu_of_stream(void *stream, gli_gpu **gpu, gloo_error *error);
/* Returns true for the default streams, of a context or of a thread. */
bool gli_gpu_is_default_stream(const void *stream);

typedef enum gli_gpu_direction {
  GLI_GPU_TO_HOST,
  GLI_GPU_TO_DEVICE,
  GLI_GPU_DIRECTIONS
} gli_gpu_direction;

/* A point in the order of a stream's work. */
typedef struct gli_gpu_event gli_gpu_event;

/* Makes an event for all current work of the program's stream. NULL stands for
 * the legacy default stream of this GPU. */
gloo_status gli_gpu_mark(gli_gpu *gpu, void *stream, gli_gpu_event **event,
                         gloo_error *error);
/* Starts a copy, which continues after the return. */
gloo_status gli_gpu_copy(gli_gpu *gpu, gli_gpu_direction direction, void *to,
                         const void *from, size_t bytes, gloo_error *error);
/* Makes an event for all copies in this direction that have started. */
gloo_status gli_gpu_mark_copies(gli_gpu *gpu, gli_gpu_direction direction,
                                gli_gpu_event **event, gloo_error *error);

/* Returns GLOO_OK if the event has been reached, GLOO_IN_PROGRESS if not. */
gloo_status gli_gpu_reached(gli_gpu_event *event, gloo_error *error);
void gli_gpu_forget(gli_gpu_event *event); /* NULL is allowed */
/* Waits until all started copies, in both directions, are complete. */
void gli_gpu_await_copies(gli_gpu *gpu);

/* ---- pinned host memory -------------------------------------------------- */

/* Takes `bytes` of host memory for copies: pinned, or pageable where the system
 * cannot pin memory, and while a stream waits for a flag. The call may wait for
 * all of the GPU's work. */
gloo_status gli_pinned_take(gli_gpu *gpu, size_t bytes, void **memory,
                            gloo_error *error);
/* Gives memory back. It is kept for reuse. NULL is allowed. */
void gli_pinned_give(void *memory);
/* Frees unused memory beyond GLOO_CUDA_STAGING bytes (256 MiB) in the process,
 * unless a stream waits for a flag. The call may wait for all of a GPU's work. */
void gli_pinned_trim(void);
size_t gli_pinned_limit(void);
/* Reads GLOO_CUDA_STAGING and GLOO_STREAM_WAIT_VALUE. */
gloo_status gli_pinned_read_settings(gloo_error *error);

/* ---- GPU memory, for benchmarks ------------------------------------------ */

/* Allocates `bytes` on device `device` modulo the number of devices, of the kind
 * of that name in any case. Loads the driver; the process keeps the device's
 * primary context. */
gloo_status gli_gpu_allocate(const char *name, int device, size_t bytes,
                             void **memory, gloo_error *error);
void gli_gpu_free(void *memory); /* NULL is allowed */
/* Copies and waits, also for all copies of the library that have started. */
gloo_status gli_gpu_copy_now(void *gpu_memory, void *host_memory, size_t bytes,
                             gli_gpu_direction direction, gloo_error *error);

/* ---- stream waits for the host ------------------------------------------- */

/* Counter that only grows, for which streams can wait. */
typedef struct gli_gpu_flag gli_gpu_flag;

/* Takes a flag. It is NULL if streams cannot wait for memory: by default, where
 * the driver or the memory does not allow it, and while none can be pinned. */
gloo_status gli_gpu_flag_take(gli_gpu *gpu, gli_gpu_flag **flag,
                              gloo_error *error);
void gli_gpu_flag_give(gli_gpu_flag *flag); /* NULL is allowed */
/* Gets the value that the next gli_gpu_flag_raise sets. From here to there no
 * memory is pinned. Returns false if a stream must not wait now, or flag is
 * NULL. */
bool gli_gpu_flag_expect(gli_gpu_flag *flag, uint32_t *value);
/* Makes a stream of this GPU wait for the value. NULL stands for the legacy
 * default stream. Returns GLOO_IN_PROGRESS if the GPU's streams cannot. */
gloo_status gli_gpu_flag_wait(gli_gpu_flag *flag, uint32_t value, gli_gpu *gpu,
                              void *stream, gloo_error *error);
void gli_gpu_flag_raise(gli_gpu_flag *flag);

#endif
