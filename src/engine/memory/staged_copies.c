/* Copies between buffers and their images, in the order of the program's
 * streams. */
#include "core/cpu.h"
#include "core/error.h"
#include "engine/memory/staged_state.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"

/* ---- events -------------------------------------------------------------- */

/* Releases events that were reached, from the last one on. Returns
 * GLOO_IN_PROGRESS if others are left. */
static gloo_status forget_reached(gli_gpu_event **events, size_t *n,
                                  gloo_error *error) {
  while (*n > 0) {
    gloo_status status = gli_gpu_reached(events[*n - 1], error);
    if (status != GLOO_OK) return status;
    gli_gpu_forget(events[--*n]);
  }
  return GLOO_OK;
}

static void drop_events(gli_staged_copying *c) {
  while (c->n_events > 0) gli_gpu_forget(c->events[--c->n_events]);
}

/* ---- the gate ------------------------------------------------------------ */

static void drop_gates(gli_staged *s) {
  while (s->n_gates > 0) gli_gpu_forget(s->gates[--s->n_gates]);
}

static void mark_streams(gli_staged *s) {
  size_t n = s->marks != NULL ? 1 : s->n_gpus;
  for (size_t i = 0; i < n; i++) {
    gli_gpu *gpu = s->marks != NULL ? s->marks : s->gpus[i];
    if (gli_gpu_mark(gpu, s->stream, &s->gates[i], &s->error) != GLOO_OK)
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

/* Returns GLOO_IN_PROGRESS if the gate is still closed. */
static gloo_status look_at_gates(gli_staged *s, gloo_error *error) {
  gloo_status status = forget_reached(s->gates, &s->n_gates, error);
  if (status == GLOO_OK) s->open = true;
  return status;
}

static void staged_abandon(gli_staged *s);

/* ---- messages that are sent ---------------------------------------------- */

/* Lets other threads run. Returns false after the time limit. */
static bool let_time_pass(gli_operation *op, uint64_t until_ns) {
  gloo_device *device = op->device;
  gli_staged_unlock(device);
  gli_cpu_nap();
  gli_staged_relock(device);
  return device->ops->now_ns(device->transport) < until_ns;
}

static gloo_status begin_fetch(gli_staged *s) {
  for (size_t i = 0; i < s->ins.n; i++) {
    const gli_staged_part *p = &s->ins.list[i];
    gloo_status status = gli_gpu_copy(p->gpu, GLI_GPU_TO_HOST, p->image,
                                      p->memory, p->bytes, &s->error);
    if (status == GLOO_OK)
      status = gli_gpu_mark_copies(p->gpu, GLI_GPU_TO_HOST,
                                   &s->gates[s->n_gates], &s->error);
    if (status != GLOO_OK) return status;
    s->n_gates++;
  }
  return GLOO_OK;
}

/* Fetches a message in GPU memory before it gets a number. Messages between two
 * ranks must not overtake each other, and messages in host memory leave at
 * once. */
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
      gli_fail(
          &s->error, GLOO_ERR_TIMEOUT, -1,
          "timed out: the operation waits for earlier work in a GPU stream");
      break;
    }
  }
  if (s->n_gates > 0 && s->open) staged_abandon(s); /* copies run */
  drop_gates(s);
  s->fetched = s->error.status == GLOO_OK;
}

void gli_staged_begin(gli_operation *op) {
  gli_staged *s = op->staged;
  gli_error_clear(&s->error);
  s->open = s->fetched = false;
  for (int i = 0; i < GLI_GPU_DIRECTIONS; i++)
    s->lanes[i].first = s->lanes[i].end = 0;
  gli_staged_unlock(op->device); /* a full stream blocks the mark */
  mark_streams(s);
  gli_staged_relock(op->device);
  if (op->side == GLI_SEND_SIDE) staged_fetch(op);
  s->next = op->device->staged;
  op->device->staged = op;
  op->device->leftovers = true;
}

/* ---- work beside the copy ------------------------------------------------ */

/* Derives the plan's input from the copied bytes. */
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

/* Derives the caller's output from the plan's bytes. */
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

/* The image of the bytes of a step. One side of a plan may have several. */
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

/* Begins to copy the part of a stretch that is in `p`. */
static gloo_status begin_part(gli_staged *s, const gli_staged_part *p,
                              stretch t, gli_gpu_direction direction,
                              gloo_error *error) {
  uintptr_t from = (uintptr_t)t.from, to = from + t.bytes;
  uintptr_t first = (uintptr_t)p->image, end = first + p->bytes;
  if (from < first) from = first;
  if (to > end) to = end;
  if (from >= to) return GLOO_OK;
  void *image = p->image + (from - first), *memory = p->memory + (from - first);
  bool in = direction == GLI_GPU_TO_HOST;
  if (p->gpu == NULL) {
    gli_copy_bytes(in ? image : memory, in ? memory : image, to - from);
    return GLOO_OK;
  }
  size_t i = 0;
  while (s->gpus[i] != p->gpu) i++;
  s->used[i] = true;
  return gli_gpu_copy(p->gpu, direction, in ? image : memory,
                      in ? memory : image, to - from, error);
}

/* Begins to copy all parts of a step. `c` gets the events. */
static gloo_status begin_step(gli_operation *op, gli_staged_copying *c,
                              gli_gpu_direction direction, gloo_error *error) {
  gli_staged *s = op->staged;
  const gli_step *step = &op->plan->steps[c->step];
  const gli_staged_side *side =
      direction == GLI_GPU_TO_HOST ? &s->ins : &s->outs;
  gloo_status status = GLOO_OK;
  size_t n = stretches_of(op, step);
  c->n_events = 0;
  for (size_t g = 0; g < s->n_gpus; g++) s->used[g] = false;
  if (direction == GLI_GPU_TO_DEVICE) finish_output(op, step);
  for (size_t k = 0; k < n; k++) {
    stretch t = stretch_of(op, step, k);
    for (size_t i = 0; i < side->n && status == GLOO_OK; i++)
      status = begin_part(s, &side->list[i], t, direction, error);
  }
  for (size_t g = 0; g < s->n_gpus && status == GLOO_OK; g++) {
    if (!s->used[g]) continue;
    status = gli_gpu_mark_copies(s->gpus[g], direction, &c->events[c->n_events],
                                 error);
    if (status == GLOO_OK) c->n_events++;
  }
  return status;
}

/* ---- the steps of one direction ------------------------------------------ */

static gli_gpu_direction direction_of(const gli_operation *op, uint32_t step) {
  return op->plan->steps[step].kind == GLI_STEP_COPY_IN ? GLI_GPU_TO_HOST
                                                        : GLI_GPU_TO_DEVICE;
}

static gloo_status begin_waiting(gli_operation *op, gli_gpu_direction d,
                                 gloo_error *error) {
  gli_staged_lane *l = &op->staged->lanes[d];
  while (op->staged->open && l->first < l->end && l->n < GLI_STAGED_UNDER_WAY) {
    gli_staged_copying *c =
        &l->under_way[(l->oldest + l->n) % GLI_STAGED_UNDER_WAY];
    c->step = l->waiting[l->first];
    gloo_status status = begin_step(op, c, d, error);
    if (status != GLOO_OK) {
      drop_events(c);
      return status;
    }
    l->first++;
    l->n++;
  }
  return GLOO_OK;
}

/* Ends the oldest copy. On GLOO_OK *step is done. */
static gloo_status end_oldest(gli_operation *op, gli_gpu_direction d,
                              uint32_t *step, gloo_error *error) {
  gli_staged_lane *l = &op->staged->lanes[d];
  if (l->n == 0) return GLOO_IN_PROGRESS;
  gli_staged_copying *c = &l->under_way[l->oldest];
  gloo_status status = forget_reached(c->events, &c->n_events, error);
  if (status != GLOO_OK) return status;
  *step = c->step;
  l->oldest = (l->oldest + 1) % GLI_STAGED_UNDER_WAY;
  l->n--;
  if (d == GLI_GPU_TO_HOST) finish_input(op, &op->plan->steps[*step]);
  return GLOO_OK;
}

/* Fails the context; this rank is at fault. */
static void staged_fail(gli_operation *op, const gloo_error *why) {
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_fail(&error, why->status, (int)op->context->root_rank, "%s: %s",
           gli_describe_call(&op->signature, text), why->message);
  gli_context_poison(op->context, &error);
}

gli_outcome gli_staged_copy(gli_operation *op, uint32_t step) {
  gli_gpu_direction d = direction_of(op, step);
  gli_staged_lane *l = &op->staged->lanes[d];
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
  for (int d = 0; d < GLI_GPU_DIRECTIONS && s->open && status >= 0; d++) {
    status = begin_waiting(op, (gli_gpu_direction)d, &error);
    if (status != GLOO_OK) break;
    status = end_oldest(op, (gli_gpu_direction)d, step, &error);
    if (status == GLOO_OK) return true;
  }
  if (status < 0) staged_fail(op, &error);
  return false;
}

static void staged_abandon(gli_staged *s) {
  drop_gates(s);
  if (s->open) {
    for (size_t i = 0; i < s->n_gpus; i++) gli_gpu_await_copies(s->gpus[i]);
  }
  for (int d = 0; d < GLI_GPU_DIRECTIONS; d++) {
    gli_staged_lane *l = &s->lanes[d];
    for (; l->n > 0; l->n--) {
      gli_staged_copying *c = &l->under_way[l->oldest];
      drop_events(c);
      l->oldest = (l->oldest + 1) % GLI_STAGED_UNDER_WAY;
    }
  }
}

/* Lets streams continue that wait for failed operations: one may be in the way
 * of the copies that are awaited. */
static void raise_failed_flags(const gloo_device *device) {
  for (gli_operation *op = device->staged; op != NULL; op = op->staged->next) {
    if (op->staged->flag != NULL && gli_context_poisoned(op->context))
      gli_gpu_flag_raise(op->staged->flag);
  }
}

void gli_staged_end(gli_operation *op, bool well) {
  gli_staged *s = op->staged;
  gli_operation **at = &op->device->staged;
  while (*at != NULL && *at != op) at = &(*at)->staged->next;
  if (*at == NULL) return; /* failed before it began */
  *at = s->next;
  if (op->device->fork.child) {
    s->in_child = true;
    return;
  }
  if (s->flag != NULL) gli_gpu_flag_raise(s->flag);
  if (!well) {
    raise_failed_flags(op->device);
    staged_abandon(s);
  }
  drop_gates(s);
  s->open = false;
}

/* ---- streams that wait --------------------------------------------------- */

/* Makes the stream wait, or the default streams of all GPUs of the operation.
 * `gpu` is that of a named stream, or else NULL. */
static gloo_status make_wait(const gli_staged *s, uint32_t value, void *stream,
                             gli_gpu *gpu, gloo_error *error) {
  if (gpu != NULL) return gli_gpu_flag_wait(s->flag, value, gpu, stream, error);
  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < s->n_gpus && status == GLOO_OK; i++)
    status = gli_gpu_flag_wait(s->flag, value, s->gpus[i], stream, error);
  return status;
}

gloo_status gli_staged_hold_stream(gli_operation *op, void *stream,
                                   gloo_error *error) {
  gli_staged *s = op->staged;
  if (s->n_gpus == 0) return GLOO_OK; /* no buffer is in GPU memory */
  gli_gpu *gpu = NULL;
  gli_gpu_flag *flag = NULL;
  gloo_status status = GLOO_OK;
  gli_staged_unlock(op->device);
  if (!gli_gpu_is_default_stream(stream))
    status = gli_gpu_of_stream(stream, &gpu, error);
  if (status == GLOO_OK)
    status = gli_gpu_flag_take(gpu != NULL ? gpu : s->gpus[0], &flag, error);
  gli_staged_relock(op->device);
  if (s->flag == NULL) {
    s->flag = flag;
  } else {
    gli_gpu_flag_give(flag); /* that of an earlier call serves */
  }
  if (status != GLOO_OK || !gli_operation_is_running(op)) return status;
  uint32_t value;
  if (!gli_gpu_flag_expect(s->flag, &value)) return GLOO_IN_PROGRESS;
  gli_staged_unlock(op->device); /* a full stream blocks this call */
  status = make_wait(s, value, stream, gpu, error);
  gli_staged_relock(op->device);
  return status;
}
