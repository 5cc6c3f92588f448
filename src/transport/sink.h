/* Stores arrived payload at its destination. */
#ifndef GLI_TRANSPORT_SINK_H
#define GLI_TRANSPORT_SINK_H

#include "core/hints.h"
#include "kernels/copy.h"
#include "transport/transport.h"

/* Stores or reduces the bytes of a payload from offset `at` on. For a
 * reduction, both are whole elements. */
GLI_INLINE void gli_sink_place(const gli_sink *sink, uint64_t at,
                               const void *data, size_t bytes) {
  uint8_t *dst = (uint8_t *)sink->dst + at;
  if (sink->fn == NULL) {
    gli_copy_bytes(dst, data, bytes);
    return;
  }
  const uint8_t *local = (const uint8_t *)sink->local + at;
  size_t count = bytes / sink->elem_bytes;
  if (sink->incoming_first)
    sink->fn(dst, data, local, count);
  else
    sink->fn(dst, local, data, count);
}

#endif
