/* The forms of a call, and the same call again. */
#include "api/call.h"

#include "algorithms/registry.h"
#include "api/call_read.h"
#include "core/custom_op.h"
#include "core/hints.h"

/* ---- the same call again ------------------------------------------------- */

/* Those that have one input and output, and whose options name nothing that
 * would have to be looked at, are remembered by the context. False: not this
 * one. */
static bool repeat_key(const gloo_context *context, const gli_arguments *a,
                       const gloo_options *options, gli_repeat_key *key) {
  bool message = a->collective == GLI_SENDRECV;
  if (a->several) return false;
  if (message && (a->n_peers != 1 || !a->peers)) return false;
  if (options) {
    if (options->struct_size != sizeof *options) return false;
    if (options->custom || options->factor) return false;
  }
  *key = (gli_repeat_key){.collective = a->collective,
                          .dtype = a->dtype,
                          .op = a->op,
                          .who = message ? a->peers[0] : a->root,
                          .side = (int)a->side,
                          .ordered = options && options->ordered,
                          .tag = options ? options->tag : 0,
                          .count = a->count,
                          .timeout_ns = options ? options->timeout_ns : 0,
                          .input = a->input,
                          .output = a->output};
  if (gli_collective_counted(a->collective)) {
    key->in_place = a->input == GLOO_IN_PLACE;
    key->lists = gli_numbers_hash(a, (uint32_t)gloo_context_rank(context),
                                  (uint32_t)gloo_context_size(context));
  }
  if (!options || !options->algorithm) return true;
  key->algorithm = gli_algorithm_find(a->collective, options->algorithm);
  return key->algorithm != NULL;
}

/* Buffers that check_buffers would take, with the same plan. */
static bool buffers_fit(const gli_arguments *a, const gli_repeated_call *r) {
  if (gli_call_in_place(a, &r->within) != r->in_place) return false;
  if (r->in_place) return r->within.out_bytes == 0 || a->output;
  if (r->apart.out_bytes > 0 && !a->output) return false;
  if (r->apart.reads_in && a->input == GLOO_IN_PLACE) return false;
  if (r->apart.in_bytes > 0 && !a->input) return false;
  return !gli_overlap(a->input, r->apart.in_bytes, a->output,
                      r->apart.out_bytes);
}

static bool fits(const gloo_context *context, const void *arguments,
                 const gli_repeated_call *r) {
  const gli_arguments *a = arguments;
  if (!buffers_fit(a, r)) return false;
  return !r->counts ||
         gli_numbers_same(a, r->counts, (uint32_t)gloo_context_size(context));
}

/* What to remember of a call that has been read. False: what it works on is
 * made for each call. */
static bool fill_repeated(const gli_call *call, gli_repeated_call *repeated) {
  repeated->in_place = call->params.in_place;
  repeated->apart = call->apart;
  repeated->within = call->within;
  return !call->wide;
}

/* False: it is to be made from the start. */
static bool run_again(gloo_context *context, const gli_arguments *a,
                      const gloo_options *options, const gli_repeat_key *key,
                      int *source, gloo_status *status) {
  gloo_error error;
  *status = gli_repeat_run(context, key, fits, a, source, &error);
  if (*status == GLOO_IN_PROGRESS) return false;
  if (*status != GLOO_OK && options && options->error) *options->error = error;
  return true;
}

/* ---- the forms ----------------------------------------------------------- */

/* Not one that is remembered. `key` is what it is to be remembered by; NULL: it
 * cannot be. */
GLI_APART static gloo_status run_anew(gloo_context *context,
                                      const gli_arguments *a,
                                      const gloo_options *options,
                                      const gli_repeat_key *key, int *source) {
  gli_repeated_call repeated;
  bool repeatable = key != NULL;
  if (key) repeated.key = *key;
  gloo_options ours;
  gli_call call;
  gli_numbers numbers;
  gloo_status status =
      gli_call_read(context, a, options, &ours, &call, &numbers);
  if (status != GLOO_OK) return status;
  repeatable = repeatable && fill_repeated(&call, &repeated);
  gloo_error error;
  status = gli_operation_run(context, &call, repeatable ? &repeated : NULL,
                             source, &error);
  gli_numbers_free(&numbers);
  if (status != GLOO_OK && ours.error) *ours.error = error;
  return status;
}

gloo_status gli_call_run(gloo_context *context, const gli_arguments *a,
                         const gloo_options *options, int *source) {
  gli_repeat_key key;
  bool repeatable = context && !gli_custom_op_inside() &&
                    repeat_key(context, a, options, &key);
  gloo_status status;
  if (repeatable && run_again(context, a, options, &key, source, &status)) {
    return status;
  }
  return run_anew(context, a, options, repeatable ? &key : NULL, source);
}

static gloo_status init_operation(gloo_context *context, const gli_arguments *a,
                                  const gloo_options *options,
                                  gloo_options *ours,
                                  gli_repeated_call *repeated,
                                  gloo_operation **operation) {
  gli_call call;
  gli_numbers numbers;
  if (!operation) return GLOO_ERR_INVALID;
  gloo_status status =
      gli_call_read(context, a, options, ours, &call, &numbers);
  if (status != GLOO_OK) return status;
  gloo_error error;
  status = gli_operation_prepare(context, &call, operation, &error);
  gli_numbers_free(&numbers);
  if (status != GLOO_OK && ours->error) *ours->error = error;
  if (status == GLOO_OK && repeated && fill_repeated(&call, repeated)) {
    gli_repeat_remember(*operation, repeated);
  }
  return status;
}

gloo_status gli_call_init(gloo_context *context, const gli_arguments *a,
                          const gloo_options *options,
                          gloo_operation **operation) {
  gloo_options ours;
  return init_operation(context, a, options, &ours, NULL, operation);
}

gloo_status gli_call_launch(gloo_operation *op, gloo_error *why,
                            gloo_operation **operation) {
  gloo_status status = gloo_operation_start(op);
  if (status == GLOO_OK) {
    *operation = op;
    return GLOO_OK;
  }
  if (why) gloo_operation_error(op, why);
  gloo_operation_destroy(op);
  return status;
}

gloo_status gli_call_start(gloo_context *context, const gli_arguments *a,
                           const gloo_options *options,
                           gloo_operation **operation) {
  if (!operation) return GLOO_ERR_INVALID;
  gli_repeated_call repeated;
  bool repeatable = context && !gli_custom_op_inside() &&
                    repeat_key(context, a, options, &repeated.key);
  gloo_operation *op = NULL;
  if (repeatable) {
    op = gli_repeat_prepare(context, &repeated.key, fits, a);
    if (op) {
      return gli_call_launch(op, options ? options->error : NULL, operation);
    }
  }
  gloo_options ours;
  gloo_status status = init_operation(context, a, options, &ours,
                                      repeatable ? &repeated : NULL, &op);
  if (status != GLOO_OK) return status;
  return gli_call_launch(op, ours.error, operation);
}
