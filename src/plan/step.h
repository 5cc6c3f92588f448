/* The steps of a plan. */
#ifndef GLI_PLAN_STEP_H
#define GLI_PLAN_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/params.h"

typedef enum gli_step_kind {
  GLI_STEP_SEND,         /* a -> peer */
  GLI_STEP_RECV,         /* peer -> dst */
  GLI_STEP_RECV_REDUCE,  /* dst = a op incoming */
  GLI_STEP_COPY,         /* dst = a */
  GLI_STEP_COPY_GET,     /* dst = a get; a is its receive buffer */
  GLI_STEP_REDUCE,       /* dst = a op b */
  GLI_STEP_REDUCE_ALL,   /* dst = gets op a op gets */
  GLI_STEP_REDUCE_MANY,  /* dst = blocks op a op blocks */
  GLI_STEP_LOCAL_REDUCE, /* dst = a of some inputs, combined */
  GLI_STEP_LOCAL_BCAST,  /* dst of the outputs after the first = a */
  GLI_STEP_COPY_IN,      /* dst = the caller's memory at the same offset */
  GLI_STEP_COPY_OUT,     /* the caller's memory at the same offset = a */
  GLI_STEP_KINDS
} gli_step_kind;

/* The kind of a message, see "memory of other ranks" in builder.h. */
typedef enum gli_role {
  GLI_ROLE_BYTES,      /* its range, as bytes */
  GLI_ROLE_EXPOSE_GET, /* its range, as bytes or as an rkey for this
                          operation */
  GLI_ROLE_EXPOSE_PUT, /* an rkey, or none */
  GLI_ROLE_PUT,        /* its range; no bytes if they are already in place */
  GLI_ROLE_SIGNAL,     /* no bytes; its range only orders steps */
  GLI_ROLES
} gli_role;

#define GLI_NO_PEER UINT32_MAX
#define GLI_PLAN_RKEY_BYTES 8 /* size of an exposing message */

typedef struct gli_step {
  uint8_t kind;           /* gli_step_kind */
  uint8_t role;           /* gli_role */
  uint8_t incoming_first; /* RECV_REDUCE: dst = incoming op a */
  uint8_t a_buffer, b_buffer, dst_buffer;
  uint8_t lane;    /* a SEND waits for earlier messages of its lane; 0: none */
  uint32_t peer;   /* index into peers[], GLI_NO_PEER for local steps */
  uint32_t slot;   /* number of the message among those between the two ranks in
                      this direction */
  uint32_t window; /* RECV: a get or put; SEND PUT: the put; COPY_GET,
                      REDUCE_ALL: the first get */
  uint32_t n, own; /* REDUCE_ALL, REDUCE_MANY: number of gets or blocks, number
                      before a; LOCAL_REDUCE: number of inputs, the first;
                      LOCAL_BCAST: number of outputs */
  uint32_t put, n_puts; /* further destinations; not for REDUCE, REDUCE_MANY */
  uint64_t stride;      /* REDUCE_ALL, _MANY: block k is at b + k stride */
  uint64_t a, b, dst;   /* byte offsets */
  uint64_t bytes; /* length of each range; GLI_TOKEN carries 0 on the wire,
                     see gli_step_wire_bytes */
} gli_step;

/* Returns true if the step reads blocks at b, b + stride, ... */
static inline bool gli_step_has_blocks(const gli_step *s) {
  return s->kind == GLI_STEP_REDUCE_ALL || s->kind == GLI_STEP_REDUCE_MANY;
}

/* Returns the number of gets that the step reads, from `window` on. */
static inline uint32_t gli_step_gets(const gli_step *s) {
  if (s->kind == GLI_STEP_COPY_GET) return 1;
  return s->kind == GLI_STEP_REDUCE_ALL ? s->n : 0;
}

/* Returns the length of a message that is sent as bytes. */
static inline uint64_t gli_step_wire_bytes(const gli_step *s) {
  if (s->role == GLI_ROLE_EXPOSE_PUT) return GLI_PLAN_RKEY_BYTES;
  if (s->role == GLI_ROLE_SIGNAL) return 0;
  return (s->kind == GLI_STEP_SEND ? s->a_buffer : s->dst_buffer) == GLI_TOKEN
             ? 0
             : s->bytes;
}

#endif
