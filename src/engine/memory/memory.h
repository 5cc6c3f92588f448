/* Access to the bytes of a step, here or in memory of other ranks: local steps,
 * messages that carry only an rkey, and plans that read and write memory that a
 * peer has exposed (get.c). */
#ifndef GLI_ENGINE_MEMORY_MEMORY_H
#define GLI_ENGINE_MEMORY_MEMORY_H

#include "core/hints.h"
#include "engine/state/call.h"
#include "engine/state/context.h"
#include "kernels/copy.h"

/* The length up to which messages always go as bytes. Transports have further
 * limits. */
#define GLI_ZERO_COPY_BYTES ((uint64_t)256)

/* The outcome of an access to the bytes of a step. */
typedef enum gli_outcome {
  GLI_DONE,
  GLI_PENDING, /* the peer will complete it */
  GLI_FAILED   /* the context has failed, or will */
} gli_outcome;

/* ---- own bytes (bytes.c) ------------------------------------------------- */

/* Makes the input of a plan where it is not in place: joins scattered blocks,
 * and scales the inputs of a scaled sum; or prepares steps that do so. */
GLI_COLD void gli_operation_make_input(gli_operation *op);
/* Runs a COPY or a REDUCE. */
void gli_operation_run_local(gli_operation *op, uint32_t step);
/* ---- arithmetic ---------------------------------------------------------- */

/* dst = left op right. */
static inline void gli_operation_reduce(const gli_operation *op, void *dst,
                                        const void *left, const void *right,
                                        size_t count) {
  if (op->reduce != NULL) {
    op->reduce(dst, left, right, count);
  } else {
    gli_custom_op_apply(&op->custom, dst, left, right, count);
  }
}

/* Stores bytes that arrived elsewhere, `elems` elements, at the destination of
 * a receive step. */
GLI_INLINE void gli_operation_store(const gli_operation *op, const gli_step *s,
                                    const uint8_t *data, size_t bytes,
                                    size_t elems) {
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  if (s->kind == GLI_STEP_RECV) {
    gli_copy_bytes(dst, data, bytes);
    return;
  }
  const uint8_t *local = gli_operation_at(op, s->a_buffer, s->a);
  if (s->incoming_first) {
    gli_operation_reduce(op, dst, data, local, elems);
  } else {
    gli_operation_reduce(op, dst, local, data, elems);
  }
}

/* Each of dsts = srcs[0] op srcs[1] op ... */
static inline void gli_operation_combine(const gli_operation *op,
                                         void *const *dsts, size_t n_dsts,
                                         const void *const *srcs, size_t n_srcs,
                                         size_t count, uint64_t streamed) {
  if (op->custom.op != NULL) {
    gli_custom_op_combine(&op->custom, dsts, n_dsts, srcs, n_srcs, count);
  } else {
    op->combine(dsts, n_dsts, srcs, n_srcs, count, streamed);
  }
}

/* ---- several inputs and outputs (bytes.c) -------------------------------- */

/* Takes over the caller's lists of inputs and outputs. */
void gli_lists_set(gli_operation *op, const gli_call *call);
/* Runs a LOCAL_REDUCE or a LOCAL_BCAST. */
void gli_lists_run(gli_operation *op, const gli_step *step);

/* ---- scattered blocks (bytes.c) ------------------------------------------ */

void gli_staging_begin(const gli_staging *staging);
void gli_staging_end(const gli_staging *staging);

/* ---- low-precision floats as float32 (wide.c) ---------------------------- */

/* Allocates the memory that the plan of an operation works on. */
gloo_status gli_wide_prepare(gli_operation *op, const gli_call *call,
                             gloo_error *error);
/* Converts a range of the buffers of the plan: from the inputs of the caller,
 * and to the outputs of the caller. */
#define GLI_WIDE_ALL UINT64_MAX
void gli_wide_begin(const gli_operation *op, uint64_t from, uint64_t bytes);
void gli_wide_end(const gli_operation *op, uint64_t from, uint64_t bytes);

/* The caller's buffers. The entries of the lists may be replaced. */
typedef struct gli_wide_buffers {
  size_t elem_bytes, in_bytes, out_bytes; /* per element; per buffer */
  size_t n_in, n_out;
  const void **inputs;
  void **outputs;
} gli_wide_buffers;
gli_wide_buffers gli_wide_of(const gli_operation *op);

/* ---- exposing own memory (expose.c) -------------------------------------- */

/* Returns true if a message of plain bytes, longer than GLI_ZERO_COPY_BYTES, is
 * better sent as an rkey. */
bool gli_expose_is_better(const gli_operation *op, uint32_t step,
                          gli_link *link, const void *memory, uint64_t bytes);
/* Sets form, length and payload of the message of a send step. */
void gli_expose_message(gli_transfer *t);
/* Returns the transfer that was exposed to the peer as this message; NULL if
 * none. */
gli_transfer *gli_expose_find(const gli_link *link, const gli_header *header);
gloo_status gli_expose_read_done(gli_link *link, const gli_header *header,
                                 gloo_error *error);
/* Ends the transfers that are exposed to a peer that has left in order: it
 * needs nothing more. */
void gli_expose_departed(gli_link *link);
/* Revokes the exposed memory of a failed operation: no peer may write to it any
 * more. */
void gli_expose_revoke(gli_operation *op);

/* ---- access to a peer's memory (get.c) ----------------------------------- */

/* Returns true if a receive step may wait for this message. */
bool gli_get_fits(const gli_operation *op, uint32_t step,
                  const gli_header *header);
/* Takes a message that is not for a plain receive of bytes. */
gli_outcome gli_get_arrived(gli_operation *op, uint32_t step, uint8_t form,
                            const uint8_t *payload);
/* Ends a copy from the peer's memory, and reports it unless the memory was
 * revoked meanwhile. */
gli_outcome gli_get_done(gli_operation *op, uint32_t step);
/* Returns true if the message is for a plain receive of bytes. */
static inline bool gli_get_is_plain(const gli_step *s, uint8_t form) {
  return form == GLI_FORM_BYTES && s->role == GLI_ROLE_BYTES;
}
/* Runs a local step of several operands, gets or puts. */
gli_outcome gli_get_combine(gli_operation *op, uint32_t step);

/* ---- shared copies (shared_copy.c) --------------------------------------- */

typedef enum gli_shared_copy_outcome {
  GLI_SHARED_COPY_NONE,    /* nothing was done */
  GLI_SHARED_COPY_PENDING, /* gli_shared_copy_ended continues */
  GLI_SHARED_COPY_DONE
} gli_shared_copy_outcome;

/* Returns true if this rank will help to copy what a step exposes. */
bool gli_shared_copy_offers(const gli_operation *op, uint32_t step);
/* Copies what a receive step expects from the peer's memory, with the peer's
 * help. */
gli_shared_copy_outcome gli_shared_copy_run(gli_operation *op, uint32_t step,
                                            const gli_source *from);
void gli_shared_copy_asked(gli_link *link, const gli_header *header);
/* Takes the end of the peer's part. `done` is the operation whose `step` is
 * done with that, or NULL. */
gloo_status gli_shared_copy_ended(gli_link *link, const gli_header *header,
                                  gli_operation **done, uint32_t *step,
                                  gloo_error *error);
/* Revokes the memory of a failed operation: the peer may not write to it any
 * more. */
void gli_shared_copy_revoke(gli_operation *op);

#endif
