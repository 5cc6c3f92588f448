#include "engine/state/deadline.h"

#define PROBE_NS_MAX UINT64_C(200000000)
/* The share of the timeout that is spent on asking. */
#define PROBE_SHARE 8

uint64_t gli_deadline_probe_ns(const gli_operation *op) {
  if (op->deadline.timeout_ns <= 0) return PROBE_NS_MAX;
  uint64_t share = (uint64_t)op->deadline.timeout_ns / PROBE_SHARE;
  return share < PROBE_NS_MAX ? share : PROBE_NS_MAX;
}

void gli_deadline_set(gli_operation *op, uint64_t timer_ns) {
  gloo_device *device = op->device;
  op->deadline.timer_ns = timer_ns;
  if (timer_ns < device->timers_ns) device->timers_ns = timer_ns;
}

void gli_deadline_start(gli_operation *op) {
  gloo_device *device = op->device;
  if (gli_deadline_is_started(op)) return;
  uint64_t now_ns = device->ops->now_ns(device->transport);
  uint64_t timeout_ns = (uint64_t)op->deadline.timeout_ns;
  op->deadline.timer_ns = UINT64_MAX;
  if (timeout_ns >= UINT64_MAX - now_ns) return;
  op->deadline.at_ns = now_ns + timeout_ns;
  gli_deadline_set(op, op->deadline.at_ns - gli_deadline_probe_ns(op));
}
