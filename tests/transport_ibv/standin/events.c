/* Asynchronous events of a device. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

void standin_uncount(int fd) {
  uint64_t one;
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (poll(&ready, 1, 0) == 1) (void)!read(fd, &one, sizeof one);
}

void standin_raise(standin_context *context, enum ibv_event_type type,
                   void *of) {
  const uint64_t one = 1;
  standin_event *event = calloc(1, sizeof *event), **at = &context->events;
  event->event.event_type = type;
  if (of != NULL)
    event->event.element.qp = of; /* a union of pointers */
  else
    event->event.element.port_num = 1;
  while (*at != NULL) at = &(*at)->next;
  *at = event;
  if (write(context->base.async_fd, &one, sizeof one) != sizeof one)
    standin_die("an event cannot be told");
}

static bool is_of_qp(const struct ibv_async_event *event) {
  return event->event_type == IBV_EVENT_QP_FATAL ||
         event->event_type == IBV_EVENT_QP_ACCESS_ERR ||
         event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED ||
         event->event_type == IBV_EVENT_QP_REQ_ERR;
}

void standin_drop_events(standin_context *context, const void *of) {
  for (standin_event **at = &context->events; *at != NULL;) {
    standin_event *event = *at;
    if (event->event.element.qp != of) {
      at = &event->next;
      continue;
    }
    *at = event->next;
    free(event);
    standin_uncount(context->base.async_fd);
  }
}

/* `handle` counts acknowledged events, `events_completed` those that were
 * taken. */
void standin_purge_events(struct ibv_qp *qp) {
  standin_context *context = (standin_context *)qp->context;
  for (int i = 0; qp->handle != qp->events_completed; i++) {
    if (i == 10000)
      standin_die(
          "ibv_destroy_qp waits for an event that was taken and never "
          "acknowledged");
    pthread_mutex_unlock(&standin_lock);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_mutex_lock(&standin_lock);
  }
  standin_drop_events(context, qp);
}

int ibv_get_async_event(struct ibv_context *base,
                        struct ibv_async_event *taken) {
  standin_context *context = (standin_context *)base;
  int code = standin_enter(STANDIN_get_async_event);
  standin_check(STANDIN_CONTEXT, base, "ibv_get_async_event");
  standin_leave();
  while (code == 0) {
    uint64_t one;
    if (read(base->async_fd, &one, sizeof one) != sizeof one) {
      code = errno;
      break;
    }
    pthread_mutex_lock(&standin_lock);
    standin_event *event = context->events;
    if (event != NULL) {
      context->events = event->next;
      *taken = event->event;
      if (is_of_qp(taken)) taken->element.qp->events_completed++;
    }
    pthread_mutex_unlock(&standin_lock);
    if (event == NULL) continue; /* purged */
    free(event);
    return 0;
  }
  errno = code;
  return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event) {
  (void)standin_enter(STANDIN_ack_async_event);
  if (is_of_qp(event)) {
    standin_check(STANDIN_QP, event->element.qp, "ibv_ack_async_event");
    event->element.qp->handle++;
  }
  standin_leave();
}

const char *ibv_event_type_str(enum ibv_event_type event) {
  int code = standin_enter(STANDIN_event_type_str);
  standin_leave();
  if (code != 0) return "unknown";
  switch (event) {
    case IBV_EVENT_DEVICE_FATAL:
      return "local catastrophic error";
    case IBV_EVENT_QP_FATAL:
      return "local work queue catastrophic error";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "last WQE reached";
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return "SRQ limit reached";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "local access violation work queue error";
    default:
      return "an event";
  }
}
