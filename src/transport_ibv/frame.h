/* Frames of a queue pair. A frame begins with
 *    0 kind   1 zero   2 credits: buffers that are free again
 *    4 which message of several frames it is about
 * in little endian; then, by its kind, the header of a message, payload, or
 * where a payload is to be written. */
#ifndef GLI_TRANSPORT_IBV_FRAME_H
#define GLI_TRANSPORT_IBV_FRAME_H

#include "transport/header.h"

typedef enum gli_ibv_kind {
  GLI_IBV_WHOLE = 1, /* header, all of the payload */
  GLI_IBV_FIRST,     /* header, payload; MORE of it follows */
  GLI_IBV_MORE,      /* payload */
  GLI_IBV_ASK,       /* header: where is its payload to go? */
  GLI_IBV_STREAM,    /* the answer: into frames of MORE; */
  GLI_IBV_PLACE,     /* or there: address (8), rkey (4) */
  GLI_IBV_WRITTEN,   /* it is there */
  GLI_IBV_CREDIT,    /* nothing else */
  GLI_IBV_PROBE,     /* nothing at all */
  GLI_IBV_KINDS
} gli_ibv_kind;

enum {
  GLI_IBV_FRAME_HEAD = 8,
  GLI_IBV_PLACE_BYTES = 12,
  /* The slot that a frame is received in, and where it begins there, so that
   * payload begins on a line. */
  GLI_IBV_SLOT_BYTES = 8192,
  GLI_IBV_FRAME_AT = 56,
  GLI_IBV_FRAME_MAX = GLI_IBV_SLOT_BYTES - GLI_IBV_FRAME_AT,
  /* Payload of a frame: whole elements of any type, and whole lines. */
  GLI_IBV_MORE_MAX = GLI_IBV_FRAME_MAX - GLI_IBV_FRAME_HEAD,
  GLI_IBV_FIRST_MAX = GLI_IBV_MORE_MAX - GLI_HEADER_BYTES
};

/* A frame that has arrived. */
typedef struct gli_ibv_frame {
  uint8_t kind;
  uint32_t number;
  const uint8_t *data; /* what follows its head */
  size_t bytes;
} gli_ibv_frame;

#endif
