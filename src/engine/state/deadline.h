/* Timers of operations: when each is to be looked at next.
 *
 * The clock of a run does not run at first, for most runs end before a thread
 * looks at it. The thread that started the run, or waits for it, starts its
 * clock before it looks for timers that are due. A device knows a time before
 * which none is, so that no thread looks through all operations for nothing:
 * as timers are set that time comes closer, and when it has come the look
 * through all finds the next one (drive/driver.c). */
#ifndef GLI_ENGINE_STATE_DEADLINE_H
#define GLI_ENGINE_STATE_DEADLINE_H

#include "engine/state/device.h"

/* A run begins. */
static inline void gli_deadline_arm(gli_operation *op) {
  op->deadline.blame_phase = GLI_ON_TIME;
  op->deadline.suspected = false;
  op->deadline.timer_ns = op->deadline.timeout_ns > 0 ? 0 : UINT64_MAX;
  op->deadline.at_ns = UINT64_MAX;
}
static inline bool gli_deadline_is_started(const gli_operation *op) {
  return op->deadline.timer_ns != 0;
}
/* Does nothing if the clock runs already. */
void gli_deadline_start(gli_operation *op);
void gli_deadline_set(gli_operation *op, uint64_t timer_ns);
/* How long before its deadline it asks which rank is late (probe.c). */
uint64_t gli_deadline_probe_ns(const gli_operation *op);

#endif
