#include "engine/memory/staged.h"

#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "core/error.h"
#include "core/reduce.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "plan/lists.h"

/* Copies of one operation that go on in one direction: enough that the next one
 * has begun when one ends. */
enum { UNDER_WAY = 8 };

/* Bytes of the caller's, and where they are in an image. */
typedef struct part {
  uint8_t *memory;
  uint8_t *image;
  size_t bytes;
  gli_cuda_gpu *gpu; /* NULL: they are the host's */
} part;

typedef struct parts {
  part *list;
  size_t n;
} parts;

/* A copy step that goes on: an event for each GPU that has a part in it. */
typedef struct copying {
  uint32_t step;
  size_t n_events;
  gli_cuda_event **events;
} copying;

/* The copy steps of one direction: those that wait, in the order in which they
 * became ready, and those that go on, in the order in which they began. */
typedef struct lane {
  uint32_t *waiting; /* [of the plan] */
  uint32_t first, end;
  copying under_way[UNDER_WAY];
  uint32_t oldest, n;
} lane;

struct gli_staged {
  gli_operation *next; /* in device->staged */
  void *stream;        /* the program's */
  gli_cuda_gpu **gpus; /* all that have a part */
  size_t n_gpus;
  bool *used;          /* of those, while a copy begins */
  gli_cuda_gpu *marks; /* where the stream is, NULL: on each of them */
  gli_cuda_event **gates;
  size_t n_gates;
  bool open;
  bool fetched;  /* of a message that is sent: all of it is in its image */
  bool in_child; /* in a forked child, where the driver is not to be called */
  gloo_error error; /* of the beginning of a run */
  parts ins, outs;
  lane lanes[GLI_CUDA_DIRECTIONS];
  void **images; /* of pinned memory */
  size_t n_images;
  gli_cuda_flag *flag; /* that streams wait for; NULL: none does */
};

/* ---- memory -------------------------------------------------------------- */

/* The most parts that a side can have. */
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
  n[GLI_CUDA_TO_HOST] = n[GLI_CUDA_TO_DEVICE] = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    n[GLI_CUDA_TO_HOST] += plan->steps[i].kind == GLI_STEP_COPY_IN;
    n[GLI_CUDA_TO_DEVICE] += plan->steps[i].kind == GLI_STEP_COPY_OUT;
  }
}

/* All that it consists of is allocated here. */
static gli_staged *staged_new(const gli_operation *op, const gli_call *call) {
  size_t ins = most_ins(call), outs = most_outs(call);
  size_t most = ins + outs; /* of GPUs and of images */
  uint32_t copies[GLI_CUDA_DIRECTIONS];
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
  for (int i = 0; i < GLI_CUDA_DIRECTIONS; i++) {
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
  if (!s->in_child) gli_cuda_flag_give(s->flag);
  for (int i = 0; i < GLI_CUDA_DIRECTIONS; i++) {
    free(s->lanes[i].waiting);
    for (int k = 0; k < UNDER_WAY; k++) free(s->lanes[i].under_way[k].events);
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
  for (int i = 0; i < GLI_CUDA_DIRECTIONS; i++) {
    for (int k = 0; k < UNDER_WAY; k++) {
      copying *c = &s->lanes[i].under_way[k];
      c->events = calloc(s->n_gpus, sizeof(void *));
      if (c->events == NULL) return false;
    }
  }
  return true;
}

/* ---- parts and images ---------------------------------------------------- */

static gloo_status find_gpu(gli_staged *s, const void *memory,
                            gli_cuda_gpu **gpu, gloo_error *error) {
  gli_cuda_place place;
  *gpu = NULL;
  gloo_status status = gli_cuda_find(memory, &place, error);
  if (status != GLOO_OK || !gli_cuda_copies(place.kind, s->stream))
    return status;
  status = gli_cuda_gpu_of(&place, gpu, error);
  if (status != GLOO_OK) return status;
  size_t i = 0;
  while (i < s->n_gpus && s->gpus[i] != *gpu) i++;
  s->gpus[i] = *gpu;
  if (i == s->n_gpus) s->n_gpus++;
  return GLOO_OK;
}

static void staged_add_part(parts *p, void *memory, void *image, size_t bytes,
                            gli_cuda_gpu *gpu) {
  p->list[p->n++] = (part){memory, image, bytes, gpu};
}

static gloo_status new_image(gli_staged *s, gli_cuda_gpu *gpu, uint64_t bytes,
                             void **image, gloo_error *error) {
  gloo_status status = gli_pinned_take(gpu, (size_t)bytes, image, error);
  if (status == GLOO_OK) s->images[s->n_images++] = *image;
  return status;
}

/* One buffer of the caller's, on one side or both: a GPU's gets an image, of
 * which `*place` becomes the address. */
static gloo_status stage_buffer(gli_staged *s, void **place, uint64_t bytes,
                                parts *in, parts *out, gloo_error *error) {
  gli_cuda_gpu *gpu;
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

/* Blocks that lie apart are copied from and to their places by the steps; the
 * memory that they are joined in is an image as it is. What is joined to be
 * multiplied goes on to where the plan has its product. */
static gloo_status stage_pieces(gli_staged *s, const gli_staging *staging,
                                const void *joined, uint8_t *product,
                                gloo_error *error) {
  gli_cuda_gpu *gpu;
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

/* Those of a plan with lists. In place the inputs are the outputs, at ranks
 * that have as many; one input is in the first output. */
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
                              uint64_t bytes, parts *in, parts *out,
                              gloo_error *error) {
  void *place = op->base[buffer];
  gloo_status status = stage_buffer(s, &place, bytes, in, out, error);
  op->base[buffer] = place;
  return status;
}

/* What is multiplied: from the caller's input, wherever that is, to what the
 * plan works on. */
static gloo_status stage_scaled(gli_staged *s, const gli_call *call,
                                uint8_t *product, gloo_error *error) {
  gli_cuda_gpu *gpu;
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

/* One input and one output, or lists of them. */
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

gloo_status gli_staged_prepare(gli_operation *op, const gli_call *call,
                               gloo_error *error) {
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
  if (!gli_cuda_is_default_stream(s->stream))
    status = gli_cuda_gpu_of_stream(s->stream, &s->marks, error);
  if (status == GLOO_OK) status = stage_buffers(op, s, call, error);
  if (status == GLOO_OK && !make_events(s))
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "out of memory for copies of GPU memory");
  return status;
}

/* ---- events ------------------------------------------------------------- */

/* Give back those that were reached, from the last one on. GLOO_IN_PROGRESS:
 * there are others. */
static gloo_status forget_reached(gli_cuda_event **events, size_t *n,
                                  gloo_error *error) {
  while (*n > 0) {
    gloo_status status = gli_cuda_reached(events[*n - 1], error);
    if (status != GLOO_OK) return status;
    gli_cuda_forget(events[--*n]);
  }
  return GLOO_OK;
}

/* ---- the gate ------------------------------------------------------------ */

static void drop_gates(gli_staged *s) {
  while (s->n_gates > 0) gli_cuda_forget(s->gates[--s->n_gates]);
}

static void mark_streams(gli_staged *s) {
  size_t n = s->marks != NULL ? 1 : s->n_gpus;
  for (size_t i = 0; i < n; i++) {
    gli_cuda_gpu *gpu = s->marks != NULL ? s->marks : s->gpus[i];
    if (gli_cuda_mark(gpu, s->stream, &s->gates[i], &s->error) != GLOO_OK)
      return;
    s->n_gates++;
  }
}

gli_operation *gli_staged_after(const gli_operation *op) {
  return op->staged->next;
}

bool gli_staged_is_gated(const gli_operation *op) {
  return op->staged != NULL && !op->staged->open;
}

/* GLOO_IN_PROGRESS: not yet. */
static gloo_status look_at_gates(gli_staged *s, gloo_error *error) {
  gloo_status status = forget_reached(s->gates, &s->n_gates, error);
  if (status == GLOO_OK) s->open = true;
  return status;
}

static void staged_abandon(gli_staged *s);

/* ---- messages that are sent ---------------------------------------------- */

/* Other threads go on meanwhile. False: it takes too long. */
static bool let_time_pass(gli_operation *op, uint64_t until_ns) {
  gloo_device *device = op->device;
  gli_lock_leave(&device->lock);
  gli_cpu_nap();
  if (!gli_lock_try(&device->lock)) gli_lock_wait(&device->lock);
  return device->ops->now_ns(device->transport) < until_ns;
}

static gloo_status begin_fetch(gli_staged *s) {
  for (size_t i = 0; i < s->ins.n; i++) {
    const part *p = &s->ins.list[i];
    gloo_status status = gli_cuda_copy(p->gpu, GLI_CUDA_TO_HOST, p->image,
                                       p->memory, p->bytes, &s->error);
    if (status == GLOO_OK)
      status = gli_cuda_mark_copies(p->gpu, GLI_CUDA_TO_HOST,
                                    &s->gates[s->n_gates], &s->error);
    if (status != GLOO_OK) return status;
    s->n_gates++;
  }
  return GLOO_OK;
}

/* Messages between two ranks must not pass each other, and those of the host
 * leave at once: so what a message of a GPU has is fetched before it has a
 * number. */
static void staged_fetch(gli_operation *op) {
  gli_staged *s = op->staged;
  gloo_device *device = op->device;
  uint64_t until_ns = UINT64_MAX;
  if (op->deadline.timeout_ns > 0)
    until_ns = device->ops->now_ns(device->transport) +
               (uint64_t)op->deadline.timeout_ns;
  for (int phase = 0; phase < 2 && s->error.status == GLOO_OK; phase++) {
    if (phase == 1 && begin_fetch(s) != GLOO_OK) break;
    while (look_at_gates(s, &s->error) == GLOO_IN_PROGRESS) {
      if (let_time_pass(op, until_ns)) continue;
      gli_fail(&s->error, GLOO_ERR_TIMEOUT, -1,
               "deadline passed: it waits for the work that was before it in "
               "the stream of a GPU");
      break;
    }
  }
  if (s->n_gates > 0 && s->open) staged_abandon(s); /* copies go on */
  drop_gates(s);
  s->fetched = s->error.status == GLOO_OK;
}

void gli_staged_begin(gli_operation *op) {
  gli_staged *s = op->staged;
  gli_error_clear(&s->error);
  s->open = s->fetched = false;
  for (int i = 0; i < GLI_CUDA_DIRECTIONS; i++)
    s->lanes[i].first = s->lanes[i].end = 0;
  mark_streams(s);
  if (op->side == GLI_SEND_SIDE) staged_fetch(op);
  s->next = op->device->staged;
  op->device->staged = op;
  op->device->leftovers = true;
}

/* ---- what is done beside the copy ---------------------------------------- */

/* The input of a plan is more than what the caller has. */
static void finish_input(const gli_operation *op, const gli_step *s) {
  if (s->dst_buffer == GLI_TOKEN) return;
  if (op->wide != NULL) {
    gli_wide_begin(op, s->dst, s->bytes);
    return;
  }
  if (op->scaling.from == op->staged || op->scaling.from == op->staging ||
      op->scaling.to == NULL)
    return;
  void *at = gli_operation_at(op, s->dst_buffer, s->dst);
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(
      at, at, gli_operation_elems(op, (size_t)s->bytes), op->scaling.factor);
}

/* And its output is less. */
static void finish_output(const gli_operation *op, const gli_step *s) {
  if (op->wide != NULL) {
    gli_wide_end(op, s->a, s->bytes);
    return;
  }
  if (!(op->plan->params.staged & GLI_STAGED_CHANGES)) return;
  void *at = gli_operation_at(op, s->a_buffer, s->a);
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(
      at, at, gli_operation_elems(op, (size_t)s->bytes),
      1.0 / op->plan->params.size);
}

/* ---- copies -------------------------------------------------------------- */

/* The image of bytes of a step, of which a side of a plan may have several. */
typedef struct stretch {
  uint8_t *from;
  size_t bytes;
} stretch;

static size_t stretches_of(const gli_operation *op, const gli_step *s) {
  bool in = s->kind == GLI_STEP_COPY_IN;
  uint8_t buffer = in ? s->dst_buffer : s->a_buffer;
  const gli_plan_params *p = &op->plan->params;
  if (buffer == GLI_TOKEN) return 0;
  if (op->wide != NULL)
    return in ? gli_wide_of(op).n_in : gli_wide_of(op).n_out;
  if (in && (buffer == GLI_INS || buffer == GLI_OUTS)) return p->n_in;
  return buffer == GLI_OUTS ? p->n_out - 1 : 1;
}

static stretch stretch_of(const gli_operation *op, const gli_step *s,
                          size_t k) {
  bool in = s->kind == GLI_STEP_COPY_IN;
  uint8_t buffer = in ? s->dst_buffer : s->a_buffer;
  uint64_t offset = in ? s->dst : s->a;
  if (op->wide != NULL) {
    gli_wide_buffers w = gli_wide_of(op);
    uint8_t *first = in ? (uint8_t *)(uintptr_t)w.inputs[k] : w.outputs[k];
    return (stretch){first + offset / sizeof(float) * w.elem_bytes,
                     (size_t)(s->bytes / sizeof(float)) * w.elem_bytes};
  }
  uint8_t *first = op->base[buffer];
  if (in && (buffer == GLI_INS || buffer == GLI_OUTS))
    first = (uint8_t *)(uintptr_t)op->ins[k];
  else if (buffer == GLI_OUTS)
    first = op->outs[1 + k];
  return (stretch){first + offset, (size_t)s->bytes};
}

/* Begin to copy what of the stretch is in a part. */
static gloo_status begin_part(gli_staged *s, const part *p, stretch t,
                              gli_cuda_direction direction, gloo_error *error) {
  uintptr_t from = (uintptr_t)t.from, to = from + t.bytes;
  uintptr_t first = (uintptr_t)p->image, end = first + p->bytes;
  if (from < first) from = first;
  if (to > end) to = end;
  if (from >= to) return GLOO_OK;
  void *image = p->image + (from - first), *memory = p->memory + (from - first);
  bool in = direction == GLI_CUDA_TO_HOST;
  if (p->gpu == NULL) {
    memcpy(in ? image : memory, in ? memory : image, to - from);
    return GLOO_OK;
  }
  size_t i = 0;
  while (s->gpus[i] != p->gpu) i++;
  s->used[i] = true;
  return gli_cuda_copy(p->gpu, direction, in ? image : memory,
                       in ? memory : image, to - from, error);
}

/* All parts of a step. `c` gets the events. */
static gloo_status begin_step(gli_operation *op, copying *c,
                              gli_cuda_direction direction, gloo_error *error) {
  gli_staged *s = op->staged;
  const gli_step *step = &op->plan->steps[c->step];
  const parts *side = direction == GLI_CUDA_TO_HOST ? &s->ins : &s->outs;
  gloo_status status = GLOO_OK;
  size_t n = stretches_of(op, step);
  c->n_events = 0;
  for (size_t g = 0; g < s->n_gpus; g++) s->used[g] = false;
  if (direction == GLI_CUDA_TO_DEVICE) finish_output(op, step);
  for (size_t k = 0; k < n; k++) {
    stretch t = stretch_of(op, step, k);
    for (size_t i = 0; i < side->n && status == GLOO_OK; i++)
      status = begin_part(s, &side->list[i], t, direction, error);
  }
  for (size_t g = 0; g < s->n_gpus && status == GLOO_OK; g++) {
    if (!s->used[g]) continue;
    status = gli_cuda_mark_copies(s->gpus[g], direction,
                                  &c->events[c->n_events], error);
    if (status == GLOO_OK) c->n_events++;
  }
  return status;
}

/* ---- the steps of one direction ------------------------------------------ */

static gli_cuda_direction direction_of(const gli_operation *op, uint32_t step) {
  return op->plan->steps[step].kind == GLI_STEP_COPY_IN ? GLI_CUDA_TO_HOST
                                                        : GLI_CUDA_TO_DEVICE;
}

static gloo_status begin_waiting(gli_operation *op, gli_cuda_direction d,
                                 gloo_error *error) {
  lane *l = &op->staged->lanes[d];
  while (op->staged->open && l->first < l->end && l->n < UNDER_WAY) {
    copying *c = &l->under_way[(l->oldest + l->n) % UNDER_WAY];
    c->step = l->waiting[l->first];
    gloo_status status = begin_step(op, c, d, error);
    if (status != GLOO_OK) return status;
    l->first++;
    l->n++;
  }
  return GLOO_OK;
}

/* GLOO_OK: *step is done. */
static gloo_status end_oldest(gli_operation *op, gli_cuda_direction d,
                              uint32_t *step, gloo_error *error) {
  lane *l = &op->staged->lanes[d];
  if (l->n == 0) return GLOO_IN_PROGRESS;
  copying *c = &l->under_way[l->oldest];
  gloo_status status = forget_reached(c->events, &c->n_events, error);
  if (status != GLOO_OK) return status;
  *step = c->step;
  l->oldest = (l->oldest + 1) % UNDER_WAY;
  l->n--;
  if (d == GLI_CUDA_TO_HOST) finish_input(op, &op->plan->steps[*step]);
  return GLOO_OK;
}

/* This rank is at fault. */
static void staged_fail(gli_operation *op, const gloo_error *why) {
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_fail(&error, why->status, (int)op->context->root_rank, "%s: %s",
           gli_describe_call(&op->signature, text), why->message);
  gli_context_poison(op->context, &error);
}

gli_outcome gli_staged_copy(gli_operation *op, uint32_t step) {
  gli_cuda_direction d = direction_of(op, step);
  lane *l = &op->staged->lanes[d];
  gloo_error error;
  if (op->staged->fetched) return GLI_DONE;
  l->waiting[l->end++] = step;
  if (begin_waiting(op, d, &error) == GLOO_OK) return GLI_PENDING;
  staged_fail(op, &error);
  return GLI_FAILED;
}

bool gli_staged_next_done(gli_operation *op, uint32_t *step) {
  gli_staged *s = op->staged;
  gloo_error error = s->error;
  gloo_status status = error.status;
  if (status == GLOO_OK && !s->open) status = look_at_gates(s, &error);
  for (int d = 0; d < GLI_CUDA_DIRECTIONS && s->open && status >= 0; d++) {
    status = begin_waiting(op, (gli_cuda_direction)d, &error);
    if (status != GLOO_OK) break;
    status = end_oldest(op, (gli_cuda_direction)d, step, &error);
    if (status == GLOO_OK) return true;
  }
  if (status < 0) staged_fail(op, &error);
  return false;
}

static void staged_abandon(gli_staged *s) {
  drop_gates(s);
  if (s->open) {
    for (size_t i = 0; i < s->n_gpus; i++) gli_cuda_await_copies(s->gpus[i]);
  }
  for (int d = 0; d < GLI_CUDA_DIRECTIONS; d++) {
    lane *l = &s->lanes[d];
    for (; l->n > 0; l->n--) {
      copying *c = &l->under_way[l->oldest];
      while (c->n_events > 0) gli_cuda_forget(c->events[--c->n_events]);
      l->oldest = (l->oldest + 1) % UNDER_WAY;
    }
  }
}

void gli_staged_end(gli_operation *op, bool well) {
  gli_staged *s = op->staged;
  gli_operation **at = &op->device->staged;
  while (*at != NULL && *at != op) at = &(*at)->staged->next;
  if (*at == NULL) return; /* it failed before it began */
  *at = s->next;
  if (op->device->fork.child) {
    s->in_child = true;
    return;
  }
  if (!well) staged_abandon(s);
  drop_gates(s);
  s->open = false;
  if (s->flag != NULL) gli_cuda_flag_raise(s->flag);
}

/* ---- streams that wait --------------------------------------------------- */

/* The default streams of all GPUs that it uses. */
static gloo_status hold_default_streams(gli_staged *s, void *stream,
                                        gloo_error *error) {
  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < s->n_gpus && status == GLOO_OK; i++)
    status = gli_cuda_flag_wait(s->flag, s->gpus[i], stream, error);
  return status;
}

gloo_status gli_staged_hold_stream(gli_operation *op, void *stream,
                                   gloo_error *error) {
  gli_staged *s = op->staged;
  if (s->n_gpus == 0) return GLOO_OK; /* nothing of it is in GPU memory */
  gli_cuda_gpu *gpu = s->gpus[0];
  gloo_status status = GLOO_OK;
  bool named = !gli_cuda_is_default_stream(stream);
  if (named) status = gli_cuda_gpu_of_stream(stream, &gpu, error);
  if (status == GLOO_OK && s->flag == NULL)
    status = gli_cuda_flag_take(gpu, &s->flag, error);
  if (status != GLOO_OK) return status;
  return named ? gli_cuda_flag_wait(s->flag, gpu, stream, error)
               : hold_default_streams(s, stream, error);
}
