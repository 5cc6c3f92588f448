/* Checks of arguments, and the choice of the algorithm. */
#include "api/call_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/select.h"
#include "core/error.h"
#include "core/options.h"
#include "kernels/custom_op.h"
#include "memory/gpu.h"

/* ---- point-to-point plans ------------------------------------------------ */

/* Returns the whole buffer; a message of no elements is still a message. */
static gli_range call_read_whole(const gli_plan_params *p, gli_buffer buffer) {
  if (p->count == 0) return gli_bytes(GLI_TOKEN, 0, 1);
  return gli_elems(p, buffer, 0, p->count);
}

static void build_send(gli_builder *b, const gli_plan_params *p) {
  gli_send(b, 1, call_read_whole(p, GLI_IN));
}

/* Copies the input before it is sent, because another message is received into
 * it. */
static void build_send_copy(gli_builder *b, const gli_plan_params *p) {
  gli_range whole_copy = gli_scratch(b, p->count * p->elem_bytes);
  gli_copy(b, gli_elems(p, GLI_IN, 0, p->count), whole_copy);
  gli_send(b, 1, p->count == 0 ? call_read_whole(p, GLI_IN) : whole_copy);
}

/* Builds an empty plan, for messages to or from no rank. */
static void build_nothing(gli_builder *b, const gli_plan_params *p) {
  (void)b;
  (void)p;
}

static void build_recv(gli_builder *b, const gli_plan_params *p) {
  gli_recv(b, 0, call_read_whole(p, GLI_OUT));
}

static gli_build_fn message_builder(const gli_arguments *a) {
  switch (a->side) {
    case GLI_SENDS_COPY:
      return build_send_copy;
    case GLI_RECEIVES:
      return build_recv;
    case GLI_NEITHER:
      return build_nothing;
    case GLI_SENDS:
      break;
  }
  return build_send;
}

/* ---- checks -------------------------------------------------------------- */

static gloo_status check_values(const gli_arguments *a, const gloo_options *o,
                                int size, gloo_error *error) {
  if (a->collective == GLI_BARRIER) return GLOO_OK;
  if (gli_reduction_element_bytes(a, o) == 0 && !gli_reduction_is_custom(a)) {
    return gli_fail(error, GLOO_ERR_DTYPE, -1,
                    "%s: unknown type %d; see gloo_dtype", a->function,
                    (int)a->dtype);
  }
  if (gli_collective_reduces(a->collective)) {
    gloo_status status = gli_reduction_check(a, o, error);
    if (status != GLOO_OK) return status;
    if (a->several && a->listed == 0 && a->op == GLOO_AVERAGE) {
      return gli_fail(
          error, GLOO_ERR_UNSUPPORTED, -1,
          "%s: the operation average is not supported: ranks may differ in "
          "their number of inputs; use GLOO_SUM and divide the result",
          a->function);
    }
  }
  if (gli_collective_rooted(a->collective) &&
      (a->root < 0 || a->root >= size)) {
    return gli_fail(error, GLOO_ERR_ROOT, -1,
                    "%s: root %d is not a rank; ranks are 0 to %d", a->function,
                    a->root, size - 1);
  }
  if (a->n_peers > 0 && a->peers == NULL) {
    return gli_fail(error, GLOO_ERR_RANK, -1, "%s: a list of %zu peers is NULL",
                    a->function, a->n_peers);
  }
  for (size_t i = 0; i < a->n_peers; i++) {
    if (a->peers[i] >= 0 && a->peers[i] < size) continue;
    return gli_fail(error, GLOO_ERR_RANK, -1,
                    "%s: peer %d is not a rank; ranks are 0 to %d", a->function,
                    a->peers[i], size - 1);
  }
  return GLOO_OK;
}

static gloo_status no_place(const gli_arguments *a, gloo_error *error) {
  if (a->collective == GLI_SENDRECV) {
    return gli_fail(error, GLOO_ERR_BUFFER, -1,
                    "%s: not possible in place; pass a separate input buffer",
                    a->function);
  }
  return gli_fail(error, GLOO_ERR_BUFFER, -1,
                  "%s: only the root can use GLOO_IN_PLACE; other ranks have "
                  "no output buffer",
                  a->function);
}

/* Computes the call's shapes out of place and in place. */
static gloo_status find_shapes(const gli_arguments *a, gli_plan_params *p,
                               gli_shape *shape_out_of_place,
                               gli_shape *shape_in_place, gloo_error *error) {
  p->in_place = true;
  bool fits = gli_plan_shape(p, shape_in_place);
  p->in_place = false;
  if (!fits || !gli_plan_shape(p, shape_out_of_place) ||
      shape_in_place->in_bytes > PTRDIFF_MAX ||
      shape_in_place->out_bytes > PTRDIFF_MAX) {
    return gli_fail(error, GLOO_ERR_COUNT, -1,
                    "%s: %" PRIu64 " elements of %" PRIu64
                    " bytes exceed the address space",
                    a->function, p->count, p->elem_bytes);
  }
  if (a->collective == GLI_SENDRECV) {
    shape_in_place->in_place = false;
    bool receives = a->side == GLI_RECEIVES;
    shape_out_of_place->reads_in = !receives;
    if (receives) shape_out_of_place->in_bytes = 0;
    if (!receives) shape_out_of_place->out_bytes = 0;
  }
  return GLOO_OK;
}

/* Decides whether the call is in place, and refuses NULL and overlapping
 * buffers. */
static gloo_status check_buffers(const gli_arguments *a, gli_call *call,
                                 gloo_error *error) {
  gli_plan_params *p = &call->params;
  gloo_status status = find_shapes(a, p, &call->shape_out_of_place,
                                   &call->shape_in_place, error);
  if (status != GLOO_OK) return status;
  gli_shape shape_out_of_place = call->shape_out_of_place;
  if (a->several)
    return gli_lists_check(a, call, &shape_out_of_place, &call->shape_in_place,
                           error);
  p->in_place = gli_call_in_place(a, &call->shape_in_place);
  uint64_t out_bytes = p->in_place ? call->shape_in_place.out_bytes
                                   : shape_out_of_place.out_bytes;
  if (out_bytes > 0 && a->output == NULL) {
    return gli_fail(error, GLOO_ERR_BUFFER, -1,
                    "%s: the output is NULL, but needs %" PRIu64 " bytes",
                    a->function, out_bytes);
  }
  if (p->in_place) return GLOO_OK;
  if (shape_out_of_place.reads_in && a->input == GLOO_IN_PLACE)
    return no_place(a, error);
  if (shape_out_of_place.in_bytes > 0 && a->input == NULL) {
    return gli_fail(error, GLOO_ERR_BUFFER, -1,
                    "%s: the input is NULL, but has %" PRIu64
                    " bytes; pass GLOO_IN_PLACE if the output holds the input",
                    a->function, shape_out_of_place.in_bytes);
  }
  if (gli_overlap(a->input, shape_out_of_place.in_bytes, a->output,
                  out_bytes)) {
    return gli_fail(error, GLOO_ERR_BUFFER, -1,
                    "%s: input and output overlap; use GLOO_IN_PLACE or "
                    "buffers that do not",
                    a->function);
  }
  return GLOO_OK;
}

/* ---- algorithm ----------------------------------------------------------- */

static gloo_status call_read_unknown_algorithm(const gli_arguments *a,
                                               const char *name,
                                               gloo_error *error) {
  char known[256] = "";
  size_t used = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    if (gli_algorithms[i].collective != a->collective) continue;
    int n = snprintf(known + used, sizeof known - used, "%s%s",
                     used ? ", " : "", gli_algorithms[i].name);
    if (n > 0 && (size_t)n < sizeof known - used) used += (size_t)n;
  }
  return gli_fail(error, GLOO_ERR_NOT_FOUND, -1,
                  "%s: unknown algorithm \"%.64s\"; valid: %s", a->function,
                  name, used ? known : "none");
}

static gloo_status call_read_choose(const gli_arguments *a,
                                    const gloo_options *o, gli_call *call,
                                    gloo_error *error) {
  gli_plan_params *p = &call->params;
  const char *name = o->algorithm;
  if (a->collective == GLI_SENDRECV) {
    if (name != NULL) return call_read_unknown_algorithm(a, name, error);
    call->build = message_builder(a);
    p->segment_bytes =
        p->locality ? GLI_SELECT_SEGMENT : GLI_SELECT_SEGMENT_OF_ROUND;
    return GLOO_OK;
  }
  gli_choice choice = {.algorithm = NULL};
  if (name == NULL) {
    choice = gli_algorithm_choose(p);
  } else {
    choice.algorithm = gli_algorithm_find(a->collective, name);
    if (choice.algorithm != NULL) {
      choice.segment_bytes = gli_segment_bytes(choice.algorithm, p);
    }
  }
  if (choice.algorithm == NULL)
    return call_read_unknown_algorithm(a, name, error);
  bool changed;
  gloo_status status =
      gli_reduction_decide(a, call, choice.algorithm, &changed, error);
  if (status != GLOO_OK) return status;
  if (changed) choice.segment_bytes = gli_segment_bytes(choice.algorithm, p);
  call->build = choice.algorithm->build;
  call->algorithm = gli_algorithm_id(choice.algorithm);
  p->segment_bytes = choice.segment_bytes;
  return gli_reduction_allows(a, o, call, choice.algorithm, error);
}

/* ---- the call ------------------------------------------------------------ */

static void fill_call(gloo_context *context, const gli_arguments *a,
                      const gloo_options *options, gli_call *call) {
  int size = gloo_context_size(context);
  bool message = a->collective == GLI_SENDRECV;
  bool typed = a->collective != GLI_BARRIER;
  *call = (gli_call){
      .params = {.collective = a->collective,
                 .rank = message ? a->side == GLI_RECEIVES
                                 : (uint32_t)gloo_context_rank(context),
                 .size = message ? 2 : (uint32_t)size,
                 .root = (uint32_t)a->root,
                 .count = a->count,
                 .elem_bytes =
                     typed ? gli_reduction_element_bytes(a, options) : 1,
                 .hosts = message ? NULL : gli_context_hosts(context),
                 .oversubscribed = gli_context_oversubscribed(context),
                 .locality = gli_context_locality(context),
                 .tuning = gli_context_tuning(context)},
      .dtype = typed ? a->dtype : GLOO_DTYPE_COUNT,
      .op = gli_collective_reduces(a->collective) ? a->op : GLOO_OP_COUNT,
      .tag = options->tag,
      .matched_by_init = options->matched_by_init != 0,
      .input = a->input,
      .output = a->output,
      .timeout_ns = options->timeout_ns,
      .peers = a->peers,
      .n_peers = a->n_peers};
}

static gloo_status make_call(gloo_context *context, const gli_arguments *a,
                             const gloo_options *options, gli_call *call,
                             gli_given_counts *given, gloo_error *error) {
  gloo_status status =
      check_values(a, options, gloo_context_size(context), error);
  if (status != GLOO_OK) return status;
  if (options->matched_by_init && a->collective == GLI_SENDRECV)
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "%s: gloo_options.matched_by_init does not apply to "
                    "messages, which are matched by tag and order",
                    a->function);
  fill_call(context, a, options, call);
  if (a->several) {
    status = gli_lists_read(a, call, error);
    if (status != GLOO_OK) return status;
  }
  if (gli_collective_counted(a->collective)) {
    status = gli_given_counts_read(given, a, &call->params, error);
    if (status != GLOO_OK) return status;
  }
  status = check_buffers(a, call, error);
  if (status != GLOO_OK) return status;
  if (gli_collective_reduces(a->collective)) {
    status = gli_reduction_fill(a, options, call, error);
    if (status != GLOO_OK) return status;
  }
  return call_read_choose(a, options, call, error);
}

/* Reads a call with lists: as a plain call, on contiguous memory. */
static gloo_status make_listed_call(gloo_context *context,
                                    const gli_arguments *a,
                                    const gloo_options *options, gli_call *call,
                                    gli_given_counts *given,
                                    gloo_error *error) {
  int size = gloo_context_size(context);
  gli_arguments plain;
  gli_staging *staging;
  gloo_status status = check_values(a, options, size, error);
  if (status != GLOO_OK) return status;
  status = gli_staging_make(
      a, (uint32_t)gloo_context_rank(context), (uint32_t)size,
      gli_reduction_element_bytes(a, options), &plain, &staging, error);
  if (status != GLOO_OK) return status;
  status = make_call(context, &plain, options, call, given, error);
  call->staging = staging;
  if (status != GLOO_OK) free(staging);
  return status;
}

gloo_status gli_call_read(gloo_context *context, const gli_arguments *a,
                          const gloo_options *options, gli_call *call,
                          gli_given_counts *given, gloo_error *error) {
  gloo_options ours;
  if (context == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the context is NULL",
                    a->function);
  if (gli_custom_op_inside()) return gli_custom_op_refuse(a->function, error);
  gloo_status status =
      gli_options_load(&ours, sizeof ours, options, "gloo_options", error);
  given->many = NULL;
  if (status == GLOO_OK) {
    status = a->listed != 0
                 ? make_listed_call(context, a, &ours, call, given, error)
                 : make_call(context, a, &ours, call, given, error);
  }
  if (status == GLOO_OK && (gli_gpu_is_watched() || ours.stream != NULL)) {
    status = gli_places_read(a, &ours, call, error);
    if (status != GLOO_OK) free(call->staging);
  }
  if (status == GLOO_OK) return GLOO_OK;
  gli_given_counts_free(given);
  /* Invalid arguments are an error on this rank only: they do not fail the
   * context. */
  return gli_context_refuse(context, error);
}

gloo_status gli_call_choice(gloo_context *context, const gli_arguments *a,
                            const gloo_options *options, gli_call *call,
                            gloo_error *error) {
  gloo_status status =
      check_values(a, options, gloo_context_size(context), error);
  if (status != GLOO_OK) return status;
  fill_call(context, a, options, call);
  status = find_shapes(a, &call->params, &call->shape_out_of_place,
                       &call->shape_in_place, error);
  if (status == GLOO_OK && gli_collective_reduces(a->collective))
    status = gli_reduction_fill(a, options, call, error);
  if (status == GLOO_OK) status = call_read_choose(a, options, call, error);
  return status;
}
