/* Completed requests, and the notification of threads and functions. */
#include "core/descriptor.h"
#include "engine/run/run.h"

static void completion_signal(gloo_device *device) {
  gli_event *event = &device->event;
  if (!event->open || event->signalled) return;
  event->signalled = true;
  gli_pipe_signal(event->fds[1]);
}

void gli_event_close(gli_event *event) {
  if (!event->open) return;
  gli_fd_close(event->fds[0]);
  gli_fd_close(event->fds[1]);
  event->open = false;
}

/* Returns true if the end needs a call without the lock, or ends a destroyed
 * group. */
static bool completion_is_wanted(const gli_operation *head) {
  if (head->notice.function != NULL || head->notice.released) return true;
  const gli_operation *op = head;
  while (op != NULL && (op->context == NULL || !op->context->closing))
    op = op->also;
  return op != NULL;
}

void gli_operation_note_end(gli_operation *op) {
  gloo_device *device = op->device;
  gli_operation *head = op->head != NULL ? op->head : op;
  completion_signal(device);
  if (gli_operation_any_running(head)) return;
  for (gli_watcher *w = head->notice.watchers; w != NULL; w = w->next)
    gli_bell_ring(w->bell);
  if (head->notice.queued) return;
  head->notice.told = false;
  if (!completion_is_wanted(head)) return;
  head->notice.queued = true;
  head->odd |= GLI_ODD_QUEUED;
  head->notice.next = NULL;
  head->notice.before = device->told != NULL ? device->told_last : NULL;
  if (device->told != NULL) {
    device->told_last->notice.next = head;
  } else {
    device->told = head;
  }
  device->told_last = head;
  device->notices_pending = 1;
}

void gli_operation_unqueue(gli_operation *head) {
  if (!head->notice.queued) return;
  gloo_device *device = head->device;
  gli_operation *before = head->notice.before, *next = head->notice.next;
  if (before != NULL) {
    before->notice.next = next;
  } else {
    device->told = next;
  }
  if (next != NULL) {
    next->notice.before = before;
  } else {
    device->told_last = before;
  }
  head->notice.queued = false;
  head->odd &= (uint8_t)~GLI_ODD_QUEUED;
  if (device->told == NULL) device->notices_pending = 0;
}
