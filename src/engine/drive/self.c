/* Messages of a rank to itself: the smallest transport there is. */
#include <string.h>

#include "engine/drive/drive.h"

static void move(const gli_sink *sink, const gli_header *h,
                 const void *payload) {
  if (h->length == 0) return;
  if (!sink->fn) {
    memmove(sink->dst, payload, (size_t)h->length);
    return;
  }
  size_t count = (size_t)(h->length / sink->elem_bytes);
  if (sink->incoming_left) {
    sink->fn(sink->dst, payload, sink->local, count);
  } else {
    sink->fn(sink->dst, sink->local, payload, count);
  }
}

int gli_self_poll(gloo_device *device) {
  int events = 0;
  while (device->self_queue.first) {
    gli_transfer *t = device->self_queue.first;
    gli_transfer_list_remove(&device->self_queue, t);
    gli_link *link = t->link;
    gli_transfer_list_add(&link->flying, t);
    gli_sink sink;
    gloo_status status =
        gli_engine_upcalls.header(link, &t->request.header, &sink);
    if (status != GLOO_OK) return events + 1; /* poisoned: all is dropped */
    move(&sink, &t->request.header, t->request.payload);
    gli_engine_upcalls.received(link, sink.token);
    gli_engine_upcalls.sent(link, &t->request);
    events++;
  }
  return events;
}
