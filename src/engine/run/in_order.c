/* Small operations go straight: step after step, in the order of the plan.
 *
 * Most steps of most small operations wait for the step before them, and are
 * done as soon as they are begun, or once the one message comes that everybody
 * waits for. Counting who waits for whom would take longer than the steps
 * themselves. So a plan of few short messages is taken in its own order, with
 * the headers of all its messages made beforehand: what is sent differs from
 * run to run in a number or two, and what comes is compared word for word with
 * what should come.
 *
 * A message that is there already is taken from where it lies, without a poll
 * of all that may come (take_now), but never from within an upcall.
 *
 * That order must hold back nothing that could go: every send has to depend on
 * all receives before it, and what is long and depends on nothing comes first.
 *
 * Whatever else happens (a message that came early, or to another step; no room
 * for one; no credit) is not dealt with here: the operation leaves the path
 * (gli_straight_leave), with all as if it had never been on it, and goes on
 * like any other. What its receives are ready for is always up to date. */
#include "engine/run/in_order.h"

#include <string.h>

#include "core/cpu.h"
#include "core/hints.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/run/run.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* ---- which plans do ------------------------------------------------------ */

static inline bool is_message(const gli_step *s) {
  return s->kind == GLI_STEP_SEND || s->kind == GLI_STEP_RECV ||
         s->kind == GLI_STEP_RECV_REDUCE;
}

/* Longer ones take longer than all of this. */
#define STEP_BYTES ((uint64_t)GLI_TAKE_BYTES)
/* A longer copy had better be made while others wait as well. */
#define COPY_BYTES ((uint64_t)4096)

static bool is_simple(const gli_step *s) {
  if (s->kind == GLI_STEP_COPY || s->kind == GLI_STEP_REDUCE) return true;
  return is_message(s) && s->role == GLI_ROLE_BYTES &&
         gli_step_wire_bytes(s) <= STEP_BYTES;
}

bool gli_straight_suits(const gli_plan *plan) {
  uint32_t n = plan->n_steps;
  if (plan->n_peers == 0 || n > GLI_STRAIGHT_STEPS) return false;
  if (plan->n_places > 0) return false;
  /* behind[i]: the steps that wait for step i, as bits, or for one of those. */
  uint32_t behind[GLI_STRAIGHT_STEPS], sends = 0;
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

/* If it has what such a message goes by. */
static gli_pair *pair_for(gli_pair *pair, bool sends, uint64_t length) {
  if (!pair) return NULL;
  if (sends) return pair->ops->send_now ? pair : NULL;
  return length <= GLI_TAKE_BYTES && pair->ops->take_now ? pair : NULL;
}

void gli_straight_prepare(gloo_operation *op) {
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    gli_straight_step *made = &op->straight_steps[i];
    *made = (gli_straight_step){.kind = s->kind};
    if (!is_message(s)) continue;
    made->peer = &op->peers[s->peer];
    made->link = made->peer->link;
    made->a = s->a;
    made->dst = s->dst;
    made->a_buffer = s->a_buffer;
    made->dst_buffer = s->dst_buffer;
    made->incoming_left = s->incoming_left != 0;
    bool sends = s->kind == GLI_STEP_SEND;
    gli_header *h = &made->header;
    *h = op->signature;
    h->type = GLI_MESSAGE_DATA;
    h->form = GLI_FORM_BYTES;
    h->context = sends ? made->link->group : made->link->own;
    h->slot = s->slot;
    h->length = gli_step_wire_bytes(s);
    if (op->pairwise) h->count = gli_plan_exchanged(plan, s->peer, sends);
    made->elems = (uint32_t)gli_operation_elems(op, (size_t)h->length);
    made->pair = pair_for(made->link->pair, sends, h->length);
  }
  op->prepared_for = op->peers[0].link;
}

/* ---- what comes ---------------------------------------------------------- */

GLI_INLINE void store(const gloo_operation *op, const gli_straight_step *s,
                      const uint8_t *payload) {
  size_t bytes = (size_t)s->header.length;
  if (bytes == 0) return;
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  if (s->kind == GLI_STEP_RECV) {
    memcpy(dst, payload, bytes);
    return;
  }
  const void *left = gli_operation_at(op, s->a_buffer, s->a), *right = payload;
  if (s->incoming_left) {
    right = left;
    left = payload;
  }
  op->reduce(dst, left, right, s->elems);
}

/* More than gli_flow_credit_now does. */
GLI_COLD static bool take_credit(gli_link *link, uint32_t credit) {
  gloo_error error;
  if (gli_flow_credit(link, credit, &error) != GLOO_OK) {
    gli_context_poison(link->context, &error);
  }
  return !gli_context_poisoned(link->context);
}

typedef enum got { GOT_NOTHING, GOT_IT, GOT_AN_ERROR } got;

/* The message of a step whose turn it is, if it is there already. */
GLI_INLINE got take(gloo_operation *op, uint32_t at, gli_straight_step *s) {
  gli_link *link = s->link;
  gloo_device *device = op->device;
  gli_taken taken;
  if (!s->pair || !gli_device_may_do_without(device)) return GOT_NOTHING;
  if (!s->pair->ops->take_now(s->pair, &s->header, &taken)) return GOT_NOTHING;
  device->unpolled++;
  link->data_came++;
  op->recv_state[at] = GLI_RECV_DONE;
  if (taken.charged) gli_flow_consumed(link, s->header.length);
  if (!gli_flow_credit_now(link, taken.credit) &&
      !take_credit(link, taken.credit)) {
    return GOT_AN_ERROR;
  }
  store(op, s, taken.payload);
  return GOT_IT;
}

/* ---- running ------------------------------------------------------------- */

/* How far a run came. */
typedef enum ran { RAN_TO_THE_END, AWAITS, STRAYS } ran;

/* False: something is in its way, and nothing has changed. */
GLI_INLINE bool send_now(gloo_operation *op, uint32_t at,
                         gli_straight_step *s) {
  gli_link *link = s->link;
  if (!s->pair || link->again.first) return false;
  if (link->left || link->unannounced > 0) return false;
  gli_header *header = &s->header;
  const void *payload = gli_operation_at(op, s->a_buffer, s->a);
  /* It may be one that need not be copied. */
  if (header->length > GLI_REFER_BYTES &&
      gli_reach_refers(op, at, link, payload, header->length)) {
    return false;
  }
  header->operation = op->signature.operation;
  return gli_flow_offer(s->peer, s->pair, header, payload);
}

static void await(gloo_operation *op, uint32_t at, gli_straight_step *s) {
  op->at = at;
  op->recv_state[at] = GLI_RECV_READY;
  s->link->expected = &s->header;
  s->link->awaits = op;
}

/* Some transports are never done with a message at once. After so many runs in
 * a row that left at a send, an operation tries no more. */
enum { STRAYS_MAX = 8 };

GLI_COLD static void stray(gloo_operation *op) {
  bool sends = op->at < op->plan->n_steps &&
               op->straight_steps[op->at].kind == GLI_STEP_SEND;
  if (sends && ++op->strayed >= STRAYS_MAX) gli_straight_no_more(op);
  gli_straight_leave(op);
}

/* `takes`: it may take what is there, not being in an upcall. */
GLI_INLINE ran run(gloo_operation *op, uint32_t at, bool takes) {
  uint32_t n = op->plan->n_steps;
  gli_straight_step *s = &op->straight_steps[at];
  for (; at < n; at++, s++) {
    if (s->kind == GLI_STEP_SEND) {
      if (send_now(op, at, s)) continue;
      break;
    }
    if (!s->peer) {
      gli_operation_run_local(op, at);
      continue;
    }
    gli_link *link = s->link;
    if (op->parked || link->awaits || link->left || link->leaving) break;
    s->header.operation = op->signature.operation;
    got taken = takes ? take(op, at, s) : GOT_NOTHING;
    if (taken == GOT_NOTHING) {
      await(op, at, s);
      return AWAITS;
    }
    if (taken == GOT_AN_ERROR) {
      op->at = at + 1;
      return STRAYS;
    }
  }
  op->at = at;
  return at < n ? STRAYS : RAN_TO_THE_END;
}

GLI_INLINE void go_by(gloo_operation *op, ran how) {
  if (how == RAN_TO_THE_END) gli_straight_finish(op);
  if (how == STRAYS) stray(op);
}

void gli_straight_run(gloo_operation *op) {
  go_by(op, run(op, op->at, false));
}

/* It began and ended in one go: nobody has heard of it. */
GLI_INLINE void end_at_once(gloo_operation *op) {
  if (op->signature.collective != GLI_SENDRECV) gli_operation_remember(op);
  op->straight = false;
  op->strayed = 0;
  op->state = GLI_OPERATION_DONE;
}

/* From now on it has its place among those that are under way. */
GLI_INLINE void stay(gloo_operation *op, ran how) {
  op->straight = true;
  op->state = GLI_OPERATION_RUNNING;
  op->device->outstanding++;
  gli_late_arm(op);
  gli_operation_list_add(&op->context->family->active, op);
  gli_match_insert(op);
  if (how == STRAYS) stray(op);
}

GLI_INLINE void begun(gloo_operation *op, ran how) {
  if (how == RAN_TO_THE_END) {
    end_at_once(op);
  } else {
    stay(op, how);
  }
}

/* Is the message there that it awaits? If so, go on. */
GLI_INLINE ran look(gloo_operation *op) {
  uint32_t at = op->at;
  gli_straight_step *s = &op->straight_steps[at];
  got taken = take(op, at, s);
  if (taken == GOT_NOTHING) return AWAITS;
  s->link->awaits = NULL;
  if (taken == GOT_IT) return run(op, at + 1, true);
  op->at = at + 1;
  return STRAYS;
}

/* What most wait for is on its way: as long as nobody knows of an operation,
 * nothing has to be undone when it ends. */
GLI_INLINE ran look_on(gloo_operation *op, unsigned looks) {
  ran how = AWAITS;
  for (; looks > 0 && how == AWAITS; looks--) {
    if (!op->straight_steps[op->at].pair) break;
    if (!gli_device_may_do_without(op->device)) break;
    gli_cpu_relax();
    how = look(op);
  }
  return how;
}

/* What gli_operation_begin_anew does for any operation, without what is still
 * as the last run left it. */
GLI_INLINE bool prepare_again(gloo_operation *op) {
  gloo_device *device = op->device;
  if (device->put_off || device->runnable || op->context->n_parked) {
    return false;
  }
  if (op->side == GLI_RECV_SIDE && op->context->family->posted.first) {
    return false;
  }
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    gli_op_peer *peer = &op->peers[i];
    if (peer->link->notes_count > 0) return false;
    *peer = (gli_op_peer){.link = peer->link};
  }
  op->signature.operation = *op->counter;
  memset(op->recv_state, GLI_RECV_UNREADY, GLI_STRAIGHT_STEPS);
  return true;
}

bool gli_straight_again(gloo_operation *op, unsigned looks) {
  if (!prepare_again(op)) return false;
  ++*op->counter;
  ran how = run(op, 0, true);
  if (how == AWAITS) how = look_on(op, looks);
  begun(op, how);
  return true;
}

void gli_straight_leave(gloo_operation *op) {
  const gli_plan *plan = op->plan;
  gli_in_order_stop_awaiting(op);
  op->straight = false;
  op->steps_left = plan->n_steps - op->at;
  op->ready_head = op->ready_tail = 0;
  memcpy(op->pending, plan->n_deps, plan->n_steps * sizeof *op->pending);
  for (uint32_t k = 0; k < plan->next_first[op->at]; k++) {
    op->pending[plan->next[k]]--;
  }
  for (uint32_t i = op->at; i < plan->n_steps; i++) {
    bool begun = op->recv_state[i] != GLI_RECV_UNREADY;
    if (op->pending[i] == 0 && !begun) op->ready[op->ready_tail++] = i;
  }
  gli_operation_make_runnable(op);
}

/* ---- what was awaited ---------------------------------------------------- */

bool gli_straight_message(gli_link *link, const gli_header *h,
                          const uint8_t *payload) {
  if (!gli_header_is(h, link->expected)) return false;
  if (!gli_flow_credit_now(link, h->credit)) return false;
  gloo_operation *op = link->awaits;
  uint32_t step = op->at;
  link->awaits = NULL;
  link->data_came++;
  if (h->charged) gli_flow_consumed(link, h->length);
  if (!op->straight) return true; /* that failed, and ended it */
  store(op, &op->straight_steps[step], payload);
  op->recv_state[step] = GLI_RECV_DONE;
  go_by(op, run(op, step + 1, false));
  return true;
}

bool gli_straight_look_for(gloo_operation *op) {
  uint32_t at = op->at;
  if (op->recv_state[at] != GLI_RECV_READY) return false;
  ran how = look(op);
  if (op->at == at) return false;
  go_by(op, how);
  return true;
}
