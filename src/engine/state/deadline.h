/* Timers of operations: the time at which each is checked next.
 *
 * The clock of a run is stopped at first, because most runs end before a thread
 * checks them. The thread that started the run, or waits for it, starts the
 * clock before it checks for due timers. A device has a lower bound of all due
 * times, so that most checks do not walk the operations: setting a timer lowers
 * the bound, and a walk raises it to the next due time (drive/driver.c). */
#ifndef GLI_ENGINE_STATE_DEADLINE_H
#define GLI_ENGINE_STATE_DEADLINE_H

#include "engine/state/device.h"

/* Initializes the deadline at the begin of a run. */
static inline void gli_deadline_arm(gli_operation *op) {
  op->deadline.blame_phase = GLI_ON_TIME;
  op->deadline.suspected = false;
  op->deadline.timer_ns = op->deadline.timeout_ns > 0 ? 0 : UINT64_MAX;
  op->deadline.at_ns = UINT64_MAX;
}
static inline bool gli_deadline_is_started(const gli_operation *op) {
  return op->deadline.timer_ns != 0;
}
/* Starts the clock, unless it runs. */
void gli_deadline_start(gli_operation *op);
void gli_deadline_set(gli_operation *op, uint64_t timer_ns);
/* Returns the time before the deadline at which an operation asks which rank is
 * late (probe.c). */
uint64_t gli_deadline_probe_ns(const gli_operation *op);

#endif
