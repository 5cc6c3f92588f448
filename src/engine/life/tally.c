/* Adds up the runs of operations. */
#include "engine/life/life.h"
#include "engine/state/context.h"
#include "engine/state/operation.h"

/* Messages of control contexts, which create groups, are the library's own. */
static void count_peers(const gli_operation *op, gli_totals *totals) {
  bool message = gli_operation_is_message(op);
  bool internal = op->context->is_control;
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    const gli_plan_peer *p = &op->plan->peers[i];
    uint32_t rank = message ? op->about.peer : op->context->peers[p->rank].rank;
    if (rank == GLI_NO_RANK) continue;
    gli_peer_total *total = internal ? &totals->internal : &totals->peers[rank];
    total->messages_sent += op->runs * p->sends;
    total->bytes_sent += op->runs * p->send_bytes;
    total->messages_received += op->runs * p->recvs;
    total->bytes_received += op->runs * p->recv_bytes;
  }
}

void gli_operation_count_runs(gli_operation *op) {
  const gli_trace_about *a = &op->about;
  if (op->runs == 0) return;
  gli_totals *totals = op->context->family->totals;
  bool message = a->collective == GLI_SENDRECV;
  gli_call_total *total =
      &totals
           ->calls[message ? GLI_TOTAL_MESSAGES + (a->op != 0) : a->algorithm];
  if (a->collective < GLI_COLLECTIVES) count_peers(op, totals);
  if (a->collective < GLI_COLLECTIVES && !op->context->is_control) {
    total->collective = a->collective;
    total->calls += op->runs;
    total->bytes += op->runs * a->bytes;
    total->ticks += op->ticks;
  }
  op->runs = op->ticks = 0;
}

static void count_pool(void *pool, void *user) {
  (void)user;
  for (gli_operation *op = pool; op != NULL; op = op->pool_next)
    gli_operation_count_runs(op);
}

static void count_context(gloo_context *context) {
  for (gli_operation *op = context->all; op != NULL; op = op->all_next)
    gli_operation_count_runs(op);
  gli_plan_cache_each(context->cache, count_pool, NULL);
}

void gli_family_count_runs(gli_family *family) {
  count_context(family->root);
  for (gloo_context *g = family->groups; g != NULL; g = g->next)
    count_context(g);
}
