/* Copies of memory that the host does not touch: each poll ends what has ended
 * and begins what may begin. */
#include "engine/drive/drive.h"
#include "engine/memory/staged_copies.h"

int gli_copies_poll(gloo_device *device) {
  int events = 0;
  for (gli_operation *op = device->staged; op != NULL;
       op = gli_staged_after(op)) {
    uint32_t step;
    while (!gli_context_poisoned(op->context) &&
           gli_staged_next_done(op, &step)) {
      gli_operation_step_done(op, step);
      events++;
    }
  }
  return events;
}
