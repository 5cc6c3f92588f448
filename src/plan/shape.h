/* The shape of a call: the lengths of each rank's buffers, the parts that it
 * reads and writes, and their final content. The differences between
 * collectives are defined here alone. */
#ifndef GLI_PLAN_SHAPE_H
#define GLI_PLAN_SHAPE_H

#include "plan/params.h"

/* Of rank params->rank. */
typedef struct gli_shape {
  uint64_t in_bytes, out_bytes; /* what the caller must provide */
  uint64_t in_shift;            /* in place: where IN begins in OUT */
  bool reads_in, writes_out;    /* false: the rank has no such buffer */
  bool in_place;                /* that means something for this rank */
} gli_shape;

/* False when a length overflows. */
bool gli_plan_shape(const gli_plan_params *params, gli_shape *shape);

/* Bytes of the caller's buffers for these parameters; false on overflow. */
bool gli_plan_buffer_bytes(const gli_plan_params *params, uint64_t *in_bytes,
                           uint64_t *out_bytes);

/* The unit of costs: bytes of the longest buffer that any rank has, all inputs
 * of a reduce-scatter, all outputs of an allgather. The same on every rank; 0
 * where no rank knows it; UINT64_MAX when it overflows. */
uint64_t gli_plan_vector_bytes(const gli_plan_params *params);

typedef enum gli_result_kind {
  GLI_RESULT_ANY,  /* undefined */
  GLI_RESULT_KEPT, /* what was there before */
  GLI_RESULT_OF    /* of inputs, combined */
} gli_result_kind;

/* The final value of bytes of OUT, from one byte up to `until`: GLI_RESULT_OF:
 * byte `source`, and those behind it, of the inputs of ranks first ... first +
 * n - 1. */
typedef struct gli_result {
  gli_result_kind kind;
  uint32_t first, n;
  uint64_t source, until;
} gli_result;

/* From byte x on, below out_bytes. params->counts is one of an array that has
 * those of all ranks. */
gli_result gli_plan_result(const gli_plan_params *params, uint64_t x);

#endif
