/* Memory of operations: one allocation each, kept with the plan that it was
 * made for. */
#include <stdlib.h>

#include "core/aligned.h"
#include "core/error.h"
#include "engine/life/life.h"
#include "engine/memory/staged_copies.h"
#include "engine/run/in_order.h"
#include "engine/wire/wire.h"
#include "kernels/custom_op.h"

enum { POOL_PER_PLAN = 4 };
/* The length of an output from which it is stored non-temporally, if all inputs
 * and outputs of the host have at least NONTEMPORAL_TOGETHER bytes. */
#define NONTEMPORAL_FROM ((uint64_t)2 << 20)
#define NONTEMPORAL_TOGETHER ((uint64_t)28 << 20)

/* ---- memory -------------------------------------------------------------- */

/* Cuts one block into aligned arrays; without a block, computes its size. */
typedef struct carver {
  uint8_t *memory;
  size_t used;
} carver;

static void *carve_arrays(carver *c, size_t bytes) {
  void *at = c->memory != NULL ? c->memory + c->used : NULL;
  c->used += (bytes + 15) & ~(size_t)15;
  return at;
}

/* Lays out an operation and its arrays. The operation itself comes first. */
static void pool_lay_out(carver *c, const gli_plan *plan, gli_operation *op) {
  size_t places = plan->n_windows, operands = plan->n_operands;
  size_t ins = plan->params.n_in, outs = plan->params.n_out;
  bool suits = gli_in_order_suits(plan);
  op->in_order.suits = suits;
  gli_operands *o = &op->operands;
  c->used = 0;
  carve_arrays(c, sizeof *op);
  op->peers = carve_arrays(c, plan->n_peers * sizeof *op->peers);
  op->pending = carve_arrays(c, plan->n_steps * sizeof *op->pending);
  op->ready = carve_arrays(c, plan->n_steps * sizeof *op->ready);
  op->recv_state = carve_arrays(c, plan->n_steps);
  op->in_order.messages = carve_arrays(
      c, suits ? plan->n_steps * sizeof *op->in_order.messages : 0);
  op->windows = carve_arrays(c, places * sizeof *op->windows);
  o->from = carve_arrays(c, operands * sizeof *o->from);
  o->room = carve_arrays(c, operands * sizeof *o->room);
  o->to = carve_arrays(c, operands * sizeof *o->to);
  o->srcs = carve_arrays(c, operands * sizeof *o->srcs);
  o->dsts = carve_arrays(c, operands * sizeof *o->dsts);
  op->ins = carve_arrays(c, ins * sizeof *op->ins);
  op->outs = carve_arrays(c, outs * sizeof *op->outs);
}

/* Returns the logarithm of a power of two; GLI_NO_SHIFT for other sizes. */
static uint8_t shift_of(uint64_t elem_bytes) {
  uint8_t shift = 0;
  while (shift < 63 && elem_bytes >> shift > 1) shift++;
  return UINT64_C(1) << shift == elem_bytes ? shift : GLI_NO_SHIFT;
}

static void find_last_sends(gli_operation *op, const gli_plan *plan) {
  uint32_t i = plan->n_steps;
  for (; i > 0; i--) {
    uint8_t kind = plan->steps[i - 1].kind;
    if (kind == GLI_STEP_RECV || kind == GLI_STEP_RECV_REDUCE) break;
    if (kind == GLI_STEP_SEND) op->last_sends++;
  }
  op->receives_until = i;
}

/* The operation and its arrays are one allocation; scratch is another. */
static gli_operation *allocate_operation(const gli_plan *plan) {
  if (plan->scratch_bytes > SIZE_MAX) return NULL;
  gli_operation blank;
  carver c = {NULL, 0};
  pool_lay_out(&c, plan, &blank);
  c.memory = calloc(1, c.used);
  if (c.memory == NULL) return NULL;
  gli_operation *op = (gli_operation *)(void *)c.memory;
  pool_lay_out(&c, plan, op);
  op->bytes = c.used;
  op->elem_shift = shift_of(plan->params.elem_bytes);
  for (uint32_t i = 0; i < plan->n_peers; i++) {
    if (plan->peers[i].recv_bytes > GLI_CTS_UNASKED_BYTES)
      op->cts_unasked = true;
  }
  find_last_sends(op, plan);
  if (plan->scratch_bytes == 0) return op;
  op->scratch = malloc((size_t)plan->scratch_bytes);
  if (op->scratch != NULL) return op;
  free(op);
  return NULL;
}

/* Releases what belongs to the call and not to the plan. */
static void drop_call(gli_operation *op) {
  if (op->p2p.candidates != NULL) {
    free(op->p2p.candidates);
    op->p2p.candidates = NULL;
  }
  if (op->held_custom != NULL) {
    gloo_custom_op_destroy(op->held_custom);
    op->held_custom = NULL;
    op->custom.op = NULL;
    gli_aligned_free(op->custom.work);
    op->custom.work = NULL;
  }
  if (op->ending & GLI_ENDS_TOLD) op->notice = (gli_notice){.function = NULL};
  if (op->odd != 0 && op->owner != NULL) {
    *op->owner = NULL;
    op->owner = NULL;
  }
  op->scaling.joined = false;
  if (op->scaling.from == NULL) return;
  free(op->scaling.own);
  op->scaling.own = NULL;
  free(op->wide);
  op->wide = NULL;
  free(op->staging);
  op->staging = NULL;
  gli_staged_free(op->staged);
  op->staged = NULL;
  op->scaling.from = NULL;
}

static void free_operation(gli_operation *op) {
  if (op->context != NULL) gli_operation_count_runs(op);
  drop_call(op);
  free(op->scratch);
  free(op);
}

/* ---- the pool ------------------------------------------------------------ */

static void pool_unshelve(gli_operation *op) {
  if (op->scratch == NULL) return;
  gli_family *family = op->context->family;
  gli_operation_list_remove(&family->idle, op);
  family->idle_bytes -= op->plan->scratch_bytes;
}

/* Frees scratch of idle operations, oldest first, until at most `most` bytes
 * remain, or only that of `last`. */
static void pool_shrink(gli_family *family, uint64_t most,
                        const gli_operation *last) {
  while (family->idle_bytes > most && family->idle.first != last) {
    gli_operation *oldest = family->idle.first;
    pool_unshelve(oldest);
    free(oldest->scratch);
    oldest->scratch = NULL;
  }
}

/* Keeps the scratch memory of an operation in a list of limited size, since
 * programs with varying sizes would otherwise keep some for each. */
static void pool_shelve(gli_operation *op) {
  gli_family *family = op->context->family;
  if (op->scratch == NULL) return;
  gli_operation_list_add(&family->idle, op);
  family->idle_bytes += op->plan->scratch_bytes;
  pool_shrink(family, GLI_IDLE_SCRATCH, op);
}

static gli_operation *take_pooled(gli_plan_ref *ref) {
  gli_operation *op = ref->user;
  ref->user = op->pool_next;
  pool_unshelve(op);
  if (op->scratch != NULL || op->plan->scratch_bytes == 0) return op;
  op->scratch = malloc((size_t)op->plan->scratch_bytes);
  if (op->scratch != NULL) return op;
  free_operation(op);
  return NULL;
}

/* Returns true if the outputs would leave the caches anyway. The ranks of a
 * host share the last-level cache, and each has its own inputs and outputs. */
static bool is_nontemporal(const gloo_context *context, const gli_plan *plan) {
  if (plan->out_bytes < NONTEMPORAL_FROM) return false;
  uint64_t ranks =
      context->hosts != NULL ? context->hosts->most : context->size;
  uint64_t read = plan->params.in_place ? 0 : plan->in_bytes;
  return plan->out_bytes + read >= NONTEMPORAL_TOGETHER / ranks;
}

gli_operation *gli_operation_new(gloo_context *context, gli_plan_ref *ref) {
  gli_operation *op =
      ref->user != NULL ? take_pooled(ref) : allocate_operation(ref->plan);
  if (op == NULL) return NULL;
  op->context = context;
  op->device = context->device;
  op->ref = ref;
  op->plan = ref->plan;
  op->nontemporal = is_nontemporal(context, ref->plan);
  gli_operation_becomes(op, GLI_OPERATION_IDLE);
  op->p2p.source = -1;
  op->also = op->head = NULL;
  op->odd = 0;
  gli_error_clear(&op->error);
  op->all_prev = NULL;
  op->all_next = context->all;
  if (context->all != NULL) context->all->all_prev = op;
  context->all = op;
  return op;
}

void gli_operation_release(gli_operation *op) {
  gloo_context *context = op->context;
  if (context == NULL) { /* its context and plan have ended */
    free_operation(op);
    return;
  }
  if (op->all_prev != NULL) {
    op->all_prev->all_next = op->all_next;
  } else {
    context->all = op->all_next;
  }
  if (op->all_next != NULL) op->all_next->all_prev = op->all_prev;
  /* The next message of its plan may be with another rank. */
  if (gli_operation_is_message(op)) gli_operation_count_runs(op);
  drop_call(op);
  gli_plan_ref *ref = op->ref;
  const gli_operation *next = ref->user;
  op->pool_depth = next != NULL ? next->pool_depth + 1 : 1;
  if (op->pool_depth <= POOL_PER_PLAN) {
    op->pool_next = ref->user;
    ref->user = op;
    pool_shelve(op);
  } else {
    free_operation(op);
  }
  gli_plan_cache_put(context->cache, ref);
}

void gli_operation_free_pool(void *pool) {
  gli_operation *op = pool;
  while (op != NULL) {
    gli_operation *next = op->pool_next;
    pool_unshelve(op);
    free_operation(op);
    op = next;
  }
}

/* ---- memory in use ------------------------------------------------------- */

static void add_pool_bytes(void *pool, void *sum) {
  for (const gli_operation *op = pool; op != NULL; op = op->pool_next)
    *(uint64_t *)sum += op->bytes;
}

static void add_kept(const gloo_context *context, gli_kept *kept) {
  gli_plan_cache_stats stats;
  gli_plan_cache_get_stats(context->cache, &stats);
  kept->plans += stats.bytes;
  gli_plan_cache_each(context->cache, add_pool_bytes, &kept->operations);
}

gli_kept gli_family_kept(const gli_family *family) {
  gli_kept kept = {.scratch = family->idle_bytes};
  add_kept(family->root, &kept);
  for (const gloo_context *g = family->groups; g != NULL; g = g->next)
    add_kept(g, &kept);
  return kept;
}

/* Frees the memory kept for later calls. Operations of plans that requests hold
 * remain, without scratch. */
void gli_family_trim(gli_family *family) {
  gli_plan_cache_drop_idle(family->root->cache);
  for (gloo_context *g = family->groups; g != NULL; g = g->next)
    gli_plan_cache_drop_idle(g->cache);
  pool_shrink(family, 0, NULL);
}
