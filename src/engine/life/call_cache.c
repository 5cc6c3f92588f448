/* Repeated calls: their operations stay prepared.
 *
 * A context caches its last calls, each with an operation. The same call again,
 * perhaps on other buffers, starts that operation if it blocks, and a copy of
 * it if it does not; it skips checks, choice and look-up. Calls that take much
 * memory are not cached, and a call that a thread is in is not found. */
#include <stdlib.h>

#include "engine/life/life.h"
#include "engine/state/signature.h"

enum { REMEMBERED = 16, STEPS_MAX = 64, SCRATCH_MAX = 64 << 10 };

static size_t call_cache_slot_of(const gli_repeat_key *key) {
  uint64_t mixed = key->count * 8 + (uint64_t)key->collective * 2 +
                   (uint64_t)(uint32_t)key->who * 64 +
                   (uint64_t)(unsigned)key->side + (uint64_t)key->tag * 1024 +
                   key->lists;
  return (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 60) % REMEMBERED;
}

static bool same_call(const gli_repeat_key *a, const gli_repeat_key *b) {
  return a->collective == b->collective && a->count == b->count &&
         a->dtype == b->dtype && a->op == b->op && a->who == b->who &&
         a->side == b->side && a->ordered == b->ordered && a->tag == b->tag &&
         a->in_place == b->in_place && a->lists == b->lists &&
         a->timeout_ns == b->timeout_ns && a->algorithm == b->algorithm;
}

gli_repeat *gli_repeat_find(gloo_context *context, const gli_repeat_key *key) {
  gli_repeat *r = context->repeats;
  if (r == NULL || gli_context_poisoned(context)) return NULL;
  r += call_cache_slot_of(key);
  return r->operation != NULL && !r->busy && same_call(&r->call.key, key)
             ? r
             : NULL;
}

/* Returns an operation like a cached one. Calls with several buffers, factors
 * or custom operations are not cached. */
gli_operation *gli_repeat_like(const gli_operation *model) {
  gloo_context *context = model->context;
  gli_plan_cache_get_again(context->cache, model->ref);
  gli_operation *op = gli_operation_new(context, model->ref);
  if (op == NULL) {
    gli_plan_cache_put(context->cache, model->ref);
    return NULL;
  }
  /* The peers of a message are not those of its plan. */
  if (gli_operation_is_message(model) ||
      !gli_signature_same(&op->signature, &model->signature)) {
    op->in_order.prepared = false;
  }
  op->signature = model->signature;
  op->in_order.allowed = op->in_order.suits;
  op->in_order.fallbacks = 0;
  op->side = model->side;
  if (op->about.bytes != model->about.bytes) gli_operation_count_runs(op);
  op->about = model->about;
  op->counter = model->counter;
  if (gli_operation_is_message(op))
    op->peers[0] = (gli_op_peer){.link = model->peers[0].link};
  op->pairwise = model->pairwise;
  op->reduce = model->reduce;
  op->combine = model->combine;
  op->ending = model->ending;
  op->deadline.timeout_ns = model->deadline.timeout_ns;
  op->p2p.peer = model->p2p.peer;
  op->p2p.n_candidates = 0;
  op->base[GLI_SCRATCH] = op->scratch;
  return op;
}

static bool is_small(const gli_plan *plan) {
  return plan->n_steps <= STEPS_MAX && plan->scratch_bytes <= SCRATCH_MAX;
}

void gli_repeat_keep(gli_operation *op, const gli_repeated_call *call) {
  gloo_context *context = op->context;
  if (call != NULL && is_small(op->plan) && context->repeats == NULL) {
    context->repeats = calloc(REMEMBERED, sizeof *context->repeats);
  }
  if (call == NULL || !is_small(op->plan) || context->repeats == NULL) {
    gli_operation_release(op);
    return;
  }
  gli_repeat *r = &context->repeats[call_cache_slot_of(&call->key)];
  if (r->busy) {
    gli_operation_release(op);
    return;
  }
  if (r->operation != NULL) gli_operation_release(r->operation);
  r->call = *call;
  r->call.counts = op->plan->params.counts;
  r->operation = op;
}

void gli_repeat_keep_like(const gli_operation *op,
                          const gli_repeated_call *call) {
  if (!is_small(op->plan) || gli_context_poisoned(op->context)) return;
  gli_operation *spare = gli_repeat_like(op);
  if (spare == NULL) return;
  if (!gli_operation_is_message(op)) {
    spare->counter = gli_counter(&op->context->counters, op->signature.tag);
  }
  gli_repeat_keep(spare, call);
}

void gli_repeat_forget_all(gloo_context *context) {
  for (size_t i = 0; context->repeats != NULL && i < REMEMBERED; i++) {
    gli_repeat *r = &context->repeats[i];
    if (r->operation != NULL) gli_operation_release(r->operation);
  }
  free(context->repeats);
  context->repeats = NULL;
}

void gli_repeat_set_timeout(gloo_context *context) {
  for (size_t i = 0; context->repeats != NULL && i < REMEMBERED; i++) {
    const gli_repeat *r = &context->repeats[i];
    if (r->operation == NULL || r->call.key.timeout_ns != 0) continue;
    r->operation->deadline.timeout_ns = context->timeout_ns;
  }
}
