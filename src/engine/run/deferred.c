/* Deferred starts: operations that have begun, but whose steps are left to
 * later polls, which take up one of them each. */
#include "engine/run/run.h"

void gli_device_put_off(gloo_device *device) {
  if (!device->runnable) return;
  if (device->put_off) {
    device->put_off_last->runnable_next = device->runnable;
  } else {
    device->put_off = device->runnable;
  }
  device->put_off_last = device->runnable_last;
  for (gloo_operation *op = device->runnable; op; op = op->runnable_next) {
    op->put_off = true;
  }
  device->runnable = NULL;
}

void gli_device_leave_put_off(gloo_operation *op) {
  gloo_device *device = op->device;
  gloo_operation *before = NULL, **at = &device->put_off;
  while (*at != op) {
    before = *at;
    at = &before->runnable_next;
  }
  *at = op->runnable_next;
  if (device->put_off_last == op) device->put_off_last = before;
  op->put_off = op->runnable = false;
}

void gli_device_take_up(gloo_device *device) {
  gloo_operation *op = device->put_off;
  gli_device_leave_put_off(op);
  gli_operation_make_runnable(op);
}
