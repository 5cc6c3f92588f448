/* The private part of engine/memory/staged_copies.h: images of buffers, and the
 * copies under way. */
#ifndef GLI_ENGINE_MEMORY_STAGED_STATE_H
#define GLI_ENGINE_MEMORY_STAGED_STATE_H

#include "engine/memory/staged_copies.h"
#include "engine/state/device.h"

/* The number of copies of one operation under way in one direction: enough that
 * the next one has begun when one ends. */
enum { GLI_STAGED_UNDER_WAY = 8 };

/* Bytes of the caller, and their place in an image. */
typedef struct gli_staged_part {
  uint8_t *memory;
  uint8_t *image;
  size_t bytes;
  gli_gpu *gpu; /* NULL if they are in host memory */
} gli_staged_part;

typedef struct gli_staged_side {
  gli_staged_part *list;
  size_t n;
} gli_staged_side;

/* A copy step under way: an event for each GPU that takes part. */
typedef struct gli_staged_copying {
  uint32_t step;
  size_t n_events;
  gli_gpu_event **events;
} gli_staged_copying;

/* The copy steps of one direction: those that wait, in the order in which they
 * became ready, and those under way, in the order in which they began. */
typedef struct gli_staged_lane {
  uint32_t *waiting; /* [copy steps of the plan] */
  uint32_t first, end;
  gli_staged_copying under_way[GLI_STAGED_UNDER_WAY];
  uint32_t oldest, n;
} gli_staged_lane;

struct gli_staged {
  gli_operation *next; /* in device->staged */
  void *stream;        /* the stream of the program */
  gli_gpu **gpus;      /* GPUs with a part */
  size_t n_gpus;
  bool *used;     /* [n_gpus], set while a copy begins */
  gli_gpu *marks; /* GPU of the stream; NULL to mark it on each GPU */
  gli_gpu_event **gates;
  size_t n_gates;
  bool open;
  bool fetched;     /* a message to send: all of it is in its image */
  bool in_child;    /* in a forked child, which must not call the driver */
  gloo_error error; /* error of the begin of a run */
  gli_staged_side ins, outs;
  gli_staged_lane lanes[GLI_GPU_DIRECTIONS];
  void **images; /* pinned memory */
  size_t n_images;
  gli_gpu_flag *flag; /* raised at the end for waiting streams; NULL if none */
};

/* Release the device's lock before driver calls that may wait for the program's
 * own work, and take it again: other operations, of which that work may wait for
 * one, continue meanwhile. */
static inline void gli_staged_unlock(gloo_device *device) {
  gli_lock_leave(&device->lock);
}
static inline void gli_staged_relock(gloo_device *device) {
  if (!gli_lock_try(&device->lock)) gli_device_wait_lock(device);
}

#endif
