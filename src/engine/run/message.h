/* Short messages of bytes: sending and receiving one, both in order and by
 * counted steps. */
#ifndef GLI_ENGINE_RUN_MESSAGE_H
#define GLI_ENGINE_RUN_MESSAGE_H

#include "engine/memory/memory.h"
#include "engine/wire/wire.h"

/* Sends the message of a step, if the transport completes it at once. `pair` is
 * the peer's, and has send_now. Returns false, without any change, if it
 * cannot. */
GLI_INLINE bool gli_send_now(const gli_operation *op, uint32_t step,
                             const gli_step *s, const gli_op_peer *peer,
                             gli_pair *pair, gli_header *header) {
  gli_link *link = peer->link;
  if (link->pending.first != NULL || link->leaving.departed ||
      link->unannounced != NULL)
    return false;
  const void *payload = gli_operation_at(op, s->a_buffer, s->a);
  /* The message may need no copy. */
  if (header->length > GLI_ZERO_COPY_BYTES &&
      gli_expose_is_better(op, step, link, payload, header->length)) {
    return false;
  }
  return gli_wire_offer(peer, pair, header, payload);
}

/* Takes the whole message of a step that is ready for it. The caller handles
 * the credit in its header. */
GLI_INLINE void gli_receive_now(gli_operation *op, uint32_t step,
                                const gli_step *s, gli_link *link, bool eager,
                                uint64_t length, const uint8_t *payload,
                                size_t elems) {
  link->leaving.came++;
  op->recv_state[step] = GLI_RECV_DONE;
  if (eager) gli_wire_consumed(link, length);
  if (length == 0) return;
  gli_operation_store(op, s, payload, (size_t)length, elems);
}

#endif
