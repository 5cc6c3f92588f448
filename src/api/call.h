/* From the arguments of a public function to an operation. */
#ifndef GLI_API_CALL_H
#define GLI_API_CALL_H

#include "engine/engine.h"

/* The part of a rank in a message. */
typedef enum gli_side {
  GLI_SENDS,
  GLI_SENDS_COPY, /* copies the input before anything is received */
  GLI_RECEIVES,
  GLI_NEITHER
} gli_side;

enum { GLI_LISTS_INPUTS = 1, GLI_LISTS_OUTPUTS = 2 };

/* The arguments of any collective or message, in one struct. Fields that a
 * collective does not have stay zero. */
typedef struct gli_arguments {
  gli_collective collective;
  const char *function; /* public name, for messages */
  const void *input;
  void *output;
  size_t count;
  gloo_dtype dtype;
  gloo_op op;
  int root;
  gli_side side; /* of GLI_SENDRECV */
  const int *peers;
  size_t n_peers;
  /* The counts and offsets of collectives with one count per rank. `count` is
   * then the length of a buffer that is a single block. */
  const size_t *in_counts, *in_first, *out_counts, *out_first;
  /* True for calls with several buffers, which use neither `input` nor
   * `output`. `inputs` is NULL if the call is in place. */
  bool several;
  /* For calls with separate blocks: GLI_LISTS_... for `inputs` and `outputs`
   * that are lists of blocks in place of `input` and `output`. A list has one
   * entry per rank; for an allreduce, n_inputs entries of in_counts elements
   * each. */
  uint8_t listed;
  const void *const *inputs;
  void *const *outputs;
  size_t n_inputs, n_outputs;
} gli_arguments;

/* The three forms of every call. */
gloo_status gli_call_run(gloo_context *context, const gli_arguments *arguments,
                         const gloo_options *options, int *source,
                         gloo_error *error);
gloo_status gli_call_start(gloo_context *context,
                           const gli_arguments *arguments,
                           const gloo_options *options, gloo_request **request,
                           gloo_error *error);
gloo_status gli_call_init(gloo_context *context, const gli_arguments *arguments,
                          const gloo_options *options, gloo_request **request,
                          gloo_error *error);

/* Starts the request that `_init` made, and stores it in *request; releases it
 * on failure. */
gloo_status gli_call_launch(gloo_request *op, gloo_request **request,
                            gloo_error *error);
/* Fails because the location of the request is NULL. */
gloo_status gli_call_null_request(const char *function, gloo_error *error);

#endif
