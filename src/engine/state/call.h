/* The arguments of a call. */
#ifndef GLI_ENGINE_STATE_CALL_H
#define GLI_ENGINE_STATE_CALL_H

#include "gloo_c/collectives.h"
#include "plan/plan.h"
#include "plan/shape.h"

/* The internal name of a request: one run of a plan at a time. */
typedef struct gloo_request gli_operation;

/* A copy of bytes. */
typedef struct gli_piece {
  const void *from;
  void *to;
  size_t bytes;
} gli_piece;

/* Staging of buffers of a plan whose bytes are scattered in memory of the
 * caller (memory/bytes.c): pieces to copy before the plan, and then pieces to
 * copy after it. One allocation, with the buffers behind the pieces. */
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
  gloo_dtype dtype;       /* GLOO_DTYPE_COUNT if none */
  gloo_op op;             /* GLOO_OP_COUNT if none */
  bool ordered;           /* as requested by the caller */
  gloo_custom_op *custom; /* NULL unless `op` is GLOO_CUSTOM */
  const void *custom_type;
  bool matched_by_init;
  /* For GLOO_SCALED_SUM the input is `unscaled` times `factor`: in the output
   * when in place, and otherwise in memory of the operation. */
  double factor;
  const void *unscaled;
  uint64_t unscaled_bytes;
  bool scales_joined; /* true if the joined inputs are scaled instead */
  bool averages; /* true if the kernels average, as they see all operands at
                    once */
  /* True if the plan is float32, with one input and one output in memory of the
   * operation (wide.c). Before it, `factor` times each of `n_inputs` inputs of
   * low-precision floats is added up; after it, the result is divided by
   * `divisor`, rounded, and stored in `n_outputs` outputs. A single input or
   * output is `input` or `output`. */
  bool wide;
  size_t n_inputs, n_outputs;
  float divisor;
  uint32_t tag;
  const void *input;
  void *output;
  /* Staging that `input`, `output` or both are in; NULL if none. The operation
   * takes it over; if no operation is made, it is freed. */
  gli_staging *staging;
  const void *const *inputs; /* [params.n_in] if several; the list is copied */
  void *const *outputs;      /* [params.n_out] */
  int64_t timeout_ns;        /* 0 for the context's timeout, below 0 for none */
  void *stream;              /* as in gloo_options, for staged calls */
  gli_shape shape_out_of_place, shape_in_place; /* shape as called, and as it
                                                   would be in place */
  const int *peers; /* GLI_SENDRECV only; NULL for any rank */
  size_t n_peers;
} gli_call;

/* ---- repeated calls ------------------------------------------------------ */

/* The arguments of a plain call. Comparisons ignore the buffers. */
typedef struct gli_repeat_key {
  gli_collective collective;
  gloo_dtype dtype;
  gloo_op op;
  int who;  /* the root, or the peer of a message */
  int side; /* gli_operation_side of a message */
  bool ordered;
  bool in_place; /* true if given counts come with GLOO_IN_PLACE, which has
                    fewer lists */
  uint32_t tag;
  size_t count;
  uint64_t lists; /* hash of the given counts, which are compared as well */
  int64_t timeout_ns;
  const void *algorithm; /* algorithm that the call names; NULL if none */
  const void *input;
  void *output;
} gli_repeat_key;

/* A repeated call, and what was derived from its arguments. */
typedef struct gli_repeated_call {
  gli_repeat_key key;
  bool in_place;
  gli_shape shape_out_of_place, shape_in_place; /* shape as called, and as it
                                                   would be in place */
  const gli_counts *counts; /* counts of its plan; NULL if none */
} gli_repeated_call;

typedef struct gli_repeat {
  gli_repeated_call call;
  gli_operation *operation; /* NULL if none */
  bool busy;
} gli_repeat;

#endif
