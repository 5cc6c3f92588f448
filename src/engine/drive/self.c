/* Messages of a rank to itself: the smallest transport there is. */
#include "engine/drive/drive.h"
#include "kernels/copy.h"
#include "transport/sink.h"

int gli_self_poll(gloo_device *device) {
  int events = 0;
  while (device->self_queue.first != NULL) {
    gli_transfer *t = device->self_queue.first;
    gli_transfer_list_remove(&device->self_queue, t);
    gli_link *link = t->link;
    gli_transfer_list_add(&link->in_flight, t);
    gli_sink sink;
    gloo_status status =
        gli_engine_upcalls.header(link, &t->request.header, &sink);
    if (status != GLOO_OK) return events + 1; /* poisoned: all is dropped */
    size_t bytes = (size_t)t->request.header.length;
    if (bytes > 0 && sink.fn == NULL) /* perhaps to where it is */
      gli_move_bytes(sink.dst, t->request.payload, bytes);
    else if (bytes > 0)
      gli_sink_place(&sink, 0, t->request.payload, bytes);
    gli_engine_upcalls.received(link, sink.token);
    gli_engine_upcalls.sent(link, &t->request);
    events++;
  }
  return events;
}
