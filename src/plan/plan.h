/* Plans: what one rank does in one collective, as data.
 *
 * A finished plan holds no pointers to user memory, no connections and no
 * time; it never changes, and any number of operations may run it at once. */
#ifndef GLI_PLAN_PLAN_H
#define GLI_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"
#include "plan/builder.h"
#include "plan/shape.h"

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

/* All that a plan exchanges with one other rank. */
typedef struct gli_plan_peer {
  uint32_t rank;
  uint32_t sends, recvs;           /* messages */
  uint32_t first_recv;             /* recv_steps[first_recv + slot] is a step */
  uint64_t send_bytes, recv_bytes; /* on the wire, without headers */
} gli_plan_peer;

typedef struct gli_plan {
  gli_plan_params params;
  uint32_t n_steps;
  gli_step *steps;      /* in program order */
  uint32_t *n_deps;     /* [n_steps] how many steps each waits for */
  uint32_t *next_first; /* [n_steps + 1] */
  uint32_t *next;       /* steps waiting for step i: next[next_first[i] ..
                           next_first[i + 1] - 1] */
  uint32_t n_peers;
  gli_plan_peer *peers; /* ascending by rank */
  uint32_t *recv_steps;
  uint64_t in_bytes, out_bytes; /* what the caller must provide */
  uint64_t scratch_bytes;
  uint32_t n_windows;  /* gets and puts */
  uint32_t n_operands; /* the most sources, or destinations, that a step has,
                          where some step has more than two or one */
  size_t bytes;        /* of the plan and its arrays */
} gli_plan;

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

/* Elements that go to a peer (by index), or come from it. */
static inline uint64_t gli_plan_exchanged(const gli_plan *plan, uint32_t peer,
                                          bool sends) {
  const gli_plan_peer *p = &plan->peers[peer];
  return (sends ? p->send_bytes : p->recv_bytes) / plan->params.elem_bytes;
}

/* Run `build`, then the passes: segment, number slots, derive dependencies.
 * On failure nothing is made. Errors: GLOO_ERR_NO_MEMORY, GLOO_ERR_INVALID
 * (sizes that overflow), GLOO_ERR_INTERNAL (the algorithm broke a rule; the
 * message names rank and step). */
gloo_status gli_plan_make(gli_build_fn build, const gli_plan_params *params,
                          gli_plan **plan, gloo_error *error);
void gli_plan_free(gli_plan *plan);

/* Index of `rank` in plan->peers, or GLI_NO_PEER. */
uint32_t gli_plan_find_peer(const gli_plan *plan, uint32_t rank);

#endif
