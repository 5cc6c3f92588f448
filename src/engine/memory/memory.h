/* Where the bytes of a step are, here or in memory of other ranks: local steps,
 * messages that only say where bytes lie, and plans that read and write what a
 * peer has lent (fetch.c says how). */
#ifndef GLI_ENGINE_MEMORY_MEMORY_H
#define GLI_ENGINE_MEMORY_MEMORY_H

#include "core/hints.h"
#include "engine/state/call.h"
#include "engine/state/context.h"

/* Messages up to this long always go as bytes. Transports have limits of their
 * own. */
#define GLI_REFER_BYTES ((uint64_t)256)

/* What became of the bytes of a step. */
typedef enum gli_outcome {
  GLI_DONE,
  GLI_PENDING, /* the peer goes on with it */
  GLI_FAILED   /* the context has failed, or will */
} gli_outcome;

/* ---- own bytes (bytes.c) ------------------------------------------------- */

/* Multiply the inputs of a scaled sum. */
GLI_COLD void gli_operation_scale(const gloo_operation *op);
/* Run a COPY or a REDUCE. */
void gli_operation_run_local(gloo_operation *op, uint32_t step);
/* ---- arithmetic ---------------------------------------------------------- */

/* dst = left op right. */
static inline void gli_operation_reduce(const gloo_operation *op, void *dst,
                                        const void *left, const void *right,
                                        size_t count) {
  if (op->reduce) {
    op->reduce(dst, left, right, count);
  } else {
    gli_custom_op_apply(&op->custom, dst, left, right, count);
  }
}

/* Bytes that arrived elsewhere, and their number of elements, to where a
 * receive step wants them. */
GLI_INLINE void gli_operation_store(const gloo_operation *op, const gli_step *s,
                                    const uint8_t *data, size_t bytes,
                                    size_t elems) {
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  if (s->kind == GLI_STEP_RECV) {
    memcpy(dst, data, bytes);
    return;
  }
  const uint8_t *local = gli_operation_at(op, s->a_buffer, s->a);
  if (s->incoming_left) {
    gli_operation_reduce(op, dst, data, local, elems);
  } else {
    gli_operation_reduce(op, dst, local, data, elems);
  }
}

/* Each of dsts = srcs[0] op srcs[1] op ... */
static inline void gli_operation_combine(const gloo_operation *op,
                                         void *const *dsts, size_t n_dsts,
                                         const void *const *srcs, size_t n_srcs,
                                         size_t count, uint64_t streamed) {
  if (op->custom.op) {
    gli_custom_op_combine(&op->custom, dsts, n_dsts, srcs, n_srcs, count);
  } else {
    op->combine(dsts, n_dsts, srcs, n_srcs, count, streamed);
  }
}

/* ---- several inputs and outputs (lists.c) -------------------------------- */

/* Several inputs and outputs: take over the caller's. */
void gli_lists_set(gloo_operation *op, const gli_call *call);
/* Run a JOIN or a SPREAD. */
void gli_lists_run(gloo_operation *op, const gli_step *step);

/* ---- narrow floats as float32 (wide.c) ----------------------------------- */

/* Give an operation the memory that its plan works on. */
gloo_status gli_wide_prepare(gloo_operation *op, const gli_call *call,
                             gloo_error *error);
/* From the caller's inputs, and to the caller's outputs. */
void gli_wide_begin(const gloo_operation *op);
void gli_wide_end(const gloo_operation *op);

/* ---- showing own memory (expose.c) --------------------------------------- */

/* Is a message of plain bytes, longer than that, better referred to? */
bool gli_reach_refers(const gloo_operation *op, uint32_t step, gli_link *link,
                      const void *memory, uint64_t bytes);
/* How the message of a send step goes: sets form, length and payload. */
void gli_reach_offer(gli_transfer *t);
/* What the peer was shown as that message; NULL: it is not. */
gli_transfer *gli_reach_find_shown(const gli_link *link,
                                   const gli_header *header);
gloo_status gli_reach_taken(gli_link *link, const gli_header *header,
                            gloo_error *error);
/* The peer has left in order: it needs nothing more of what it was shown. */
void gli_reach_left(gli_link *link);
/* The operation failed: no peer may write to its memory any more. */
void gli_reach_recall(gloo_operation *op);

/* ---- taking from a peer's (fetch.c) -------------------------------------- */

/* Can this message be the one that a receive step waits for? */
bool gli_reach_fits(const gloo_operation *op, uint32_t step,
                    const gli_header *header);
/* A message that is not for a plain receive of bytes is here. */
gli_outcome gli_reach_arrived(gloo_operation *op, uint32_t step, uint8_t form,
                              const uint8_t *payload);
/* What a receive step took from the peer's memory is here, all of it: say so,
 * if it was not taken back meanwhile. */
gli_outcome gli_reach_took(gloo_operation *op, uint32_t step);
/* Is it one? */
static inline bool gli_reach_is_plain(const gli_step *s, uint8_t form) {
  return form == GLI_FORM_BYTES && s->role == GLI_ROLE_BYTES;
}
/* A local step of several operands, views or loans. */
gli_outcome gli_reach_combine(gloo_operation *op, uint32_t step);

/* ---- copies that both ends make (copy_both.c) ---------------------------- */

typedef enum gli_helping {
  GLI_HELP_NONE,    /* nothing has been done */
  GLI_HELP_NOT_YET, /* gli_help_ended goes on */
  GLI_HELP_DONE
} gli_helping;

/* Will this rank help to copy what a step shows? */
bool gli_help_offers(const gloo_operation *op, uint32_t step);
/* Copy what a receive step expects from the peer's memory, with its help. */
gli_helping gli_help_copy(gloo_operation *op, uint32_t step,
                          const gli_source *from);
void gli_help_wanted(gli_link *link, const gli_header *header);
/* The peer has ended its part. `done` is the operation whose `step` is done
 * with that; NULL: none is. */
gloo_status gli_help_ended(gli_link *link, const gli_header *header,
                           gloo_operation **done, uint32_t *step,
                           gloo_error *error);
/* The operation failed: the peer may not write to its memory any more. */
void gli_help_recall(gloo_operation *op);

#endif
