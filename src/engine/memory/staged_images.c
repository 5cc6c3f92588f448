/* Images of buffers that the host does not access. */
#include <stdlib.h>

#include "core/error.h"
#include "engine/memory/staged_state.h"
#include "engine/state/device.h"
#include "plan/lists.h"

/* ---- memory -------------------------------------------------------------- */

/* Return the maximum number of parts of a side. */
static size_t most_ins(const gli_call *call) {
  size_t pieces = call->staging != NULL ? call->staging->n_before : 0;
  size_t buffers = call->wide ? call->n_inputs : call->params.n_in;
  return pieces + buffers + call->params.n_out + 1;
}

static size_t most_outs(const gli_call *call) {
  size_t pieces = call->staging != NULL ? call->staging->n_after : 0;
  size_t buffers = call->wide ? call->n_outputs : call->params.n_out;
  return pieces + buffers + 1;
}

static void count_copies(const gli_plan *plan, uint32_t n[]) {
  n[GLI_GPU_TO_HOST] = n[GLI_GPU_TO_DEVICE] = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    n[GLI_GPU_TO_HOST] += plan->steps[i].kind == GLI_STEP_COPY_IN;
    n[GLI_GPU_TO_DEVICE] += plan->steps[i].kind == GLI_STEP_COPY_OUT;
  }
}

/* Allocates a gli_staged with all its arrays. */
static gli_staged *staged_new(const gli_operation *op, const gli_call *call) {
  size_t ins = most_ins(call), outs = most_outs(call);
  size_t most = ins + outs; /* bound of the number of GPUs, and of images */
  uint32_t copies[GLI_GPU_DIRECTIONS];
  count_copies(op->plan, copies);
  gli_staged *s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->ins.list = calloc(ins + 1, sizeof *s->ins.list);
  s->outs.list = calloc(outs + 1, sizeof *s->outs.list);
  s->gpus = calloc(most + 1, sizeof(void *));
  s->used = calloc(most + 1, sizeof(bool));
  s->gates = calloc(most + 1, sizeof(void *));
  s->images = calloc(most + 1, sizeof(void *));
  bool ok = s->ins.list != NULL && s->outs.list != NULL && s->gpus != NULL &&
            s->used != NULL && s->gates != NULL && s->images != NULL;
  for (int i = 0; i < GLI_GPU_DIRECTIONS; i++) {
    s->lanes[i].waiting = calloc(copies[i] + 1, sizeof(uint32_t));
    ok = ok && s->lanes[i].waiting != NULL;
  }
  if (ok) return s;
  gli_staged_free(s);
  return NULL;
}

void gli_staged_free(gli_staged *s) {
  if (s == NULL) return;
  for (size_t i = 0; i < s->n_images && !s->in_child; i++)
    gli_pinned_give(s->images[i]);
  if (!s->in_child) gli_gpu_flag_give(s->flag);
  for (int i = 0; i < GLI_GPU_DIRECTIONS; i++) {
    free(s->lanes[i].waiting);
    for (int k = 0; k < GLI_STAGED_UNDER_WAY; k++)
      free(s->lanes[i].under_way[k].events);
  }
  free(s->ins.list);
  free(s->outs.list);
  free(s->gpus);
  free(s->used);
  free(s->gates);
  free(s->images);
  free(s);
}

static bool make_events(gli_staged *s) {
  for (int i = 0; i < GLI_GPU_DIRECTIONS; i++) {
    for (int k = 0; k < GLI_STAGED_UNDER_WAY; k++) {
      gli_staged_copying *c = &s->lanes[i].under_way[k];
      c->events = calloc(s->n_gpus, sizeof(void *));
      if (c->events == NULL) return false;
    }
  }
  return true;
}

/* ---- parts and images ---------------------------------------------------- */

static gloo_status find_gpu(gli_staged *s, const void *memory, gli_gpu **gpu,
                            gloo_error *error) {
  gli_gpu_place place;
  *gpu = NULL;
  gloo_status status = gli_gpu_find(memory, &place, error);
  if (status != GLOO_OK || !gli_gpu_copies(place.kind, s->stream))
    return status;
  status = gli_gpu_of(&place, gpu, error);
  if (status != GLOO_OK) return status;
  size_t i = 0;
  while (i < s->n_gpus && s->gpus[i] != *gpu) i++;
  s->gpus[i] = *gpu;
  if (i == s->n_gpus) s->n_gpus++;
  return GLOO_OK;
}

static void staged_add_part(gli_staged_side *p, void *memory, void *image,
                            size_t bytes, gli_gpu *gpu) {
  p->list[p->n++] = (gli_staged_part){memory, image, bytes, gpu};
}

static gloo_status new_image(gli_staged *s, gli_gpu *gpu, uint64_t bytes,
                             void **image, gloo_error *error) {
  gloo_status status = gli_pinned_take(gpu, (size_t)bytes, image, error);
  if (status == GLOO_OK) s->images[s->n_images++] = *image;
  return status;
}

/* Stages one buffer of the caller, on one side or both. A buffer in GPU memory
 * gets an image, whose address is stored in `*place`. */
static gloo_status stage_buffer(gli_staged *s, void **place, uint64_t bytes,
                                gli_staged_side *in, gli_staged_side *out,
                                gloo_error *error) {
  gli_gpu *gpu;
  void *memory = *place;
  if (bytes == 0 || memory == NULL) return GLOO_OK;
  gloo_status status = find_gpu(s, memory, &gpu, error);
  if (status != GLOO_OK || gpu == NULL) return status;
  status = new_image(s, gpu, bytes, place, error);
  if (status != GLOO_OK) return status;
  if (in != NULL) staged_add_part(in, memory, *place, (size_t)bytes, gpu);
  if (out != NULL) staged_add_part(out, memory, *place, (size_t)bytes, gpu);
  return GLOO_OK;
}

/* Stages scattered blocks, which the steps copy from and to their places; the
 * memory that joins them serves as the image. Joined blocks that must be scaled
 * go to the product in the buffer of the plan. */
static gloo_status stage_pieces(gli_staged *s, const gli_staging *staging,
                                const void *joined, uint8_t *product,
                                gloo_error *error) {
  gli_gpu *gpu;
  for (size_t i = 0; i < staging->n_before + staging->n_after; i++) {
    const gli_piece *p = &staging->pieces[i];
    bool before = i < staging->n_before;
    void *memory = before ? (void *)(uintptr_t)p->from : p->to;
    uint8_t *image = before ? p->to : (uint8_t *)(uintptr_t)p->from;
    if (before && joined != NULL)
      image = product + ((uintptr_t)image - (uintptr_t)joined);
    gloo_status status = find_gpu(s, memory, &gpu, error);
    if (status != GLOO_OK) return status;
    staged_add_part(before ? &s->ins : &s->outs, memory, image, p->bytes, gpu);
  }
  return GLOO_OK;
}

/* Stages the buffers of a plan with lists. In place the inputs are the outputs,
 * on ranks that have as many; a single input is in the first output. */
static gloo_status stage_lists(gli_operation *op, gli_staged *s, bool scaled,
                               gloo_error *error) {
  const gli_plan_params *p = &op->plan->params;
  uint64_t in_bytes = gli_lists_input_bytes(p, op->plan->in_bytes);
  uint64_t out_bytes = op->plan->out_bytes;
  uint32_t n_in = p->n_in > 1 ? p->n_in : 0;
  uint32_t n_out = p->n_out > 1 ? p->n_out : 0;
  bool same = p->in_place && n_in > 0 && n_in == n_out;
  gloo_status status = GLOO_OK;
  bool first = p->in_place && n_in == 0 && !scaled;
  for (uint32_t i = 0; i < n_out && status == GLOO_OK; i++)
    status = stage_buffer(s, &op->outs[i], out_bytes,
                          same || (first && i == 0) ? &s->ins : NULL, &s->outs,
                          error);
  if (n_out > 0) op->base[GLI_OUT] = op->outs[0];
  for (uint32_t i = 0; i < n_in && status == GLOO_OK; i++) {
    void *place = same ? op->outs[i] : (void *)(uintptr_t)op->ins[i];
    if (!same) status = stage_buffer(s, &place, in_bytes, &s->ins, NULL, error);
    op->ins[i] = place;
  }
  return status;
}

static gloo_status stage_base(gli_operation *op, gli_staged *s, int buffer,
                              uint64_t bytes, gli_staged_side *in,
                              gli_staged_side *out, gloo_error *error) {
  void *place = op->base[buffer];
  gloo_status status = stage_buffer(s, &place, bytes, in, out, error);
  op->base[buffer] = place;
  return status;
}

/* Stages the product: from the input of the caller, wherever it is, to the
 * buffer of the plan. */
static gloo_status stage_scaled(gli_staged *s, const gli_call *call,
                                uint8_t *product, gloo_error *error) {
  gli_gpu *gpu;
  void *memory = (void *)(uintptr_t)call->unscaled;
  gloo_status status = find_gpu(s, memory, &gpu, error);
  if (status == GLOO_OK)
    staged_add_part(&s->ins, memory, product, (size_t)call->unscaled_bytes,
                    gpu);
  return status;
}

static gloo_status stage_wide(gli_operation *op, gli_staged *s,
                              gloo_error *error) {
  gloo_status status = GLOO_OK;
  gli_wide_buffers w = gli_wide_of(op);
  for (size_t i = 0; i < w.n_out && status == GLOO_OK; i++)
    status = stage_buffer(s, &w.outputs[i], w.out_bytes, NULL, &s->outs, error);
  for (size_t i = 0; i < w.n_in && status == GLOO_OK; i++) {
    void *place = (void *)(uintptr_t)w.inputs[i];
    status = stage_buffer(s, &place, w.in_bytes, &s->ins, NULL, error);
    w.inputs[i] = place;
  }
  return status;
}

/* Stages one input and one output, or lists of buffers. */
static gloo_status stage_own(gli_operation *op, gli_staged *s, bool scaled,
                             gloo_error *error) {
  const gli_plan *plan = op->plan;
  const gli_plan_params *p = &plan->params;
  gloo_status status = stage_lists(op, s, scaled, error);
  if (status == GLOO_OK && p->n_out <= 1)
    status =
        stage_base(op, s, GLI_OUT, plan->out_bytes,
                   p->in_place && !scaled ? &s->ins : NULL, &s->outs, error);
  if (status != GLOO_OK || scaled || p->n_in > 1 || p->in_place) return status;
  return stage_base(op, s, GLI_IN, plan->in_bytes, &s->ins, NULL, error);
}

static gloo_status stage_buffers(gli_operation *op, gli_staged *s,
                                 const gli_call *call, gloo_error *error) {
  bool scaled = call->unscaled != NULL;
  gloo_status status =
      call->wide ? stage_wide(op, s, error) : stage_own(op, s, scaled, error);
  if (status != GLOO_OK) return status;
  uint8_t *product = op->base[call->params.in_place ? GLI_OUT : GLI_IN];
  bool joined = call->staging != NULL && call->staging->n_before > 0;
  if (call->staging != NULL)
    status = stage_pieces(s, call->staging, call->unscaled, product, error);
  if (status == GLOO_OK && scaled && !joined)
    status = stage_scaled(s, call, product, error);
  return status;
}

static gloo_status staged_prepare(gli_operation *op, const gli_call *call,
                                  gloo_error *error) {
  gli_pinned_trim();
  gli_staged *s = staged_new(op, call);
  if (s == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for copies of GPU memory");
  op->staged = s;
  s->stream = call->stream;
  if (op->scaling.from == NULL) op->scaling.from = s;
  op->ending &= (uint8_t) ~(GLI_ENDS_NARROWED | GLI_ENDS_STAGED);
  if (op->plan->params.staged & GLI_STAGED_CHANGES)
    op->ending &= (uint8_t)~GLI_ENDS_DIVIDED;
  op->ending |= GLI_ENDS_COPIED;
  gloo_status status = GLOO_OK;
  if (!gli_gpu_is_default_stream(s->stream))
    status = gli_gpu_of_stream(s->stream, &s->marks, error);
  if (status == GLOO_OK) status = stage_buffers(op, s, call, error);
  if (status == GLOO_OK && !make_events(s))
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "out of memory for copies of GPU memory");
  return status;
}

gloo_status gli_staged_prepare(gli_operation *op, const gli_call *call,
                               gloo_error *error) {
  gli_staged_unlock(op->device);
  gloo_status status = staged_prepare(op, call, error);
  gli_staged_relock(op->device);
  return status;
}
