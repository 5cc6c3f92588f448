/* Determines which buffers of a call are in memory that the host does not
 * access. */
#include <inttypes.h>

#include "api/call_read.h"
#include "core/error.h"
#include "gloo_c/memory.h"
#include "memory/gpu.h"
#include "plan/lists.h"

/* The buffers of one side of a call; `staged` if any must be staged. */
typedef struct side {
  const gli_arguments *a;
  const void *stream;
  bool staged;
} side;

/* Checks a buffer. The first and the last byte suffice: blocks that form one
 * buffer only by chance may be in different places. */
static gloo_status look_at(side *s, const void *memory, uint64_t bytes,
                           gloo_error *error) {
  gli_gpu_place first, last;
  if (memory == NULL || memory == GLOO_IN_PLACE || bytes == 0) return GLOO_OK;
  gloo_status status = gli_gpu_find(memory, &first, error);
  if (status == GLOO_OK)
    status = gli_gpu_find((const uint8_t *)memory + (bytes - 1), &last, error);
  if (status != GLOO_OK) return status;
  if (first.kind != last.kind || first.api != last.api ||
      first.device != last.device)
    return gli_fail(
        error, GLOO_ERR_BUFFER, -1,
        "%s: the %" PRIu64
        " bytes at %p span host memory and device memory, or several devices",
        s->a->function, bytes, memory);
  if (gli_gpu_copies(first.kind, s->stream)) s->staged = true;
  return GLOO_OK;
}

static gloo_status look_at_pieces(side *s, const gli_staging *staging,
                                  bool before, gloo_error *error) {
  const gli_piece *p = staging->pieces + (before ? 0 : staging->n_before);
  size_t n = before ? staging->n_before : staging->n_after;
  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < n && status == GLOO_OK; i++)
    status = look_at(s, before ? p[i].from : p[i].to, p[i].bytes, error);
  return status;
}

/* Returns the size of the caller's buffer: the plan may have wider elements. */
static uint64_t own_bytes(const gli_call *call, uint64_t bytes) {
  if (!call->wide) return bytes;
  return bytes / sizeof(float) * gloo_dtype_size(call->dtype);
}

static gloo_status look_at_inputs(side *s, const gli_call *call,
                                  uint64_t in_bytes, gloo_error *error) {
  const gli_plan_params *p = &call->params;
  gloo_status status = GLOO_OK;
  if (call->staging != NULL) {
    status = look_at_pieces(s, call->staging, true, error);
    if (status != GLOO_OK) return status;
  }
  if (call->unscaled != NULL)
    return look_at(s, call->unscaled, call->unscaled_bytes, error);
  size_t n = call->wide ? call->n_inputs : p->n_in;
  if (call->inputs == NULL || (n < 2 && !call->wide)) {
    bool own = !p->in_place || call->wide;
    return own ? look_at(s, call->input, own_bytes(call, in_bytes), error)
               : GLOO_OK;
  }
  uint64_t bytes = own_bytes(call, gli_lists_input_bytes(p, in_bytes));
  for (size_t i = 0; i < n && status == GLOO_OK; i++)
    status = look_at(s, call->inputs[i], bytes, error);
  return status;
}

static gloo_status look_at_outputs(side *s, const gli_call *call,
                                   uint64_t out_bytes, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (call->staging != NULL) {
    status = look_at_pieces(s, call->staging, false, error);
    if (status != GLOO_OK) return status;
  }
  size_t n = call->wide ? call->n_outputs : call->params.n_out;
  if (call->outputs == NULL || (n < 2 && !call->wide))
    return look_at(s, call->output, own_bytes(call, out_bytes), error);
  for (size_t i = 0; i < n && status == GLOO_OK; i++)
    status = look_at(s, call->outputs[i], own_bytes(call, out_bytes), error);
  return status;
}

static uint8_t staged_flags(const gli_call *call, bool in, bool out) {
  const gli_plan_params *p = &call->params;
  unsigned flags = (in ? GLI_STAGED_IN : 0) | (out ? GLI_STAGED_OUT : 0);
  /* Buffers made for inputs and outputs are filled by copies, wherever the
   * caller's are. */
  bool made = call->staging != NULL || call->unscaled != NULL || call->wide;
  if (made) flags = GLI_STAGED_IN | GLI_STAGED_OUT;
  if (made && p->in_place && gli_collective_reduces(p->collective))
    flags |= GLI_STAGED_MOVES;
  if (!made && p->in_place) flags = GLI_STAGED_OUT;
  bool divides = call->op == GLOO_AVERAGE && !call->averages && !call->wide;
  if (divides && (flags & GLI_STAGED_OUT)) flags |= GLI_STAGED_CHANGES;
  return (uint8_t)flags;
}

gloo_status gli_places_read(const gli_arguments *a, const gloo_options *o,
                            gli_call *call, gloo_error *error) {
  side in = {.a = a, .stream = o->stream}, out = in;
  gli_shape shape;
  if (!gli_gpu_is_default_stream(o->stream)) {
    gli_gpu *gpu;
    gloo_status status = gli_gpu_of_stream(o->stream, &gpu, error);
    if (status != GLOO_OK) return status;
  }
  if (!gli_plan_shape(&call->params, &shape)) return GLOO_OK;
  gloo_status status = look_at_inputs(&in, call, shape.in_bytes, error);
  if (status == GLOO_OK)
    status = look_at_outputs(&out, call, shape.out_bytes, error);
  if (status != GLOO_OK) return status;
  if (!in.staged && !out.staged) return GLOO_OK;
  call->params.staged = staged_flags(call, in.staged, out.staged);
  call->stream = o->stream;
  return GLOO_OK;
}

gloo_status gloo_memory_locate(const void *memory, int *gpu,
                               gloo_error *error) {
  gli_gpu_place place = {.kind = GLI_MEMORY_HOST};
  gloo_status status = GLOO_OK;
  if (gpu == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "gloo_memory_locate: `gpu` must not be NULL");
  if (gli_gpu_is_watched()) status = gli_gpu_find(memory, &place, error);
  if (status == GLOO_OK)
    *gpu = gli_gpu_copies(place.kind, NULL) ? place.device : -1;
  return status;
}
