/* Low-precision floats that are summed as float32 throughout: averages by
 * algorithms that pass on partial sums, and scaled sums. The plan is float32,
 * and the caller's buffers are converted before and after it. */
#include <stdlib.h>

#include "core/error.h"
#include "engine/memory/memory.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"

enum { BLOCK = 1024 }; /* elements that stay in the caches */

struct gli_wide {
  size_t elem_bytes;
  size_t in_count, out_count; /* number of elements in each buffer of the
                                 caller */
  size_t n_in, n_out;
  float divisor;
  float *in, *out;
  const void **inputs;
  void **outputs; /* both lists are behind this struct, and then the memory of
                     `in` and `out` */
};

/* Returns true if the plan writes this rank's output. */
static bool has_result(const gli_plan_params *p, const gli_shape *shape) {
  bool kept = p->collective == GLI_EXSCAN && p->rank == 0;
  return shape->writes_out && !kept;
}

static gloo_status wide_no_memory(uint64_t bytes, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for %llu bytes of float32 to sum in",
                  (unsigned long long)bytes);
}

static gli_wide *make_wide(const gli_call *call, const gli_shape *shape) {
  const gli_plan_params *p = &call->params;
  uint64_t in_bytes = shape->in_bytes, out_bytes = shape->out_bytes;
  if (shape->in_place) in_bytes = 0;
  size_t room =
      sizeof(gli_wide) + (call->n_inputs + call->n_outputs) * sizeof(void *);
  room = (room + 63) / 64 * 64;
  uint64_t bytes;
  if (!gli_add_u64(in_bytes, out_bytes, &bytes)) return NULL;
  if (!gli_add_u64(bytes, room, &bytes) || bytes > SIZE_MAX) return NULL;
  gli_wide *w = malloc((size_t)bytes);
  if (w == NULL) return NULL;
  float *first = (float *)(void *)((uint8_t *)w + room);
  uint64_t result = p->counts != NULL ? p->counts->own : p->count;
  *w = (gli_wide){.elem_bytes = gloo_dtype_size(call->dtype),
                  .in_count = (size_t)(shape->in_bytes / sizeof(float)),
                  .out_count = has_result(p, shape) ? (size_t)result : 0,
                  .n_in = call->n_inputs,
                  .n_out = call->n_outputs,
                  .divisor = call->divisor,
                  .in = first,
                  .out = first + in_bytes / sizeof(float),
                  .inputs = (const void **)(w + 1)};
  w->outputs = (void **)(w->inputs + w->n_in);
  return w;
}

gloo_status gli_wide_prepare(gli_operation *op, const gli_call *call,
                             gloo_error *error) {
  gli_shape shape;
  gli_wide *w = NULL;
  bool fits = gli_plan_shape(&call->params, &shape);
  if (fits) w = make_wide(call, &shape);
  if (w == NULL)
    return wide_no_memory(fits ? shape.in_bytes : UINT64_MAX, error);
  for (size_t i = 0; i < w->n_in; i++) {
    w->inputs[i] = call->inputs != NULL ? call->inputs[i] : call->input;
  }
  for (size_t i = 0; i < w->n_out; i++) {
    w->outputs[i] = call->outputs != NULL ? call->outputs[i] : call->output;
  }
  op->wide = w;
  op->scaling.from = w;
  op->base[GLI_IN] = (uint8_t *)w->in;
  op->base[GLI_OUT] = (uint8_t *)w->out;
  return GLOO_OK;
}

gli_wide_buffers gli_wide_of(const gli_operation *op) {
  const gli_wide *w = op->wide;
  return (gli_wide_buffers){.elem_bytes = w->elem_bytes,
                            .in_bytes = w->in_count * w->elem_bytes,
                            .out_bytes = w->out_count * w->elem_bytes,
                            .n_in = w->n_in,
                            .n_out = w->n_out,
                            .inputs = w->inputs,
                            .outputs = w->outputs};
}

/* The elements of a range of the plan's buffer, as far as the caller's buffer
 * has them. */
typedef struct elements {
  size_t first, end;
} elements;

static elements elements_of(uint64_t from, uint64_t bytes, size_t count) {
  uint64_t first = from / sizeof(float), end = (from + bytes) / sizeof(float);
  return (elements){(size_t)(first < count ? first : count),
                    (size_t)(end < count ? end : count)};
}

/* Widens, scales and adds up the inputs. Products may be as large as floats
 * are, but sums of low-precision floats are not. */
void gli_wide_begin(const gli_operation *op, uint64_t from, uint64_t bytes) {
  const gli_wide *w = op->wide;
  gloo_dtype dtype = (gloo_dtype)op->signature.dtype;
  gli_widen_fn widen = gli_widen_kernel(dtype);
  gli_reduce_fn add = gli_reduce_kernel(GLOO_FLOAT32, GLOO_SUM);
  float next[BLOCK];
  elements e = elements_of(from, bytes, w->in_count);
  for (size_t at = e.first, n; at < e.end; at += n) {
    n = e.end - at < BLOCK ? e.end - at : BLOCK;
    size_t skip = at * w->elem_bytes;
    widen(w->in + at, (const uint8_t *)w->inputs[0] + skip, n,
          op->scaling.factor);
    for (size_t i = 1; i < w->n_in; i++) {
      widen(next, (const uint8_t *)w->inputs[i] + skip, n, op->scaling.factor);
      add(w->in + at, w->in + at, next, n);
    }
  }
}

void gli_wide_end(const gli_operation *op, uint64_t from, uint64_t bytes) {
  const gli_wide *w = op->wide;
  gli_narrow_fn narrow = gli_narrow_kernel((gloo_dtype)op->signature.dtype);
  if (w->n_out == 0) return;
  elements e = elements_of(from, bytes, w->out_count);
  for (size_t at = e.first, n; at < e.end; at += n) {
    n = e.end - at < BLOCK ? e.end - at : BLOCK;
    size_t skip = at * w->elem_bytes;
    uint8_t *first = (uint8_t *)w->outputs[0] + skip;
    narrow(first, w->out + at, n, w->divisor);
    for (size_t i = 1; i < w->n_out; i++) {
      gli_copy_bytes((uint8_t *)w->outputs[i] + skip, first, n * w->elem_bytes);
    }
  }
}
