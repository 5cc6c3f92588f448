/* Options of reductions: custom operations, factors, order. */
#include <inttypes.h>
#include <stdio.h>

#include "api/call_read.h"
#include "core/error.h"
#include "kernels/custom_op.h"
#include "plan/lists.h"

/* ---- types and operations ------------------------------------------------ */

bool gli_reduction_is_custom(const gli_arguments *a) {
  return gli_collective_reduces(a->collective) && a->op == GLOO_CUSTOM;
}

size_t gli_reduction_element_bytes(const gli_arguments *a,
                                   const gloo_options *o) {
  bool opaque = a->dtype == GLOO_OPAQUE && gli_reduction_is_custom(a) &&
                o->custom != NULL;
  if (!opaque) return gloo_dtype_size(a->dtype);
  size_t own = gli_custom_op_element_bytes(o->custom);
  return own != 0 ? own : o->custom_element_bytes;
}

static gloo_status check_custom(const gli_arguments *a, const gloo_options *o,
                                gloo_error *error) {
  if (o->custom == NULL) {
    return gli_fail(
        error, GLOO_ERR_OP, -1,
        "%s: GLOO_CUSTOM needs an operation, but gloo_options.custom is NULL",
        a->function);
  }
  size_t own = gli_custom_op_element_bytes(o->custom);
  size_t size = gli_reduction_element_bytes(a, o);
  if (size == 0) {
    return gli_fail(
        error, GLOO_ERR_DTYPE, -1,
        "%s: the operation \"%s\" has no element_bytes: pass a type other than "
        "%s, or set gloo_options.custom_element_bytes",
        a->function, gli_custom_op_name(o->custom), gloo_dtype_name(a->dtype));
  }
  if (own == 0 || own == size) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_DTYPE, -1,
                  "%s: the operation \"%s\" is for elements of %zu bytes, but "
                  "%s has %zu; use GLOO_OPAQUE",
                  a->function, gli_custom_op_name(o->custom), own,
                  gloo_dtype_name(a->dtype), size);
}

/* Refuses integers. Factors multiply instead of dividing, which would leave too
 * little of integers. */
static gloo_status check_scaled(const gli_arguments *a, const gloo_options *o,
                                gloo_error *error) {
  if (!gli_dtype_is_inexact(a->dtype)) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "%s: %s is not defined for %s: factors apply to floats and "
                    "complex numbers only",
                    a->function, gloo_op_name(a->op),
                    gloo_dtype_name(a->dtype));
  }
  if (o->factor != NULL) return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_OP, -1,
      "%s: GLOO_SCALED_SUM needs a factor, but gloo_options.factor is NULL",
      a->function);
}

gloo_status gli_reduction_check(const gli_arguments *a, const gloo_options *o,
                                gloo_error *error) {
  if (a->op == GLOO_CUSTOM) return check_custom(a, o, error);
  if (a->op == GLOO_SCALED_SUM) return check_scaled(a, o, error);
  if ((unsigned)a->op >= (unsigned)GLOO_OP_COUNT) {
    return gli_fail(error, GLOO_ERR_OP, -1,
                    "%s: unknown reduction %d; see gloo_op", a->function,
                    (int)a->op);
  }
  const char *refusal = gli_reduce_refusal(a->dtype, a->op);
  if (refusal != NULL) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "%s: %s is not defined for %s: %s", a->function,
                    gloo_op_name(a->op), gloo_dtype_name(a->dtype), refusal);
  }
  bool prefix = a->collective == GLI_SCAN || a->collective == GLI_EXSCAN;
  if (prefix && a->op == GLOO_AVERAGE) {
    return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                    "%s: the operation average is not supported over some of "
                    "the ranks; use GLOO_SUM and divide the result",
                    a->function);
  }
  return GLOO_OK;
}

/* ---- order --------------------------------------------------------------- */

/* Returns the order that the result requires: none if every order gives the
 * same bits. */
static gli_order reduction_order_of(const gli_arguments *a,
                                    const gloo_options *o) {
  bool ordered = o->ordered != 0;
  if (a->op == GLOO_CUSTOM) {
    if (ordered) return GLI_ORDER_FOLD;
    return gli_custom_op_commutes(o->custom) ? GLI_ORDER_ANY : GLI_ORDER_RANKS;
  }
  bool shows = gli_dtype_is_inexact(a->dtype) && gli_op_rounds(a->op);
  return ordered && shows ? GLI_ORDER_FOLD : GLI_ORDER_ANY;
}

/* Lists the names, with ", " between them. */
static void list_names(const gli_arguments *a, gli_order order, char *text,
                       size_t bytes) {
  size_t used = 0;
  text[0] = 0;
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    const gli_algorithm *b = &gli_algorithms[i];
    if (b->collective != a->collective) continue;
    if (gli_algorithm_order(b) < order) continue;
    int n = snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                     b->name);
    if (n > 0 && (size_t)n < bytes - used) used += (size_t)n;
  }
  text[used] = 0;
}

gloo_status gli_reduction_allows(const gli_arguments *a, const gloo_options *o,
                                 const gli_call *call,
                                 const gli_algorithm *algorithm,
                                 gloo_error *error) {
  gli_order order = call->params.order;
  if (order == GLI_ORDER_ANY || gli_algorithm_order(algorithm) >= order) {
    return GLOO_OK;
  }
  char who[96] = "an ordered reduction", names[128];
  list_names(a, order, names, sizeof names);
  if (!o->ordered) {
    snprintf(who, sizeof who, "the operation \"%s\", which is not commutative,",
             gli_custom_op_name(o->custom));
  }
  return gli_fail(error, GLOO_ERR_UNSUPPORTED, -1,
                  "%s: the algorithm \"%s\" does not combine in rank order, "
                  "which %s needs; valid: %s",
                  a->function, algorithm->name, who, names);
}

/* ---- the call ------------------------------------------------------------ */

/* Sets up scaling. The scaled input goes to the place of the rank's result, as
 * in place; without room there, or if it must not be written, it goes to memory
 * of the operation. With several inputs their sum is scaled, where the plan
 * joins them. */
static void fill_scaling(const gloo_options *o, gli_call *call) {
  gli_plan_params *p = &call->params;
  gli_shape shape;
  call->scales_joined = gli_lists_has_inputs(p);
  if (call->scales_joined) {
    call->factor = *o->factor;
    return;
  }
  if (!gli_plan_shape(p, &shape) || shape.in_bytes == 0) return;
  bool kept = p->collective == GLI_EXSCAN && p->rank == 0;
  bool fits = shape.writes_out && shape.out_bytes >= shape.in_bytes && !kept;
  call->factor = *o->factor;
  call->unscaled = p->in_place ? call->output : call->input;
  call->unscaled_bytes = shape.in_bytes;
  p->in_place = fits;
}

/* ---- low-precision floats as float32 -------------------------------------
 *
 * The sum of an average, and products, may overflow a low-precision type, or
 * lose precision that the result could have. So they are float32 until the end:
 * in the kernel, if an algorithm combines all inputs in one step, and otherwise
 * also between ranks. */

/* Changes the plan to float32, with one input and one output. */
static gloo_status reduction_widen(const gli_arguments *a, gli_call *call,
                                   gloo_error *error) {
  gli_plan_params *p = &call->params;
  gli_shape shape;
  call->wide = true;
  p->low_precision = false;
  p->elem_bytes = sizeof(float);
  if (!gli_plan_shape(p, &shape) || shape.in_bytes > PTRDIFF_MAX ||
      shape.out_bytes > PTRDIFF_MAX) {
    return gli_fail(error, GLOO_ERR_COUNT, -1,
                    "%s: %" PRIu64
                    " elements exceed the address space as float32, in which "
                    "they are summed",
                    a->function, p->count);
  }
  bool kept = p->collective == GLI_EXSCAN && p->rank == 0;
  call->n_inputs = p->n_in > 1 ? p->n_in : 1;
  call->n_outputs = p->n_out > 1 ? p->n_out : shape.writes_out;
  if (p->in_place && !a->several) call->input = call->output;
  p->n_in = p->n_out = 0;
  p->in_place = shape.writes_out && shape.out_bytes >= shape.in_bytes && !kept;
  if (p->locality == GLI_MAPPED) p->locality = GLI_INTRA_NODE;
  return GLOO_OK;
}

gloo_status gli_reduction_fill(const gli_arguments *a, const gloo_options *o,
                               gli_call *call, gloo_error *error) {
  bool narrow = gli_dtype_is_low_precision(a->dtype);
  call->ordered = o->ordered != 0;
  call->params.order = reduction_order_of(a, o);
  call->params.low_precision = narrow && gli_op_rounds(a->op);
  call->params.average = narrow && a->op == GLOO_AVERAGE;
  if (a->op == GLOO_CUSTOM) {
    call->custom = o->custom;
    call->custom_type = o->custom_type;
  }
  if (a->op != GLOO_SCALED_SUM) return GLOO_OK;
  if (!narrow) {
    fill_scaling(o, call);
    return GLOO_OK;
  }
  call->factor = *o->factor;
  call->divisor = 1;
  return reduction_widen(a, call, error);
}

/* Decides how an average is computed: by kernels that divide, where a rank has
 * all operands at once. Operands of others are scaled down, because sums of
 * bfloat16 may overflow float32; see reduce_narrow.c. */
gloo_status gli_reduction_decide(const gli_arguments *a, gli_call *call,
                                 const gli_algorithm *algorithm, bool *changed,
                                 gloo_error *error) {
  const gli_plan_params *p = &call->params;
  *changed = false;
  if (a->op != GLOO_AVERAGE || p->size == 1) return GLOO_OK;
  call->averages =
      p->size == 2
          ? gli_dtype_is_inexact(a->dtype)
          : p->average && gli_algorithm_order(algorithm) == GLI_ORDER_FOLD;
  if (call->averages || !p->average) return GLOO_OK;
  *changed = true;
  call->factor = 0x1p-16;
  call->divisor = 0x1p-16f * (float)p->size;
  return reduction_widen(a, call, error);
}
