/* Deferred starts: operations whose steps are left to later polls, which start
 * one operation each. */
#include "engine/run/run.h"

void gli_device_defer(gloo_device *device) {
  if (device->runnable == NULL) return;
  device->leftovers = true;
  gli_operation *before = NULL;
  if (device->deferred != NULL) {
    before = device->deferred_last;
    device->deferred_last->runnable_next = device->runnable;
  } else {
    device->deferred = device->runnable;
  }
  device->deferred_last = device->runnable_last;
  for (gli_operation *op = device->runnable; op != NULL;
       op = op->runnable_next) {
    op->deferred = true;
    op->deferred_before = before;
    before = op;
  }
  device->runnable = NULL;
}

void gli_device_leave_deferred(gli_operation *op) {
  gloo_device *device = op->device;
  gli_operation *before = op->deferred_before, *next = op->runnable_next;
  if (before != NULL) {
    before->runnable_next = next;
  } else {
    device->deferred = next;
  }
  if (next != NULL) {
    next->deferred_before = before;
  } else {
    device->deferred_last = before;
  }
  op->deferred = op->runnable = false;
}

void gli_device_start_deferred(gloo_device *device) {
  gli_operation *op = device->deferred;
  gli_device_leave_deferred(op);
  gli_operation_make_runnable(op);
}
