/* The shape of a call: the lengths of each rank's buffers, the parts that it
 * reads and writes, and their final content. The differences between
 * collectives are defined only here. */
#ifndef GLI_PLAN_SHAPE_H
#define GLI_PLAN_SHAPE_H

#include "plan/params.h"

/* Shape of rank params->rank. */
typedef struct gli_shape {
  uint64_t in_bytes, out_bytes; /* required sizes of the caller's buffers */
  uint64_t in_shift;            /* in place: offset of IN in OUT */
  bool reads_in, writes_out;    /* false: the rank has no such buffer */
  bool in_place;                /* in place applies to this rank */
} gli_shape;

/* Returns false if a length overflows. */
bool gli_plan_shape(const gli_plan_params *params, gli_shape *shape);

/* Computes the sizes of the caller's buffers; returns false on overflow. */
bool gli_plan_buffer_bytes(const gli_plan_params *params, uint64_t *in_bytes,
                           uint64_t *out_bytes);

/* Returns the unit of costs: bytes of the longest buffer of any rank, which is
 * all inputs of a reduce-scatter, all outputs of an allgather. The same on
 * every rank; 0 if no rank knows it; UINT64_MAX if it overflows. */
uint64_t gli_plan_vector_bytes(const gli_plan_params *params);

typedef enum gli_result_kind {
  GLI_RESULT_ANY,  /* undefined */
  GLI_RESULT_KEPT, /* the previous content */
  GLI_RESULT_OF    /* a combination of inputs */
} gli_result_kind;

/* The final value of a range of OUT, up to byte `until`. GLI_RESULT_OF: byte
 * `source`, and the bytes after it, of the inputs of ranks first ... first + n
 * - 1. */
typedef struct gli_result {
  gli_result_kind kind;
  uint32_t first, n;
  uint64_t source, until;
} gli_result;

/* Returns the final value from byte x of OUT on, x below out_bytes.
 * params->counts, if any, is part of an array with the counts of all ranks. */
gli_result gli_plan_result(const gli_plan_params *params, uint64_t x);

#endif
