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
 * That order must hold back nothing that could go: every send has to depend on
 * all receives before it, and receives take turns with sends.
 *
 * Whatever else happens (a message that came early, or to another step; no room
 * for one; no credit) is not dealt with here: the operation leaves the path
 * (gli_straight_leave), with all as if it had never been on it, and goes on
 * like any other. What its receives are ready for is always up to date. */
#include "engine/straight.h"

#include <string.h>

#include "core/hints.h"
#include "engine/context.h"
#include "engine/device.h"
#include "engine/flow.h"

/* ---- which plans do ------------------------------------------------------ */

static inline bool is_message(const gli_step *s) {
  return s->kind == GLI_STEP_SEND || s->kind == GLI_STEP_RECV ||
         s->kind == GLI_STEP_RECV_REDUCE;
}

/* Longer ones take longer than all of this, and are cut into pieces. */
#define STEP_BYTES ((uint64_t)4096)

static bool is_simple(const gli_step *s) {
  if (s->kind == GLI_STEP_COPY || s->kind == GLI_STEP_REDUCE) return true;
  return is_message(s) && s->role == GLI_ROLE_BYTES &&
         gli_step_wire_bytes(s) <= STEP_BYTES;
}

bool gli_straight_suits(const gli_plan *plan) {
  uint32_t n = plan->n_steps;
  if (plan->n_peers == 0 || n > GLI_STRAIGHT_STEPS) return false;
  if (plan->n_places > 0) return false;
  if (gli_collective_pairwise(plan->params.collective)) return false;
  /* behind[i]: the steps that wait for step i, as bits, or for one of those. */
  uint32_t behind[GLI_STRAIGHT_STEPS], sends = 0, receives = 0;
  for (uint32_t i = n; i-- > 0;) {
    const gli_step *s = &plan->steps[i];
    if (!is_simple(s)) return false;
    behind[i] = 0;
    for (uint32_t k = plan->next_first[i]; k < plan->next_first[i + 1]; k++) {
      behind[i] |= UINT32_C(1) << plan->next[k] | behind[plan->next[k]];
    }
    if (s->kind == GLI_STEP_SEND) {
      sends |= UINT32_C(1) << i;
      receives = 0;
    } else if (is_message(s)) {
      if ((sends & ~behind[i]) != 0 || receives > 0) return false;
      receives = 1;
    }
  }
  return true;
}

void gli_straight_prepare(gloo_operation *op) {
  const gli_plan *plan = op->plan;
  for (uint32_t i = 0; i < plan->n_steps; i++) {
    const gli_step *s = &plan->steps[i];
    if (!is_message(s)) continue;
    const gli_link *link = op->peers[s->peer].link;
    gli_header *h = &op->prepared[i];
    *h = op->signature;
    h->type = GLI_MESSAGE_DATA;
    h->form = GLI_FORM_BYTES;
    h->context = s->kind == GLI_STEP_SEND ? link->group : link->own;
    h->slot = s->slot;
    h->length = gli_step_wire_bytes(s);
  }
  op->prepared_for = op->peers[0].link;
}

/* ---- running ------------------------------------------------------------- */

GLI_INLINE void await(gloo_operation *op, uint32_t step, gli_link *link) {
  op->recv_state[step] = GLI_RECV_READY;
  op->prepared[step].operation = op->signature.operation;
  link->expected = &op->prepared[step];
  link->awaits = op;
}

static void stop_awaiting(gloo_operation *op) {
  if (op->at == op->plan->n_steps) return;
  if (op->recv_state[op->at] == GLI_RECV_UNREADY) return;
  gli_link *link = op->peers[op->plan->steps[op->at].peer].link;
  if (link->awaits == op) link->awaits = NULL;
}

/* Some transports are never done with a message at once. After so many runs in
 * a row that left at a send, an operation tries no more. */
enum { STRAYS_MAX = 8 };

GLI_COLD static void stray(gloo_operation *op, gli_step_kind kind) {
  if (kind == GLI_STEP_SEND && ++op->strayed >= STRAYS_MAX) {
    op->may_go_straight = op->again = false;
  }
  gli_straight_leave(op);
}

GLI_INLINE void run(gloo_operation *op, uint32_t at) {
  uint32_t n = op->plan->n_steps;
  const gli_step *s = &op->plan->steps[at];
  for (; at < n; at++, s++) {
    if (s->kind == GLI_STEP_SEND) {
      if (gli_flow_send_prepared(op, s, &op->prepared[at])) continue;
      break;
    }
    if (is_message(s)) {
      gli_link *link = op->peers[s->peer].link;
      if (op->parked || link->awaits || link->left || link->leaving) break;
      op->at = at;
      await(op, at, link);
      return;
    }
    gli_operation_run_local(op, at);
  }
  op->at = at;
  if (at < n) {
    stray(op, s->kind);
  } else {
    gli_straight_finish(op);
  }
}

void gli_straight_run(gloo_operation *op) {
  run(op, op->at);
}

/* What gli_operation_begin_anew does for any operation, without what is still
 * as the last run left it. */
bool gli_straight_again(gloo_operation *op) {
  gloo_device *device = op->device;
  gloo_context *context = op->context;
  if (device->put_off || device->runnable || context->n_parked) return false;
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    gli_op_peer *peer = &op->peers[i];
    if (peer->link->notes_count > 0) return false;
    *peer = (gli_op_peer){.link = peer->link};
  }
  gli_late_arm(op);
  device->outstanding++;
  op->signature.operation = (*op->counter)++;
  op->state = GLI_OPERATION_RUNNING;
  gli_straight_enter(op);
  gli_operation_list_add(&context->family->active, op);
  gli_match_insert(op);
  run(op, 0);
  return true;
}

void gli_straight_leave(gloo_operation *op) {
  const gli_plan *plan = op->plan;
  stop_awaiting(op);
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

void gli_straight_stop(gloo_operation *op) {
  stop_awaiting(op);
  op->straight = false;
}

/* ---- what comes ---------------------------------------------------------- */

/* Words of a header. The compiler sees that they are eight bytes each. */
static inline uint64_t word(const gli_header *h, size_t at) {
  uint64_t word;
  memcpy(&word, (const uint8_t *)h + at, sizeof word);
  return word;
}

/* All but what may differ: `charged`, `mark`, `credit` and `number`. */
GLI_INLINE bool is_expected(const gli_header *h, const gli_header *expected) {
  static const gli_header mask = {.type = 0xff,
                                  .form = 0x7f,
                                  .tuning = 0xff,
                                  .collective = 0xff,
                                  .dtype = 0xff,
                                  .op = 0xff,
                                  .algorithm = 0xff};
  _Static_assert(offsetof(gli_header, context) == 8, "two words, of");
  _Static_assert(offsetof(gli_header, slot) == 16, "two things each:");
  _Static_assert(offsetof(gli_header, credit) == 24, "tag and root");
  uint64_t differ = (word(h, 0) ^ word(expected, 0)) & word(&mask, 0);
  differ |= word(h, 8) ^ word(expected, 8);
  differ |= word(h, 16) ^ word(expected, 16);
  return (differ | (h->operation ^ expected->operation) |
          (h->count ^ expected->count) | (h->length ^ expected->length)) == 0;
}

GLI_INLINE void store(const gloo_operation *op, const gli_step *s,
                      const uint8_t *payload, uint64_t bytes) {
  uint8_t *dst = gli_operation_at(op, s->dst_buffer, s->dst);
  if (s->kind == GLI_STEP_RECV) {
    memcpy(dst, payload, (size_t)bytes);
    return;
  }
  const void *left = gli_operation_at(op, s->a_buffer, s->a), *right = payload;
  if (s->incoming_left) {
    right = left;
    left = payload;
  }
  op->reduce(dst, left, right, gli_operation_elems(op, (size_t)bytes));
}

bool gli_straight_message(gli_link *link, const gli_header *h,
                          const uint8_t *payload) {
  if (!is_expected(h, link->expected)) return false;
  if (!gli_flow_credit_now(link, h->credit)) return false;
  gloo_operation *op = link->awaits;
  uint32_t step = op->at;
  link->awaits = NULL;
  link->data_came++;
  if (h->charged) gli_flow_consumed(link, h->length);
  if (!op->straight) return true; /* that failed, and ended it */
  const gli_plan *plan = op->plan;
  if (h->length > 0) store(op, &plan->steps[step], payload, h->length);
  op->recv_state[step] = GLI_RECV_DONE;
  op->at = step + 1;
  if (op->at < plan->n_steps) {
    gli_straight_run(op);
  } else {
    gli_straight_finish(op);
  }
  return true;
}
