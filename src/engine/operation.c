/* Operations: one run of a plan. */
#include <string.h>

#include "core/error.h"
#include "core/hints.h"
#include "core/reduce.h"
#include "engine/context.h"
#include "engine/describe.h"
#include "engine/device.h"
#include "engine/flow.h"
#include "engine/link.h"
#include "engine/match.h"
#include "engine/operation.h"
#include "engine/reach.h"
#include "engine/straight.h"
#include "gloo_c/collectives.h"
#include "plan/shape.h"

/* ---- steps --------------------------------------------------------------- */

static void push_ready(gloo_operation *op, uint32_t step) {
  op->ready[op->ready_tail++] = step;
}

void gli_operation_step_done(gloo_operation *op, uint32_t step) {
  const gli_plan *plan = op->plan;
  if (op->straight) gli_straight_leave(op);
  op->steps_left--;
  for (uint32_t i = plan->next_first[step]; i < plan->next_first[step + 1];
       i++) {
    uint32_t next = plan->next[i];
    if (--op->pending[next] == 0) push_ready(op, next);
  }
  gli_operation_make_runnable(op);
}

void gli_operation_store(gloo_operation *op, const gli_step *s,
                         const uint8_t *data, size_t bytes) {
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  if (s->kind == GLI_STEP_RECV) {
    memcpy(dst, data, bytes);
    return;
  }
  const uint8_t *local = gli_operation_at(op, s->a_buffer, s->a);
  size_t count = gli_operation_elems(op, bytes);
  if (s->incoming_left) {
    gli_operation_reduce(op, dst, data, local, count);
  } else {
    gli_operation_reduce(op, dst, local, data, count);
  }
}

bool gli_operation_deliver(gloo_operation *op, uint32_t index,
                           const gli_parked *parked) {
  const gli_step *s = &op->plan->steps[index];
  uint64_t bytes = gli_step_wire_bytes(s);
  uint8_t form = parked->header.form;
  if (form == GLI_FORM_BYTES && s->role != GLI_ROLE_LEND && bytes > 0) {
    gli_operation_store(op, s, parked->data, (size_t)bytes);
  }
  if (gli_reach_is_plain(s, form)) return true;
  return gli_reach_arrived(op, index, form, parked->data);
}

static bool overlap(const uint8_t *a, const uint8_t *b, uint64_t bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return (x < y ? y - x : x - y) < bytes;
}

void gli_operation_run_local(gloo_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  if (s->dst_buffer == GLI_TOKEN || s->bytes == 0) return;
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  const uint8_t *a = gli_operation_at(op, s->a_buffer, s->a);
  if (s->kind == GLI_STEP_COPY) {
    if (gli_operation_streams(op, step) && !overlap(dst, a, s->bytes)) {
      gli_copy_stream(dst, a, (size_t)s->bytes);
    } else {
      memmove(dst, a, (size_t)s->bytes);
    }
    return;
  }
  const uint8_t *b = gli_operation_at(op, s->b_buffer, s->b);
  gli_operation_reduce(op, dst, a, b,
                       gli_operation_elems(op, (size_t)s->bytes));
}

static void run_step(gloo_operation *op, uint32_t index) {
  const gli_step *s = &op->plan->steps[index];
  switch ((gli_step_kind)s->kind) {
    case GLI_STEP_SEND:
      gli_flow_send_step(op, index);
      return;
    case GLI_STEP_RECV:
    case GLI_STEP_RECV_REDUCE:
      op->recv_state[index] = GLI_RECV_READY;
      if (!op->parked && !op->peers[s->peer].link->left) return;
      if (gli_match_ready(op, index)) gli_operation_step_done(op, index);
      return;
    case GLI_STEP_COPY:
    case GLI_STEP_REDUCE:
      if (s->n_loans > 0) break;
      gli_operation_run_local(op, index);
      gli_operation_step_done(op, index);
      return;
    case GLI_STEP_JOIN:
    case GLI_STEP_SPREAD:
      gli_lists_run(op, s);
      gli_operation_step_done(op, index);
      return;
    case GLI_STEP_COPY_VIEW:
    case GLI_STEP_REDUCE_ALL:
    case GLI_STEP_REDUCE_MANY:
    case GLI_STEP_KINDS:
      break;
  }
  if (gli_reach_combine(op, index)) gli_operation_step_done(op, index);
}

void gli_device_put_off(gloo_device *device) {
  if (!device->runnable) return;
  if (device->put_off) {
    device->put_off_last->runnable_next = device->runnable;
  } else {
    device->put_off = device->runnable;
  }
  device->put_off_last = device->runnable_last;
  for (gloo_operation *op = device->runnable; op; op = op->runnable_next) {
    op->put_off = true;
  }
  device->runnable = NULL;
}

GLI_COLD static void leave_put_off(gloo_operation *op) {
  gloo_device *device = op->device;
  gloo_operation *before = NULL, **at = &device->put_off;
  while (*at != op) {
    before = *at;
    at = &before->runnable_next;
  }
  *at = op->runnable_next;
  if (device->put_off_last == op) device->put_off_last = before;
  op->put_off = op->runnable = false;
}

void gli_device_take_up(gloo_device *device) {
  gloo_operation *op = device->put_off;
  leave_put_off(op);
  gli_operation_make_runnable(op);
}

/* Whatever runs at once runs behind those: messages must not overtake. */
GLI_COLD static void take_up_all(gloo_device *device) {
  while (device->put_off) gli_device_take_up(device);
}

/* Steps that finish on the spot queue their followers in op->ready. */
static void run_ready(gloo_operation *op) {
  while (op->ready_head < op->ready_tail) {
    if (gli_context_poisoned(op->context)) return;
    run_step(op, op->ready[op->ready_head++]);
  }
}

void gli_device_run_all(gloo_device *device) {
  do {
    gloo_operation *op = device->runnable;
    device->runnable = op->runnable_next;
    if (op->straight && !gli_context_poisoned(op->context)) {
      gli_straight_run(op);
    }
    if (!op->straight) run_ready(op);
    op->runnable = false; /* only now: it need not be queued meanwhile */
    if (op->steps_left == 0 && op->state == GLI_OPERATION_RUNNING &&
        !gli_context_poisoned(op->context)) {
      gli_operation_finish(op, NULL);
    }
  } while (device->runnable);
}

/* ---- begin and end ------------------------------------------------------- */

/* Receivers of much tell their senders at once. */
GLI_COLD static void announce_start(gloo_operation *op) {
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_peers; i++) {
    if (plan->peers[i].recv_bytes <= GLI_EAGER_BYTES) continue;
    gli_flow_control(op->peers[i].link, GLI_MESSAGE_STARTED, &op->signature, 0);
  }
}

/* All steps are to be done. */
static void enter(gloo_operation *op) {
  const gli_plan *plan = op->plan;
  if (plan->n_places > 0) {
    memset(op->places, 0, plan->n_places * sizeof *op->places);
  }
  uint32_t ready = 0;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    op->pending[i] = plan->n_deps[i];
    op->recv_state[i] = GLI_RECV_UNREADY;
    if (plan->n_deps[i] == 0) op->ready[ready++] = i;
  }
  op->ready_head = 0;
  op->ready_tail = ready;
}

GLI_INLINE gloo_status launch(gloo_operation *op, gloo_error *error) {
  const gli_plan *plan = op->plan;
  op->state = GLI_OPERATION_RUNNING;
  op->steps_left = plan->n_steps;
  if (op->may_go_straight) {
    if (op->prepared_for != op->peers[0].link) gli_straight_prepare(op);
    gli_straight_enter(op);
  } else {
    enter(op);
  }
  gli_operation_list_add(&op->context->family->active, op);
  gli_match_insert(op);
  gloo_status status = gli_match_adopt(op, error);
  if (status != GLOO_OK) {
    op->ready_tail = 0;
    op->straight = false;
    return status;
  }
  if (op->expects_much) announce_start(op);
  gli_operation_make_runnable(op);
  return GLOO_OK;
}

gloo_status gli_operation_launch(gloo_operation *op, gloo_error *error) {
  return launch(op, error);
}

static gloo_status begin_send(gloo_operation *op, gloo_error *error) {
  gli_link *link = gli_context_link(op->context, (uint32_t)op->p2p_peer, error);
  if (!link) return error->status;
  op->peers[0] = (gli_op_peer){.link = link};
  op->counter = &link->p2p_sent;
  op->signature.operation = link->p2p_sent++;
  return gli_operation_launch(op, error);
}

/* Of all that it talks to. */
GLI_COLD static gloo_status open_links(gloo_operation *op, gloo_error *error) {
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    uint32_t rank = op->plan->peers[i].rank;
    op->peers[i].link = gli_context_link(op->context, rank, error);
    if (!op->peers[i].link) return error->status;
  }
  return GLOO_OK;
}

GLI_COLD static gloo_status find_counter(gloo_operation *op,
                                         gloo_error *error) {
  op->counter = gli_context_counter(op->context, op->signature.tag);
  if (op->counter) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for tag %u",
                  op->signature.tag);
}

GLI_INLINE gloo_status begin_collective(gloo_operation *op, gloo_error *error) {
  gloo_status status = GLOO_OK;
  uint32_t n = op->plan->n_peers;
  /* They stay as they are from run to run, and are opened in this order. */
  if (n > 0 && !op->peers[n - 1].link) status = open_links(op, error);
  if (status == GLOO_OK && !op->counter) status = find_counter(op, error);
  if (status != GLOO_OK) return status;
  op->signature.operation = (*op->counter)++;
  for (uint32_t i = 0; i < n; i++) {
    op->peers[i] = (gli_op_peer){.link = op->peers[i].link};
    if (op->peers[i].link->notes_count > 0) gli_match_read_notes(op, i);
  }
  return launch(op, error);
}

GLI_COLD static void scale(const gloo_operation *op) {
  if (op->wide) {
    gli_wide_begin(op);
    return;
  }
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(
      op->scaled_to, op->unscaled, op->unscaled_count, op->factor);
}

/* The other ranks count on this operation now, so it cannot just not be. */
GLI_COLD static gloo_status refuse_to_begin(gloo_operation *op,
                                            const gloo_error *error) {
  gloo_context *context = op->context;
  gli_context_poison(context, error);
  if (op->state < GLI_OPERATION_POSTED) {
    op->state = GLI_OPERATION_RUNNING;
    gli_operation_list_add(&context->family->active, op);
  }
  return error->status;
}

gloo_status gli_operation_begin_anew(gloo_operation *op, bool now,
                                     gloo_error *error) {
  gloo_device *device = op->device;
  if (now && device->put_off) take_up_all(device);
  if (op->unscaled) scale(op);
  op->source = -1;
  gli_error_clear(&op->error);
  gli_late_arm(op);
  device->outstanding++;
  gloo_status status;
  if (op->signature.collective != GLI_SENDRECV) {
    status = begin_collective(op, error);
  } else if (gli_operation_is_recv(op)) {
    status = gli_p2p_post(op, error);
  } else {
    status = begin_send(op, error);
  }
  if (status != GLOO_OK) return refuse_to_begin(op, error);
  op->again = op->may_go_straight && op->counter && !op->unscaled;
  return GLOO_OK;
}

/* Sums become averages only when they are divided: by each rank, all of whose
 * sums have the same bits. */
GLI_COLD static void divide(const gloo_operation *op) {
  const gli_plan_params *p = &op->plan->params;
  gli_shape shape;
  if (!gli_plan_shape(p, &shape) || !shape.writes_out) return;
  uint64_t count = p->counts ? p->counts->own : p->count;
  uint8_t *out = op->base[GLI_OUT];
  if (count == 0) return;
  gli_scale_kernel((gloo_dtype)op->signature.dtype)(out, out, (size_t)count,
                                                    1.0 / p->size);
}

GLI_COLD static void settle_outputs(const gloo_operation *op) {
  if (op->ending == GLI_ENDS_DIVIDED) divide(op);
  if (op->ending == GLI_ENDS_NARROWED) gli_wide_end(op);
}

void gli_operation_remember(gloo_operation *op) {
  gloo_context *context = op->context;
  if (op->ending != GLI_ENDS_AS_IT_IS) settle_outputs(op);
  context->finished[context->n_finished++ % GLI_FINISHED] = op->signature;
}

/* Nobody can find it any more. */
GLI_INLINE void end(gloo_operation *op) {
  gli_operation_list_remove(&op->context->family->active, op);
  gli_match_remove(op);
}

/* What the next run, or nobody, expects to find. */
GLI_INLINE void clear_up(gloo_operation *op) {
  while (op->parked) {
    gli_parked *parked = op->parked;
    op->parked = parked->next;
    gli_parked_free(parked);
  }
  op->state = GLI_OPERATION_DONE;
  op->device->outstanding--;
  op->device->completed++;
}

void gli_straight_finish(gloo_operation *op) {
  end(op);
  if (op->signature.collective != GLI_SENDRECV) gli_operation_remember(op);
  op->straight = false;
  op->strayed = 0;
  clear_up(op);
}

void gli_operation_finish(gloo_operation *op, const gloo_error *error) {
  gloo_context *context = op->context;
  if (op->put_off) leave_put_off(op);
  if (op->straight) gli_straight_stop(op);
  if (op->state == GLI_OPERATION_POSTED) {
    gli_operation_list_remove(&context->family->posted, op);
  } else {
    end(op);
  }
  if (error) {
    op->error = *error;
    op->again = false;
    if (!op->device->forked) gli_reach_recall(op);
  } else if (op->signature.collective != GLI_SENDRECV) {
    gli_operation_remember(op);
  }
  clear_up(op);
}
