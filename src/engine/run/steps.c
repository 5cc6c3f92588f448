/* Steps that are done make those ready that wait for them. */
#include "engine/run/in_order.h"
#include "engine/run/run.h"

static void push_ready(gli_operation *op, uint32_t step) {
  op->ready[op->ready_tail++] = step;
}

void gli_operation_step_done(gli_operation *op, uint32_t step) {
  const gli_plan *plan = op->plan;
  if (op->in_order.active) gli_in_order_leave(op);
  op->steps_todo--;
  for (uint32_t i = plan->next_first[step]; i < plan->next_first[step + 1];
       i++) {
    uint32_t next = plan->next[i];
    if (--op->pending[next] == 0) push_ready(op, next);
  }
  gli_operation_make_runnable(op);
}
