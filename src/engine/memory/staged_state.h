/* The inside of engine/memory/staged_copies.h: images of buffers, and the
 * copies that go on. */
#ifndef GLI_ENGINE_MEMORY_STAGED_STATE_H
#define GLI_ENGINE_MEMORY_STAGED_STATE_H

#include "engine/memory/staged_copies.h"

/* Copies of one operation that go on in one direction: enough that the next one
 * has begun when one ends. */
enum { GLI_STAGED_UNDER_WAY = 8 };

/* Bytes of the caller's, and where they are in an image. */
typedef struct gli_staged_part {
  uint8_t *memory;
  uint8_t *image;
  size_t bytes;
  gli_cuda_gpu *gpu; /* NULL: they are the host's */
} gli_staged_part;

typedef struct gli_staged_side {
  gli_staged_part *list;
  size_t n;
} gli_staged_side;

/* A copy step that goes on: an event for each GPU that has a part in it. */
typedef struct gli_staged_copying {
  uint32_t step;
  size_t n_events;
  gli_cuda_event **events;
} gli_staged_copying;

/* The copy steps of one direction: those that wait, in the order in which they
 * became ready, and those that go on, in the order in which they began. */
typedef struct gli_staged_lane {
  uint32_t *waiting; /* [of the plan] */
  uint32_t first, end;
  gli_staged_copying under_way[GLI_STAGED_UNDER_WAY];
  uint32_t oldest, n;
} gli_staged_lane;

struct gli_staged {
  gli_operation *next; /* in device->staged */
  void *stream;        /* the program's */
  gli_cuda_gpu **gpus; /* all that have a part */
  size_t n_gpus;
  bool *used;          /* of those, while a copy begins */
  gli_cuda_gpu *marks; /* where the stream is, NULL: on each of them */
  gli_cuda_event **gates;
  size_t n_gates;
  bool open;
  bool fetched;  /* of a message that is sent: all of it is in its image */
  bool in_child; /* in a forked child, where the driver is not to be called */
  gloo_error error; /* of the beginning of a run */
  gli_staged_side ins, outs;
  gli_staged_lane lanes[GLI_CUDA_DIRECTIONS];
  void **images; /* of pinned memory */
  size_t n_images;
  gli_cuda_flag *flag; /* that streams wait for; NULL: none does */
};

#endif
