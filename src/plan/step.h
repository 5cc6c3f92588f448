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
  GLI_STEP_COPY_GET,     /* dst = a get; a is where it was received */
  GLI_STEP_REDUCE,       /* dst = a op b */
  GLI_STEP_REDUCE_ALL,   /* dst = gets op a op gets */
  GLI_STEP_REDUCE_MANY,  /* dst = blocks op a op blocks */
  GLI_STEP_LOCAL_REDUCE, /* dst = a of some inputs, combined */
  GLI_STEP_LOCAL_BCAST,  /* dst of the outputs behind the first = a */
  GLI_STEP_COPY_IN,      /* dst = what the caller's memory has there */
  GLI_STEP_COPY_OUT,     /* the caller's memory = a there */
  GLI_STEP_KINDS
} gli_step_kind;

/* The kind of a message, see "memory of other ranks" in builder.h. */
typedef enum gli_role {
  GLI_ROLE_BYTES,      /* its range, as bytes */
  GLI_ROLE_EXPOSE_GET, /* or as an rkey, for the time of the operation */
  GLI_ROLE_EXPOSE_PUT, /* an rkey, or none */
  GLI_ROLE_PUT,    /* its range; without bytes where it is in place already */
  GLI_ROLE_SIGNAL, /* nothing; its range only orders steps */
  GLI_ROLES
} gli_role;

#define GLI_NO_PEER UINT32_MAX
#define GLI_PLAN_RKEY_BYTES 8 /* of a message that exposes */

typedef struct gli_step {
  uint8_t kind;           /* gli_step_kind */
  uint8_t role;           /* gli_role */
  uint8_t incoming_first; /* RECV_REDUCE: dst = incoming op a */
  uint8_t a_buffer, b_buffer, dst_buffer;
  uint8_t lane;    /* a SEND waits for the messages before it in its lane; 0:
                      none */
  uint32_t peer;   /* index into peers[], GLI_NO_PEER for local steps */
  uint32_t slot;   /* number of the message among those between the two ranks in
                      this direction */
  uint32_t window; /* RECV: a get or put; SEND PUT: the put;
                     COPY_GET, REDUCE_ALL: the get, the first one */
  uint32_t n, own; /* REDUCE_ALL, REDUCE_MANY: gets or blocks, those before a;
                      LOCAL_REDUCE: how many inputs, the first; LOCAL_BCAST: how
                      many outputs */
  uint32_t put, n_puts; /* where dst goes, too; not of REDUCE, REDUCE_MANY */
  uint64_t stride;      /* REDUCE_ALL, _MANY: block k is at b + k stride */
  uint64_t a, b, dst;   /* byte offsets */
  uint64_t bytes; /* length of each range; GLI_TOKEN carries 0 on the wire,
                     see gli_step_wire_bytes */
} gli_step;

/* Does it read blocks at b, b + stride, ...? */
static inline bool gli_step_has_blocks(const gli_step *s) {
  return s->kind == GLI_STEP_REDUCE_ALL || s->kind == GLI_STEP_REDUCE_MANY;
}

/* How many gets does it read, from `window` on? */
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
