/* The forms of a call, and the cache of repeated calls. */
#include "api/call_read.h"

#include "core/error.h"
#include "core/hints.h"
#include "kernels/custom_op.h"
#include "memory/gpu.h"

/* ---- repeated calls ------------------------------------------------------ */

/* Fills the cache key of a call with one input, one output, and options that
 * need no check. Returns false for other calls. */
static bool repeat_key(const gloo_context *context, const gli_arguments *a,
                       const gloo_options *options, gli_repeat_key *key) {
  bool message = a->collective == GLI_SENDRECV;
  if (a->several) return false;
  if (message && (a->n_peers != 1 || a->peers == NULL)) return false;
  if (options != NULL) {
    if (options->struct_size != sizeof *options) return false;
    if (options->custom != NULL || options->factor != NULL ||
        options->stream != NULL || options->matched_by_init)
      return false;
  }
  *key =
      (gli_repeat_key){.collective = a->collective,
                       .dtype = a->dtype,
                       .op = a->op,
                       .who = message ? a->peers[0] : a->root,
                       .side = (int)a->side,
                       .ordered = options != NULL && options->ordered,
                       .tag = options != NULL ? options->tag : 0,
                       .count = a->count,
                       .timeout_ns = options != NULL ? options->timeout_ns : 0,
                       .input = a->input,
                       .output = a->output};
  if (gli_collective_counted(a->collective)) {
    key->in_place = a->input == GLOO_IN_PLACE;
    key->lists = gli_given_counts_hash(a, (uint32_t)gloo_context_rank(context),
                                       (uint32_t)gloo_context_size(context));
  }
  if (options == NULL || options->algorithm == NULL) return true;
  key->algorithm = gli_algorithm_find(a->collective, options->algorithm);
  return key->algorithm != NULL;
}

/* Returns true if check_buffers would accept the buffers with the same plan. */
static bool buffers_fit(const gli_arguments *a, const gli_repeated_call *r) {
  if (gli_call_in_place(a, &r->shape_in_place) != r->in_place) return false;
  if (r->in_place) return r->shape_in_place.out_bytes == 0 || a->output != NULL;
  if (r->shape_out_of_place.out_bytes > 0 && a->output == NULL) return false;
  if (r->shape_out_of_place.reads_in && a->input == GLOO_IN_PLACE) return false;
  if (r->shape_out_of_place.in_bytes > 0 && a->input == NULL) return false;
  return !gli_overlap(a->input, r->shape_out_of_place.in_bytes, a->output,
                      r->shape_out_of_place.out_bytes);
}

static bool call_fits(const gloo_context *context, const void *arguments,
                      const gli_repeated_call *r) {
  const gli_arguments *a = arguments;
  if (!buffers_fit(a, r)) return false;
  return r->counts == NULL ||
         gli_given_counts_same(a, r->counts,
                               (uint32_t)gloo_context_size(context));
}

/* Fills the cache entry of a call that was read. Returns false if the call uses
 * objects that are made for each call. */
static bool fill_repeated(const gli_call *call, gli_repeated_call *repeated) {
  if (gli_gpu_is_watched()) return false;
  repeated->in_place = call->params.in_place;
  repeated->shape_out_of_place = call->shape_out_of_place;
  repeated->shape_in_place = call->shape_in_place;
  return !call->wide;
}

/* ---- the forms ----------------------------------------------------------- */

gloo_status gli_call_null_request(const char *function, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `request` must not be NULL",
                  function);
}

/* Refuses `matched_by_init` for a call that is not prepared by `_init`. */
GLI_COLD static gloo_status call_refuse_matching(const gli_arguments *a,
                                                 gloo_error *error) {
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "%s: gloo_options.matched_by_init is for persistent "
                  "collectives (_init)",
                  a->function);
}

/* Runs a call that is not in the cache. `key` is its cache key, or NULL if it
 * cannot be cached. */
GLI_APART static gloo_status run_anew(gloo_context *context,
                                      const gli_arguments *a,
                                      const gloo_options *options,
                                      const gli_repeat_key *key, int *source,
                                      gloo_error *error) {
  gli_repeated_call repeated;
  bool repeatable = key != NULL;
  if (key != NULL) repeated.key = *key;
  gli_call call;
  gli_given_counts given;
  gloo_status status = gli_call_read(context, a, options, &call, &given, error);
  if (status != GLOO_OK) return status;
  if (call.matched_by_init) {
    gli_given_counts_free(&given);
    return call_refuse_matching(a, error);
  }
  repeatable = repeatable && fill_repeated(&call, &repeated);
  status = gli_operation_run(context, &call, repeatable ? &repeated : NULL,
                             source, error);
  gli_given_counts_free(&given);
  return status;
}

gloo_status gli_call_run(gloo_context *context, const gli_arguments *a,
                         const gloo_options *options, int *source,
                         gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  gli_repeat_key key;
  bool repeatable = context != NULL && !gli_custom_op_inside() &&
                    repeat_key(context, a, options, &key);
  if (repeatable) {
    gloo_status status =
        gli_repeat_run(context, &key, call_fits, a, source, error);
    if (status != GLOO_IN_PROGRESS) return status;
  }
  return run_anew(context, a, options, repeatable ? &key : NULL, source, error);
}

static gloo_status init_operation(gloo_context *context, const gli_arguments *a,
                                  const gloo_options *options, bool persistent,
                                  gli_repeated_call *repeated,
                                  gloo_request **request, gloo_error *error) {
  gli_call call;
  gli_given_counts given;
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (request == NULL) return gli_call_null_request(a->function, error);
  gloo_status status = gli_call_read(context, a, options, &call, &given, error);
  if (status != GLOO_OK) return status;
  if (call.matched_by_init && !persistent) {
    gli_given_counts_free(&given);
    return call_refuse_matching(a, error);
  }
  status = gli_operation_prepare(context, &call, request, error);
  gli_given_counts_free(&given);
  if (status == GLOO_OK && repeated != NULL && fill_repeated(&call, repeated)) {
    gli_repeat_remember(*request, repeated);
  }
  return status;
}

gloo_status gli_call_init(gloo_context *context, const gli_arguments *a,
                          const gloo_options *options, gloo_request **request,
                          gloo_error *error) {
  return init_operation(context, a, options, true, NULL, request, error);
}

gloo_status gli_call_launch(gloo_request *op, gloo_request **request,
                            gloo_error *error) {
  gloo_status status = gloo_request_start(op, error);
  if (status == GLOO_OK) {
    *request = op;
    return GLOO_OK;
  }
  gloo_request_destroy(op);
  return status;
}

gloo_status gli_call_start(gloo_context *context, const gli_arguments *a,
                           const gloo_options *options, gloo_request **request,
                           gloo_error *error) {
  if (request == NULL) return gli_call_null_request(a->function, error);
  gli_repeated_call repeated;
  bool repeatable = context != NULL && !gli_custom_op_inside() &&
                    repeat_key(context, a, options, &repeated.key);
  gloo_request *op = NULL;
  if (repeatable) {
    op = gli_repeat_prepare(context, &repeated.key, call_fits, a);
    if (op != NULL) return gli_call_launch(op, request, error);
  }
  gloo_status status = init_operation(
      context, a, options, false, repeatable ? &repeated : NULL, &op, error);
  if (status != GLOO_OK) return status;
  return gli_call_launch(op, request, error);
}
