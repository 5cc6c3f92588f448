/* Calls with several inputs and outputs per rank. */
#include <inttypes.h>

#include "api/call_read.h"
#include "core/error.h"

/* Limit on buffers: each is compared with all outputs. */
#define MOST_BUFFERS ((size_t)65536)

/* ---- numbers ------------------------------------------------------------- */

static size_t inputs_of(const gli_arguments *a, const gli_plan_params *p) {
  return a->collective == GLI_SCATTER ? p->size : a->n_inputs;
}

/* Returns the number of outputs. Ranks without output may pass NULL as the
 * list. */
static size_t outputs_of(const gli_arguments *a) {
  return a->outputs != NULL ? a->n_outputs : 0;
}

gloo_status gli_lists_read(const gli_arguments *a, gli_call *call,
                           gloo_error *error) {
  gli_plan_params *p = &call->params;
  if (a->n_inputs > MOST_BUFFERS || a->n_outputs > MOST_BUFFERS) {
    return gli_fail(error, GLOO_ERR_COUNT, -1,
                    "%s: %zu inputs and %zu outputs; the limit is %zu of each",
                    a->function, a->n_inputs, a->n_outputs, MOST_BUFFERS);
  }
  bool gathers = a->collective == GLI_ALLGATHER;
  if (gathers && !gli_mul_u64(p->count, a->n_inputs, &p->count)) {
    return gli_fail(error, GLOO_ERR_COUNT, -1,
                    "%s: %zu inputs of %zu elements exceed the address space",
                    a->function, a->n_inputs, a->count);
  }
  return GLOO_OK;
}

/* ---- in place ------------------------------------------------------------ */

/* Returns true without inputs, or with inputs of a call in place. */
static bool is_in_place(const gli_arguments *a, const gli_shape *shape_in_place,
                        bool combines) {
  if (!shape_in_place->in_place) return false;
  if (a->inputs == NULL) return true;
  if (shape_in_place->in_bytes == 0) return false;
  if (!combines) {
    return a->n_inputs == 1 && outputs_of(a) > 0 && a->outputs[0] != NULL &&
           a->inputs[0] ==
               (const uint8_t *)a->outputs[0] + shape_in_place->in_shift;
  }
  if (a->n_inputs != outputs_of(a)) return false;
  for (size_t i = 0; i < a->n_inputs; i++) {
    if (a->inputs[i] == NULL || a->inputs[i] != a->outputs[i]) return false;
  }
  return true;
}

/* ---- presence and overlap ------------------------------------------------ */

static gloo_status check_outputs(const gli_arguments *a, uint64_t bytes,
                                 gloo_error *error) {
  if (bytes > 0 && outputs_of(a) == 0) {
    return gli_fail(
        error, GLOO_ERR_BUFFER, -1,
        "%s: the list of outputs is empty, but an output needs %" PRIu64
        " bytes",
        a->function, bytes);
  }
  for (size_t i = 0; bytes > 0 && i < outputs_of(a); i++) {
    if (a->outputs[i] == NULL) {
      return gli_fail(error, GLOO_ERR_BUFFER, -1,
                      "%s: output %zu is NULL, but needs %" PRIu64 " bytes",
                      a->function, i, bytes);
    }
    for (size_t k = 0; k < i; k++) {
      if (!gli_overlap(a->outputs[k], bytes, a->outputs[i], bytes)) continue;
      return gli_fail(error, GLOO_ERR_BUFFER, -1,
                      "%s: outputs %zu and %zu overlap", a->function, k, i);
    }
  }
  return GLOO_OK;
}

/* Checks the inputs, which may overlap because they are only read. */
static gloo_status check_inputs(const gli_arguments *a, size_t n,
                                uint64_t bytes, uint64_t out_bytes,
                                gloo_error *error) {
  if (a->inputs == NULL || n == 0) {
    return gli_fail(error, GLOO_ERR_BUFFER, -1,
                    a->inputs != NULL ? "%s: the list of inputs is empty"
                                      : "%s: the list of inputs is NULL",
                    a->function);
  }
  for (size_t i = 0; bytes > 0 && i < n; i++) {
    if (a->inputs[i] == NULL) {
      return gli_fail(error, GLOO_ERR_BUFFER, -1,
                      "%s: input %zu is NULL, but has %" PRIu64 " bytes",
                      a->function, i, bytes);
    }
    for (size_t k = 0; out_bytes > 0 && k < outputs_of(a); k++) {
      if (!gli_overlap(a->inputs[i], bytes, a->outputs[k], out_bytes)) continue;
      return gli_fail(error, GLOO_ERR_BUFFER, -1,
                      "%s: input %zu and output %zu overlap; pass no inputs to "
                      "operate in place",
                      a->function, i, k);
    }
  }
  return GLOO_OK;
}

/* ---- a call -------------------------------------------------------------- */

/* Returns true if the shares of one input are contiguous. */
static bool lists_make_one(const gli_arguments *a, size_t n, uint64_t bytes) {
  for (size_t i = 1; i < n; i++) {
    if ((uintptr_t)a->inputs[i] != (uintptr_t)a->inputs[0] + i * bytes)
      return false;
  }
  return true;
}

static uint32_t lists_several(size_t n) {
  return n > 1 ? (uint32_t)n : 0;
}

gloo_status gli_lists_check(const gli_arguments *a, gli_call *call,
                            const gli_shape *shape_out_of_place,
                            const gli_shape *shape_in_place,
                            gloo_error *error) {
  gli_plan_params *p = &call->params;
  bool combines = gli_collective_reduces(a->collective);
  p->in_place = is_in_place(a, shape_in_place, combines);
  uint64_t out_bytes =
      p->in_place ? shape_in_place->out_bytes : shape_out_of_place->out_bytes;
  gloo_status status = check_outputs(a, out_bytes, error);
  if (status != GLOO_OK) return status;
  size_t n_in = p->in_place ? (combines ? outputs_of(a) : 1) : inputs_of(a, p);
  if (!p->in_place && shape_out_of_place->reads_in) {
    uint64_t bytes = shape_out_of_place->in_bytes;
    if (!combines && n_in > 0) bytes /= n_in;
    status = check_inputs(a, n_in, bytes, out_bytes, error);
    if (status != GLOO_OK) return status;
    call->input = a->inputs[0];
    if (!combines && lists_make_one(a, n_in, bytes)) n_in = 1;
  }
  p->n_in = shape_out_of_place->reads_in ? lists_several(n_in) : 0;
  p->n_out = shape_out_of_place->writes_out ? lists_several(outputs_of(a)) : 0;
  call->inputs = p->in_place ? (const void *const *)a->outputs : a->inputs;
  call->outputs = a->outputs;
  call->output = outputs_of(a) > 0 ? a->outputs[0] : NULL;
  return GLOO_OK;
}
