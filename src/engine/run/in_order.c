/* The first phase of a run: step after step, in the order of the plan.
 *
 * Most steps of most small operations wait for the step before them, and
 * complete as soon as they begin, or once their one message arrives. Counting
 * which step waits for which would take longer than the steps themselves. So a
 * plan of few short messages is begun in its own order, with the headers of all
 * its messages made beforehand: from run to run only a number or two in them
 * change, and a message that arrives is compared word for word with the
 * expected header.
 *
 * A message that has arrived is taken in place, without a poll of all links
 * (take_now), but never from within an upcall.
 *
 * The order must not hold back a step that could run: every send has to depend
 * on all receives before it, and long steps without dependencies come first.
 *
 * All exceptions (a message that is early, or for another step; no room for a
 * message; no credit) end this phase: the cursor turns into counters
 * (gli_in_order_leave), as if steps had been counted from the beginning, and
 * the operation continues with them. recv_state is always up to date. */
#include "engine/run/in_order.h"

#include <string.h>

#include "core/hints.h"
#include "engine/run/message.h"
#include "engine/run/run.h"
#include "engine/state/deadline.h"
#include "engine/state/fail.h"

/* ---- plans that qualify -------------------------------------------------- */

static inline bool is_message(const gli_step *s) {
  return s->kind == GLI_STEP_SEND || s->kind == GLI_STEP_RECV ||
         s->kind == GLI_STEP_RECV_REDUCE;
}

/* The longest message: longer ones take longer than counting steps. */
#define STEP_BYTES ((uint64_t)GLI_TAKE_BYTES)
/* The length above which a copy is better made while other messages are
 * awaited. */
#define COPY_BYTES ((uint64_t)4096)

static bool is_simple(const gli_step *s) {
  if (s->kind == GLI_STEP_COPY || s->kind == GLI_STEP_REDUCE) return true;
  return is_message(s) && s->role == GLI_ROLE_BYTES &&
         gli_step_wire_bytes(s) <= STEP_BYTES;
}

bool gli_in_order_suits(const gli_plan *plan) {
  uint32_t n = plan->n_steps;
  if (plan->n_peers == 0 || n > GLI_IN_ORDER_STEPS) return false;
  if (plan->n_windows > 0) return false;
  /* behind[i]: bit mask of the steps that depend on step i, directly or not. */
  uint32_t behind[GLI_IN_ORDER_STEPS], sends = 0;
  bool copies = false;
  for (uint32_t i = n; i-- > 0;) {
    const gli_step *s = &plan->steps[i];
    if (!is_simple(s)) return false;
    behind[i] = 0;
    for (uint32_t k = plan->next_first[i]; k < plan->next_first[i + 1]; k++) {
      behind[i] |= UINT32_C(1) << plan->next[k] | behind[plan->next[k]];
    }
    if (s->kind == GLI_STEP_SEND) {
      sends |= UINT32_C(1) << i;
    } else if (is_message(s)) {
      if (copies || (sends & ~behind[i]) != 0) return false;
    } else if (plan->n_deps[i] == 0) {
      copies = copies || s->bytes > COPY_BYTES;
    }
  }
  return true;
}

/* Returns the pair if it has the function for such a message; NULL
 * otherwise. */
static gli_pair *pair_for(gli_pair *pair, bool sends, uint64_t length) {
  if (pair == NULL) return NULL;
  if (sends) return pair->ops->send_now != NULL ? pair : NULL;
  return length <= GLI_TAKE_BYTES && pair->ops->take_now != NULL ? pair : NULL;
}

void gli_in_order_prepare(gli_operation *op) {
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    gli_message *made = &op->in_order.messages[i];
    *made = (gli_message){.step = s};
    if (!is_message(s)) continue;
    made->peer = &op->peers[s->peer];
    const gli_link *link = made->link = made->peer->link;
    bool sends = s->kind == GLI_STEP_SEND;
    gli_header *h = &made->header;
    *h = op->signature;
    h->type = GLI_MESSAGE_DATA;
    h->form = GLI_FORM_BYTES;
    h->context = sends ? link->group.peers : link->group.own;
    h->slot = s->slot;
    h->length = gli_step_wire_bytes(s);
    if (op->pairwise) h->count = gli_plan_exchanged(plan, s->peer, sends);
    made->elems = gli_operation_elems(op, (size_t)h->length);
    made->pair = pair_for(link->pair, sends, h->length);
  }
  op->in_order.prepared = op->scaling.from == NULL; /* no input to make */
}

/* ---- arrivals ------------------------------------------------------------ */

/* Takes credit in the cases that gli_wire_credit_now does not handle. */
GLI_COLD static bool take_credit(gli_link *link, uint32_t credit) {
  gloo_error error;
  if (gli_wire_credit(link, credit, &error) != GLOO_OK) {
    gli_context_poison(link->context, &error);
  }
  return !gli_context_poisoned(link->context);
}

typedef enum got { GOT_NOTHING, GOT_IT, GOT_AN_ERROR } got;

/* Takes the message of the current step, if it has arrived. */
GLI_INLINE got take_message(gli_operation *op, uint32_t at, gli_message *m) {
  gloo_device *device = op->device;
  gli_taken *taken = &device->taken;
  if (m->pair == NULL || !gli_device_may_skip_poll(device)) return GOT_NOTHING;
  if (!m->pair->ops->take_now(m->pair, &m->header, taken)) return GOT_NOTHING;
  device->unpolled++;
  gli_link *link = m->link;
  gli_receive_now(op, at, m->step, link, taken->eager, m->header.length,
                  taken->payload, m->elems);
  /* No other message is taken in between. */
  if (gli_wire_credit_now(link, taken->credit) ||
      take_credit(link, taken->credit)) {
    return GOT_IT;
  }
  return GOT_AN_ERROR;
}

/* ---- running ------------------------------------------------------------- */

/* How far a run has come. */
typedef enum ran { RAN_TO_THE_END, AWAITS, FALLS_BACK } ran;

static void await_message(gli_operation *op, uint32_t at, gli_message *m) {
  gli_link *link = m->link;
  op->in_order.at = at;
  op->recv_state[at] = GLI_RECV_READY;
  link->expected = &m->header;
  link->awaits = op;
  op->about.peer = link->rank;
}

/* The number of consecutive runs that fall back at a send, after which an
 * operation does not try again: some transports never complete a message at
 * once. */
enum { FALLBACKS_MAX = 8 };

GLI_COLD static void fall_back(gli_operation *op) {
  gli_in_order *o = &op->in_order;
  const gli_plan *plan = op->plan;
  bool sends =
      o->at < plan->n_steps && plan->steps[o->at].kind == GLI_STEP_SEND;
  if (sends && ++o->fallbacks >= FALLBACKS_MAX) gli_in_order_no_more(op);
  gli_in_order_leave(op);
}

GLI_INLINE ran run_from(gli_operation *op, uint32_t at, bool takes) {
  uint32_t n = op->plan->n_steps;
  gli_message *m = &op->in_order.messages[at];
  for (; at < n; at++, m++) {
    if (m->peer == NULL) {
      gli_operation_run_local(op, at);
      continue;
    }
    m->header.operation = op->signature.operation;
    if (m->step->kind == GLI_STEP_SEND) {
      if (m->pair != NULL &&
          gli_send_now(op, at, m->step, m->peer, m->pair, &m->header)) {
        continue;
      }
      break;
    }
    const gli_link *link = m->link;
    if (op->early != NULL || link->awaits != NULL || link->leaving.departed ||
        link->leaving.announced)
      break;
    got taken = takes ? take_message(op, at, m) : GOT_NOTHING;
    if (taken == GOT_NOTHING) {
      await_message(op, at, m);
      return AWAITS;
    }
    if (taken == GOT_AN_ERROR) {
      op->in_order.at = at + 1;
      return FALLS_BACK;
    }
  }
  op->in_order.at = at;
  return at < n ? FALLS_BACK : RAN_TO_THE_END;
}

GLI_INLINE void go_by(gli_operation *op, ran how) {
  if (how == RAN_TO_THE_END) {
    op->in_order.fallbacks = 0;
    gli_operation_finish(op, NULL);
  } else if (how == FALLS_BACK) {
    fall_back(op);
  }
}

void gli_in_order_run(gli_operation *op) {
  go_by(op, run_from(op, op->in_order.at, false));
}

void gli_in_order_leave(gli_operation *op) {
  const gli_plan *plan = op->plan;
  uint32_t at = op->in_order.at;
  gli_in_order_stop(op);
  gli_device_list(op->device);
  op->steps_todo = plan->n_steps - at;
  op->ready_head = op->ready_tail = 0;
  memcpy(op->pending, plan->n_deps, plan->n_steps * sizeof *op->pending);
  for (uint32_t k = 0; k < plan->next_first[at]; k++) {
    op->pending[plan->next[k]]--;
  }
  for (uint32_t i = at; i < plan->n_steps; i++) {
    bool begun = op->recv_state[i] != GLI_RECV_UNREADY;
    if (op->pending[i] == 0 && !begun) op->ready[op->ready_tail++] = i;
  }
  gli_operation_make_runnable(op);
}

/* ---- the beginning ------------------------------------------------------- */

/* Returns true if nothing has to be done before the operation. */
GLI_INLINE bool may_begin(gli_operation *op) {
  const gloo_device *device = op->device;
  const gloo_context *context = op->context;
  if (device->deferred != NULL || device->runnable != NULL || context->n_early)
    return false;
  if (op->side == GLI_RECV_SIDE && context->family->posted.first != NULL)
    return false;
  return true;
}

bool gli_in_order_begin(gli_operation *op) {
  if (!may_begin(op)) return false;
  gli_operation_forget(op);
  op->signature.operation = (*op->counter)++;
  gli_in_order_reset(op);
  ran how = run_from(op, 0, true);
  /* Read the clock after the sends, so that messages are already on their
   * way. */
  uint64_t ticks = gli_ticks();
  if (how == RAN_TO_THE_END) {
    op->in_order.fallbacks = 0;
    gli_operation_end(op, true, ticks, ticks);
    return true;
  }
  op->started = ticks;
  gloo_device *device = op->device;
  op->in_order.active = true;
  gli_operation_becomes(op, GLI_OPERATION_RUNNING);
  gli_deadline_arm(op);
  gli_device_list(device);
  device->outstanding++;
  device->unlisted = op;
  if (how == FALLS_BACK) fall_back(op);
  return true;
}

/* ---- awaited messages ---------------------------------------------------- */

bool gli_in_order_message(gli_link *link, const gli_header *h,
                          const uint8_t *payload) {
  if (!gli_header_is(h, link->expected)) return false;
  if (!gli_wire_credit_now(link, h->credit)) return false;
  gli_operation *op = link->awaits;
  uint32_t at = op->in_order.at;
  const gli_message *m = &op->in_order.messages[at];
  link->awaits = NULL;
  gli_receive_now(op, at, m->step, link, h->eager, h->length, payload,
                  m->elems);
  if (!op->in_order.active) return true; /* the message failed, and ended it */
  go_by(op, run_from(op, at + 1, false));
  return true;
}

bool gli_in_order_look(gli_operation *op) {
  gli_in_order *o = &op->in_order;
  uint32_t at = o->at;
  if (!o->active || op->recv_state[at] != GLI_RECV_READY) return false;
  gli_message *m = &o->messages[at];
  got taken = take_message(op, at, m);
  if (taken == GOT_NOTHING) return false;
  m->link->awaits = NULL;
  if (taken == GOT_IT) {
    go_by(op, run_from(op, at + 1, true));
  } else {
    o->at = at + 1;
    fall_back(op);
  }
  return true;
}
