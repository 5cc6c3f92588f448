/* What a call says. */
#ifndef GLI_ENGINE_STATE_CALL_H
#define GLI_ENGINE_STATE_CALL_H

#include "gloo_c/collectives.h"
#include "plan/plan.h"
#include "plan/shape.h"

/* The internal name of a request: one run of a plan at a time. */
typedef struct gloo_request gli_operation;

/* Bytes to be copied. */
typedef struct gli_piece {
  const void *from;
  void *to;
  size_t bytes;
} gli_piece;

/* The buffers of a plan whose bytes lie apart in memory of the caller's
 * (memory/bytes.c): pieces to be copied before it, and then those to be copied
 * after it. One allocation, with the buffers behind it. */
typedef struct gli_staging {
  size_t n_before, n_after;
  gli_piece pieces[];
} gli_staging;

/* Describes a call. `build` and `params` name the plan. For point-to-point
 * messages (collective GLI_SENDRECV) the plan uses ranks 0 (sender) and 1
 * (receiver), and `peers` lists the ranks that may be at the other end. */
typedef struct gli_call {
  gli_build_fn build;
  gli_plan_params params;
  uint8_t algorithm;      /* number for the signature */
  gloo_dtype dtype;       /* GLOO_DTYPE_COUNT: none */
  gloo_op op;             /* GLOO_OP_COUNT: none */
  bool ordered;           /* as the caller said */
  gloo_custom_op *custom; /* of GLOO_CUSTOM; NULL otherwise */
  const void *custom_type;
  bool matched_by_init;
  /* For GLOO_SCALED_SUM the input is `unscaled` times `factor`: in the output
   * when in place, and otherwise in memory of the operation. */
  double factor;
  const void *unscaled;
  uint64_t unscaled_bytes;
  bool scales_joined; /* instead: what several inputs are joined to */
  bool averages;      /* the kernels do it, which see all operands at once */
  /* The plan is one of float32, of one input and one output, which are memory
   * of the operation (wide.c): before it, `factor` times each of `n_inputs`
   * inputs of low-precision floats is added up, and after it the result is
   * divided by `divisor`, rounded, and stored in `n_outputs` outputs. The one
   * input or output is `input` or `output`. */
  bool wide;
  size_t n_inputs, n_outputs;
  float divisor;
  uint32_t tag;
  const void *input;
  void *output;
  /* NULL: none; else what `input`, `output` or both are in. The operation takes
   * it over; where none is made, it is freed. */
  gli_staging *staging;
  const void *const *inputs; /* [params.n_in] of several; they are copied */
  void *const *outputs;      /* [params.n_out] */
  int64_t timeout_ns;        /* 0: the context's; below 0: none */
  void *stream;              /* as in gloo_options; of a call that is staged */
  gli_shape shape_out_of_place,
      shape_in_place; /* as it is, and as it would be in place */
  const int *peers;   /* GLI_SENDRECV; NULL: any */
  size_t n_peers;
} gli_call;

/* ---- calls that are repeated --------------------------------------------- */

/* All that a plain call says; the buffers are not compared. */
typedef struct gli_repeat_key {
  gli_collective collective;
  gloo_dtype dtype;
  gloo_op op;
  int who;  /* the root, or the other rank of a message */
  int side; /* of a message */
  bool ordered;
  bool in_place; /* with given counts: GLOO_IN_PLACE, which has fewer lists */
  uint32_t tag;
  size_t count;
  uint64_t lists; /* a hash of the given counts, which are compared as well */
  int64_t timeout_ns;
  const void *algorithm; /* that it names; NULL: none */
  const void *input;
  void *output;
} gli_repeat_key;

/* And what has been found out of it. */
typedef struct gli_repeated_call {
  gli_repeat_key key;
  bool in_place;
  gli_shape shape_out_of_place,
      shape_in_place;       /* as it is, and as it would be in place */
  const gli_counts *counts; /* of its plan; NULL: none */
} gli_repeated_call;

typedef struct gli_repeat {
  gli_repeated_call call;
  gli_operation *operation; /* NULL: none */
  bool busy;
} gli_repeat;

#endif
