/* Frames of a queue pair. A frame begins with
 *    0 kind   1 zero   2 credits: number of buffers that are free again
 *    4 number of the message, for messages of several frames
 * in little-endian order. Depending on the kind, the header of a message,
 * payload, or the destination of a payload follows. */
#ifndef GLI_TRANSPORT_IBV_FRAME_H
#define GLI_TRANSPORT_IBV_FRAME_H

#include "transport/header.h"

typedef enum gli_ibv_kind {
  GLI_IBV_WHOLE = 1, /* header and all payload */
  GLI_IBV_FIRST,     /* header and the first payload; MORE follows */
  GLI_IBV_MORE,      /* payload */
  GLI_IBV_ASK,       /* header; asks for the destination of the payload, or
                        offers to read it: address (8), key per lane (4) */
  GLI_IBV_STREAM,    /* answer: send the payload in MORE frames */
  GLI_IBV_PLACE,     /* answer: write it to address (8), rkey (4) */
  GLI_IBV_WRITTEN,   /* the payload has been written */
  GLI_IBV_CREDIT,    /* credits only */
  GLI_IBV_PROBE,     /* bytes without meaning, or none */
  GLI_IBV_LANES,     /* note about lanes (lanes.h), with its kind as number */
  GLI_IBV_FETCHED,   /* answer: the payload has been read */
  GLI_IBV_KINDS
} gli_ibv_kind;

enum {
  GLI_IBV_FRAME_HEAD = 8,
  GLI_IBV_PLACE_BYTES = 12,
  /* Size of a receive slot, and start of the frame in it, so that payload
   * begins on a line. */
  GLI_IBV_SLOT_BYTES = 8192,
  GLI_IBV_FRAME_AT = 56,
  GLI_IBV_FRAME_MAX = GLI_IBV_SLOT_BYTES - GLI_IBV_FRAME_AT,
  /* Largest payload of a frame: whole elements of any type, whole lines. */
  GLI_IBV_MORE_MAX = GLI_IBV_FRAME_MAX - GLI_IBV_FRAME_HEAD,
  GLI_IBV_FIRST_MAX = GLI_IBV_MORE_MAX - GLI_HEADER_BYTES
};

/* Frame that has arrived. */
typedef struct gli_ibv_frame {
  uint8_t kind;
  uint32_t number;
  const uint8_t *data; /* contents behind the head */
  size_t bytes;
} gli_ibv_frame;

#endif
