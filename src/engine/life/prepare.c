/* Makes an operation from a call. */
#include <stdlib.h>
#include <string.h>

#include "core/aligned.h"
#include "core/error.h"
#include "engine/life/life.h"
#include "engine/memory/memory.h"
#include "engine/memory/staged_copies.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"

static gloo_status copy_candidates(gli_operation *op, const gli_call *call,
                                   gloo_error *error) {
  op->p2p.peer = -1;
  op->p2p.n_candidates = 0;
  if (call->n_peers == 1) op->p2p.peer = call->peers[0];
  if (call->n_peers <= 1) return GLOO_OK;
  if (call->n_peers > SIZE_MAX / sizeof(int)) goto no_memory;
  op->p2p.candidates = malloc(call->n_peers * sizeof(int));
  if (op->p2p.candidates == NULL) goto no_memory;
  memcpy(op->p2p.candidates, call->peers, call->n_peers * sizeof(int));
  op->p2p.n_candidates = call->n_peers;
  return GLOO_OK;

no_memory:
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for a list of %zu ranks", call->n_peers);
}

/* Returns the word of a signature that holds the root, which messages do not
 * have; for given counts that all ranks know, and for a custom operation, it is
 * a hash. */
static uint32_t signed_root(const gli_call *call) {
  const gli_plan_params *p = &call->params;
  uint32_t hash =
      call->custom != NULL
          ? gli_custom_op_hash(call->custom, (size_t)call->params.elem_bytes)
          : 0;
  if (p->collective == GLI_SENDRECV) return 0;
  if (!gli_collective_rooted(p->collective)) {
    return (p->counts != NULL ? p->counts->hash : 0) ^ hash;
  }
  if (p->size > UINT32_C(1) << GLI_ROOT_BITS) return p->root;
  return p->root ^ hash >> GLI_ROOT_BITS << GLI_ROOT_BITS;
}

static uint8_t signed_op(const gli_call *call) {
  return (uint8_t)((unsigned)call->op | (call->ordered ? GLI_OP_ORDERED : 0));
}

static void sign_operation(gli_operation *op, const gli_call *call) {
  bool message = call->params.collective == GLI_SENDRECV;
  op->in_order.prepared = false;
  op->in_order.fallbacks = 0;
  /* Elements of a custom operation need more than a kernel, and the rank of a
   * message from any rank is not known beforehand. */
  bool known = !message || call->n_peers == 1;
  op->in_order.allowed = op->in_order.suits && call->custom == NULL && known;
  op->signature = (gli_header){
      .collective = (uint8_t)call->params.collective,
      .dtype = (uint8_t)call->dtype,
      .op = signed_op(call),
      .algorithm = call->algorithm,
      .tuning = message ? 0 : op->context->choices,
      .tag = call->tag,
      .root = signed_root(call),
      .count = call->params.count,
  };
  op->counter = NULL;
  op->side = GLI_COLLECTIVE;
  if (message) {
    op->side = call->params.rank == 0 ? GLI_SEND_SIDE : GLI_RECV_SIDE;
    if (op->plan->n_peers > 0) op->peers[0].link = NULL;
  }
  op->pairwise = gli_collective_pairwise(call->params.collective);
}

/* Finds the kernels, which an operation from the pool often has already. */
static void find_kernels(gli_operation *op, const gli_call *call) {
  const gli_header *last = &op->signature;
  if (call->custom != NULL) {
    gli_custom_op_hold(call->custom);
    op->held_custom = call->custom;
    op->custom =
        (gli_custom_call){.op = call->custom,
                          .dtype = call->dtype,
                          .element_bytes = (size_t)call->params.elem_bytes,
                          .type = call->custom_type};
    op->reduce = NULL;
    return;
  }
  if (op->reduce != NULL && last->dtype == call->dtype &&
      last->op == signed_op(call)) {
    return;
  }
  gloo_dtype dtype = call->wide ? GLOO_FLOAT32 : call->dtype;
  gloo_op between = call->averages ? GLOO_AVERAGE : gli_op_between(call->op);
  op->reduce = gli_reduce_kernel(dtype, between);
  op->combine = NULL;
  if (op->plan->n_operands > 0) {
    op->combine = gli_combine_kernel(dtype, between);
  }
}

static uint8_t ending_of(const gli_call *call) {
  uint8_t staged = call->staging != NULL ? GLI_ENDS_STAGED : 0;
  if (call->wide) return GLI_ENDS_NARROWED | staged;
  bool divides = call->op == GLOO_AVERAGE && !call->averages;
  return divides ? GLI_ENDS_DIVIDED | staged : staged;
}

/* Allocates elements of a custom operation that do not fit on the stack. */
static gloo_status prepare_custom(gli_operation *op, gloo_error *error) {
  gli_custom_call *custom = &op->custom;
  if (custom->op == NULL || custom->element_bytes <= GLI_CUSTOM_SHORT)
    return GLOO_OK;
  size_t stride = gli_custom_op_stride(custom->element_bytes);
  if (stride <= SIZE_MAX / 3) custom->work = gli_aligned_alloc(64, 3 * stride);
  if (custom->work != NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for three elements of %zu bytes",
                  custom->element_bytes);
}

/* Numbers an operation by the order in which it was made. */
static gloo_status prepare_number(gli_operation *op, const gli_call *call,
                                  gloo_error *error) {
  if (!call->matched_by_init) return GLOO_OK;
  gloo_context *context = op->context;
  uint32_t init = context->inits;
  op->counter = gli_counter(&context->init_runs, init);
  if (op->counter == NULL || init > UINT32_C(0x7fffffff))
    return gli_fail(
        error, GLOO_ERR_NO_MEMORY, -1,
        "out of memory or request numbers for another persistent request");
  *op->counter = gli_number_of_init(init);
  context->inits++;
  return GLOO_OK;
}

static gloo_status prepare_scaling(gli_operation *op, const gli_call *call,
                                   gloo_error *error) {
  op->scaling.factor = call->factor;
  op->scaling.joined = call->scales_joined;
  op->ending = ending_of(call);
  if (op->device->event.open) op->ending |= GLI_ENDS_TOLD;
  if (call->wide) return gli_wide_prepare(op, call, error);
  if (call->unscaled == NULL) return GLOO_OK;
  uint64_t bytes = call->unscaled_bytes;
  op->scaling.from = call->unscaled;
  op->scaling.count = (size_t)(bytes / call->params.elem_bytes);
  op->scaling.to = call->output;
  if (call->params.in_place) return GLOO_OK;
  op->scaling.own = malloc((size_t)bytes);
  if (op->scaling.own == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %llu bytes of scaled input",
                    (unsigned long long)bytes);
  }
  op->base[GLI_IN] = op->scaling.to = op->scaling.own;
  return GLOO_OK;
}

/* Fills the description for the records of the operation. */
static void describe_operation(gli_operation *op, const gli_call *call) {
  const gli_plan *plan = op->plan;
  const gli_header *h = &op->signature;
  const gloo_context *context = op->context;
  bool message = gli_operation_is_message(op);
  uint64_t bytes =
      plan->in_bytes > plan->out_bytes ? plan->in_bytes : plan->out_bytes;
  gli_operation_count_runs(op);
  if (call->wide) bytes = bytes / sizeof(float) * gloo_dtype_size(call->dtype);
  op->about = (gli_trace_about){
      .status = GLOO_OK,
      .tuning = h->tuning,
      .collective =
          (op->odd & GLI_ODD_NOTHING) ? GLI_COLLECTIVES : h->collective,
      .dtype = h->dtype,
      .op = message ? op->side == GLI_RECV_SIDE : h->op,
      .algorithm = h->algorithm,
      .first = context->group_first,
      .group = context->group_number,
      .tag = h->tag,
      .root = h->root,
      .peer = message && op->p2p.peer >= 0 ? context->peers[op->p2p.peer].rank
                                           : GLI_NO_RANK,
      .count = h->count,
      .bytes = bytes,
  };
}

static gloo_status new_operation(gloo_context *context, const gli_call *call,
                                 gli_operation **op, gloo_error *error) {
  if (gli_context_poisoned(context))
    return gli_context_unusable(context, error);
  gli_plan_ref *ref;
  gloo_status status = gli_plan_cache_get(context->cache, call->build,
                                          &call->params, &ref, error);
  if (status != GLOO_OK) return status;
  *op = gli_operation_new(context, ref);
  if (*op != NULL) return GLOO_OK;
  gli_plan_cache_put(context->cache, ref);
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for an operation of %u steps",
                  ref->plan->n_steps);
}

static gloo_status make_operation(gloo_context *context, const gli_call *call,
                                  gli_operation **out, gloo_error *error) {
  gli_operation *op;
  gloo_status status = new_operation(context, call, &op, error);
  if (status != GLOO_OK) {
    free(call->staging);
    return status;
  }
  if (call->staging != NULL) {
    op->staging = call->staging;
    op->scaling.from = op->staging;
  }
  find_kernels(op, call);
  sign_operation(op, call);
  if (op->plan->n_steps == 0 && gli_operation_is_message(op))
    op->odd |= GLI_ODD_NOTHING;
  /* Plans only read IN. */
  op->base[GLI_IN] = (uint8_t *)(uintptr_t)call->input;
  op->base[GLI_OUT] = call->output;
  op->base[GLI_SCRATCH] = op->scratch;
  gli_lists_set(op, call);
  op->deadline.timeout_ns =
      call->timeout_ns == 0 ? context->timeout_ns : call->timeout_ns;
  status = copy_candidates(op, call, error);
  if (status == GLOO_OK) status = prepare_custom(op, error);
  if (status == GLOO_OK) status = prepare_number(op, call, error);
  if (status == GLOO_OK) status = prepare_scaling(op, call, error);
  if (status == GLOO_OK && call->params.staged != 0)
    status = gli_staged_prepare(op, call, error);
  if (status != GLOO_OK) {
    gli_operation_release(op);
    return status;
  }
  describe_operation(op, call);
  *out = op;
  return GLOO_OK;
}

gloo_status gli_operation_make(gloo_context *context, const gli_call *call,
                               gli_operation **out, gloo_error *error) {
  gloo_status status = make_operation(context, call, out, error);
  if (status != GLOO_OK) gli_context_note_refused(context, error);
  return status;
}
