/* Memory of operations: one allocation each, kept with the plan that it was
 * made for. */
#include <stdlib.h>

#include "core/custom_op.h"
#include "core/error.h"
#include "engine/life/life.h"
#include "engine/run/in_order.h"
#include "engine/wire/wire.h"

enum { POOL_PER_PLAN = 4 };
/* Outputs are stored past the caches from so many bytes on, and when all inputs
 * and outputs of the host are so many. */
#define VAST_FROM ((uint64_t)2 << 20)
#define VAST_TOGETHER ((uint64_t)28 << 20)

/* ---- memory -------------------------------------------------------------- */

/* Cuts one block into aligned arrays: with NULL for the block, measures it. */
typedef struct carver {
  uint8_t *memory;
  size_t used;
} carver;

static void *carve(carver *c, size_t bytes) {
  void *at = c->memory ? c->memory + c->used : NULL;
  c->used += (bytes + 15) & ~(size_t)15;
  return at;
}

/* The operation's own place is the first. */
static void lay_out(carver *c, const gli_plan *plan, gloo_operation *op) {
  size_t places = plan->n_places, operands = plan->n_operands;
  size_t ins = plan->params.n_in, outs = plan->params.n_out;
  bool suits = gli_in_order_suits(plan);
  op->in_order.suits = suits;
  gli_operands *o = &op->operands;
  c->used = 0;
  carve(c, sizeof *op);
  op->peers = carve(c, plan->n_peers * sizeof *op->peers);
  op->pending = carve(c, plan->n_steps * sizeof *op->pending);
  op->ready = carve(c, plan->n_steps * sizeof *op->ready);
  op->recv_state = carve(c, plan->n_steps);
  op->in_order.messages =
      carve(c, suits ? plan->n_steps * sizeof *op->in_order.messages : 0);
  op->places = carve(c, places * sizeof *op->places);
  o->from = carve(c, operands * sizeof *o->from);
  o->room = carve(c, operands * sizeof *o->room);
  o->to = carve(c, operands * sizeof *o->to);
  o->srcs = carve(c, operands * sizeof *o->srcs);
  o->dsts = carve(c, operands * sizeof *o->dsts);
  op->ins = carve(c, ins * sizeof *op->ins);
  op->outs = carve(c, outs * sizeof *op->outs);
}

/* The logarithm of what is a power of two; GLI_NO_SHIFT: it is none. */
static uint8_t shift_of(uint64_t elem_bytes) {
  uint8_t shift = 0;
  while (shift < 63 && elem_bytes >> shift > 1) shift++;
  return UINT64_C(1) << shift == elem_bytes ? shift : GLI_NO_SHIFT;
}

static void find_last_sends(gloo_operation *op, const gli_plan *plan) {
  uint32_t i = plan->n_steps;
  for (; i > 0; i--) {
    uint8_t kind = plan->steps[i - 1].kind;
    if (kind == GLI_STEP_RECV || kind == GLI_STEP_RECV_REDUCE) break;
    if (kind == GLI_STEP_SEND) op->last_sends++;
  }
  op->receives_until = i;
}

/* The operation and its arrays are one allocation; scratch is another. */
static gloo_operation *allocate(const gli_plan *plan) {
  if (plan->scratch_bytes > SIZE_MAX) return NULL;
  gloo_operation blank;
  carver c = {NULL, 0};
  lay_out(&c, plan, &blank);
  c.memory = calloc(1, c.used);
  if (!c.memory) return NULL;
  gloo_operation *op = (gloo_operation *)(void *)c.memory;
  lay_out(&c, plan, op);
  op->elem_shift = shift_of(plan->params.elem_bytes);
  for (uint32_t i = 0; i < plan->n_peers; i++) {
    if (plan->peers[i].recv_bytes > GLI_EAGER_BYTES) op->expects_much = true;
  }
  find_last_sends(op, plan);
  if (plan->scratch_bytes == 0) return op;
  op->scratch = malloc((size_t)plan->scratch_bytes);
  if (op->scratch) return op;
  free(op);
  return NULL;
}

/* What belongs to the call, and not to the plan. */
static void drop_call(gloo_operation *op) {
  free(op->p2p.candidates);
  op->p2p.candidates = NULL;
  gloo_custom_op_destroy(op->held_custom);
  op->held_custom = NULL;
  op->custom.op = NULL;
  op->scaling.joined = false;
  if (!op->scaling.from) return;
  free(op->scaling.own);
  op->scaling.own = NULL;
  free(op->wide);
  op->wide = NULL;
  op->scaling.from = NULL;
}

static void free_operation(gloo_operation *op) {
  drop_call(op);
  free(op->scratch);
  free(op);
}

/* ---- the pool ------------------------------------------------------------ */

static void unshelve(gloo_operation *op) {
  if (!op->scratch) return;
  gli_family *family = op->context->family;
  gli_operation_list_remove(&family->idle, op);
  family->idle_bytes -= op->plan->scratch_bytes;
}

/* Programs whose sizes vary would otherwise keep scratch for all of them. */
static void shelve(gloo_operation *op) {
  gli_family *family = op->context->family;
  if (!op->scratch) return;
  gli_operation_list_add(&family->idle, op);
  family->idle_bytes += op->plan->scratch_bytes;
  while (family->idle_bytes > GLI_IDLE_SCRATCH && family->idle.first != op) {
    gloo_operation *oldest = family->idle.first;
    unshelve(oldest);
    free(oldest->scratch);
    oldest->scratch = NULL;
  }
}

static gloo_operation *take_pooled(gli_plan_ref *ref) {
  gloo_operation *op = ref->user;
  ref->user = op->pool_next;
  unshelve(op);
  if (op->scratch || op->plan->scratch_bytes == 0) return op;
  op->scratch = malloc((size_t)op->plan->scratch_bytes);
  if (op->scratch) return op;
  free_operation(op);
  return NULL;
}

/* Would the outputs be pushed out of the caches anyway? The ranks of a host
 * share the last of these, and each has its own inputs and outputs. */
static bool is_vast(const gloo_context *context, const gli_plan *plan) {
  uint64_t ranks = context->hosts ? context->hosts->most : context->size;
  uint64_t read = plan->params.in_place ? 0 : plan->in_bytes;
  return plan->out_bytes >= VAST_FROM &&
         plan->out_bytes + read >= VAST_TOGETHER / ranks;
}

gloo_operation *gli_operation_new(gloo_context *context, gli_plan_ref *ref) {
  gloo_operation *op = ref->user ? take_pooled(ref) : allocate(ref->plan);
  if (!op) return NULL;
  op->context = context;
  op->device = context->device;
  op->ref = ref;
  op->plan = ref->plan;
  op->vast = is_vast(context, ref->plan);
  op->state = GLI_OPERATION_IDLE;
  op->p2p.source = -1;
  op->also = NULL;
  gli_error_clear(&op->error);
  op->all_prev = NULL;
  op->all_next = context->all;
  if (context->all) context->all->all_prev = op;
  context->all = op;
  return op;
}

void gli_operation_release(gloo_operation *op) {
  gloo_context *context = op->context;
  if (!context) { /* its context is gone, and its plan with it */
    free_operation(op);
    return;
  }
  if (op->all_prev) {
    op->all_prev->all_next = op->all_next;
  } else {
    context->all = op->all_next;
  }
  if (op->all_next) op->all_next->all_prev = op->all_prev;
  drop_call(op);
  gli_plan_ref *ref = op->ref;
  const gloo_operation *next = ref->user;
  op->pool_depth = next ? next->pool_depth + 1 : 1;
  if (op->pool_depth <= POOL_PER_PLAN) {
    op->pool_next = ref->user;
    ref->user = op;
    shelve(op);
  } else {
    free_operation(op);
  }
  gli_plan_cache_put(context->cache, ref);
}

void gli_operation_free_pool(void *pool) {
  gloo_operation *op = pool;
  while (op) {
    gloo_operation *next = op->pool_next;
    unshelve(op);
    free_operation(op);
    op = next;
  }
}
