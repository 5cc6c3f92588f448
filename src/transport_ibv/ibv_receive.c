/* Receiving: payload is copied or reduced directly from the receive buffers. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "memory/region.h"
#include "transport/sink.h"
#include "transport_ibv/ibv.h"

static const char no_sense[] = "is invalid";

/* ---- messages ------------------------------------------------------------ */

/* Reads the header from a frame. Returns false if it is invalid here. */
static bool ibv_read_header(gli_ibv_pair *pair, const gli_ibv_frame *frame,
                            gli_header *header, uint32_t *sum) {
  *sum = 0;
  if (frame->bytes < GLI_HEADER_BYTES) return false;
  bool good = pair->checked
                  ? gli_header_decode_checked(frame->data, header, sum)
                  : gli_header_decode(frame->data, header);
  return good && header->type != GLI_MESSAGE_BYE &&
         header->type != GLI_MESSAGE_ABORT && header->type != GLI_MESSAGE_LINK;
}

static void ibv_recv_damaged(gli_ibv_pair *pair) {
  gli_ibv_pair_spoil(pair, "is corrupt: its checksum (CRC32C) differs");
}

/* Gets the sink of a message. Returns false if the engine ends the pair. */
static bool ibv_ask_where(gli_ibv_pair *pair, const gli_header *header,
                          gli_sink *sink) {
  if (pair->t->upcalls->header(pair->config.user, header, sink) != GLOO_OK)
    pair->live = false;
  return pair->live;
}

/* Returns false if the data is not a whole number of elements. */
static bool ibv_place(const gli_sink *sink, uint64_t at, const uint8_t *data,
                      size_t bytes) {
  if (sink->fn != NULL && bytes % sink->elem_bytes != 0) return false;
  if (bytes > 0) gli_sink_place(sink, at, data, bytes);
  return true;
}

static void receive_whole(gli_ibv_pair *pair, const gli_ibv_frame *frame) {
  const gli_upcalls *upcalls = pair->t->upcalls;
  gli_header header;
  gli_sink sink;
  uint32_t sum;
  bool taken = false;
  if (!ibv_read_header(pair, frame, &header, &sum) ||
      header.length != frame->bytes - GLI_HEADER_BYTES) {
    gli_ibv_pair_spoil(pair, no_sense);
    return;
  }
  const uint8_t *payload = frame->data + GLI_HEADER_BYTES;
  size_t bytes = (size_t)header.length;
  if (pair->checked && gli_crc32c(0, payload, bytes) != sum) {
    ibv_recv_damaged(pair);
    return;
  }
  if (upcalls->message != NULL &&
      upcalls->message(pair->config.user, &header, payload, &taken) != GLOO_OK)
    pair->live = false;
  if (taken || !pair->live || !ibv_ask_where(pair, &header, &sink)) return;
  if (ibv_place(&sink, 0, payload, bytes))
    upcalls->received(pair->config.user, sink.token);
  else
    gli_ibv_pair_spoil(pair, no_sense);
}

/* Completes a message of several frames. */
static void long_received(gli_ibv_pair *pair, gli_ibv_in *in) {
  if (pair->checked && in->sum != in->expected_sum) {
    ibv_recv_damaged(pair);
    return;
  }
  in->used = false;
  pair->t->upcalls->received(pair->config.user, in->sink.token);
}

static void long_place(gli_ibv_pair *pair, gli_ibv_in *in, const uint8_t *data,
                       size_t bytes) {
  if (bytes == 0 || bytes > in->header.length - in->placed ||
      !ibv_place(&in->sink, in->placed, data, bytes)) {
    gli_ibv_pair_spoil(pair, no_sense);
    return;
  }
  in->placed += bytes;
  if (pair->checked) in->sum = gli_crc32c(in->sum, data, bytes);
  if (in->placed == in->header.length) long_received(pair, in);
}

/* Chooses whether the sender writes the payload to its destination, or this end
 * reads it, if `keys` offers that. Both require registered memory, and payload
 * that is not reduced. The answer to a read follows it. */
static void choose_mode(gli_ibv_pair *pair, uint32_t n, const uint8_t *keys) {
  gli_ibv_in *in = &pair->in[n];
  size_t bytes = (size_t)in->header.length;
  in->mode = GLI_IBV_STREAMS;
  if (in->sink.fn == NULL) {
    in->mr = gli_ibv_registered(pair->t, in->sink.dst, bytes);
    if (in->mr != NULL) in->mode = GLI_IBV_WRITES;
    if (in->mr != NULL && keys != NULL &&
        gli_ibv_lanes_fetch(pair->lanes, n, in->sink.dst, bytes, keys))
      in->mode = GLI_IBV_READS;
  }
  in->answered = in->mode == GLI_IBV_READS;
  if (!in->answered) pair->to_answer++;
  gli_ibv_pair_busy(pair);
}

void gli_ibv_fetched(gli_ibv_pair *pair, uint32_t n) {
  gli_ibv_in *in = &pair->in[n];
  size_t bytes = (size_t)in->header.length;
  if (!gli_region_retake(in->sink.dst, bytes)) {
    gli_ibv_pair_spoil(pair, "cannot be accessed in place");
    return;
  }
  if (pair->checked) in->sum = gli_crc32c(0, in->sink.dst, bytes);
  in->fetched = true;
  in->answered = false;
  pair->to_answer++;
}

void gli_ibv_report_fetched(gli_ibv_pair *pair) {
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) {
    gli_ibv_in *in = &pair->in[n];
    if (in->used && in->fetched && in->answered && pair->live && !pair->broken)
      long_received(pair, in);
  }
}

/* Handles the first frame of a message of several frames. */
static void receive_long(gli_ibv_pair *pair, const gli_ibv_frame *frame) {
  gli_ibv_in got = {.used = true, .mode = GLI_IBV_STREAMS};
  bool asks = frame->kind == GLI_IBV_ASK;
  gli_ibv_in *in =
      frame->number < GLI_IBV_LONGS ? &pair->in[frame->number] : NULL;
  if (in == NULL || in->used ||
      !ibv_read_header(pair, frame, &got.header, &got.expected_sum) ||
      got.header.length <= frame->bytes - GLI_HEADER_BYTES ||
      (frame->bytes > GLI_HEADER_BYTES
           ? asks && (pair->lanes == NULL ||
                      !gli_ibv_lanes_allow(pair->lanes,
                                           frame->bytes - GLI_HEADER_BYTES))
           : !asks)) {
    gli_ibv_pair_spoil(pair, no_sense);
    return;
  }
  got.answered = !asks;
  if (!ibv_ask_where(pair, &got.header, &got.sink)) return;
  *in = got;
  if (!asks) {
    long_place(pair, in, frame->data + GLI_HEADER_BYTES,
               frame->bytes - GLI_HEADER_BYTES);
    return;
  }
  choose_mode(
      pair, frame->number,
      frame->bytes > GLI_HEADER_BYTES ? frame->data + GLI_HEADER_BYTES : NULL);
}

static void receive_piece(gli_ibv_pair *pair, const gli_ibv_frame *frame) {
  gli_ibv_in *in =
      frame->number < GLI_IBV_LONGS ? &pair->in[frame->number] : NULL;
  gli_ibv_mode mode =
      frame->kind == GLI_IBV_MORE ? GLI_IBV_STREAMS : GLI_IBV_WRITES;
  if (in == NULL || !in->used || !in->answered || in->mode != mode) {
    gli_ibv_pair_spoil(pair, no_sense);
  } else if (mode == GLI_IBV_STREAMS) {
    long_place(pair, in, frame->data, frame->bytes);
  } else {
    size_t bytes = (size_t)in->header.length;
    if (!gli_region_retake(in->sink.dst, bytes)) {
      gli_ibv_pair_spoil(pair, "cannot be accessed in place");
      return;
    }
    if (pair->checked) in->sum = gli_crc32c(0, in->sink.dst, bytes);
    long_received(pair, in);
  }
}

/* ---- frames -------------------------------------------------------------- */

/* Handles a frame. A pair that is not live handles only answers. */
static void receive_frame(gli_ibv_pair *pair, const gli_ibv_frame *frame) {
  bool hears = pair->live && !pair->departed;
  switch (frame->kind) {
    case GLI_IBV_WHOLE:
      if (hears) receive_whole(pair, frame);
      break;
    case GLI_IBV_FIRST:
    case GLI_IBV_ASK:
      if (hears) receive_long(pair, frame);
      break;
    case GLI_IBV_MORE:
    case GLI_IBV_WRITTEN:
      if (hears) receive_piece(pair, frame);
      break;
    case GLI_IBV_STREAM:
    case GLI_IBV_PLACE:
    case GLI_IBV_FETCHED:
      if (!gli_ibv_answered(pair, frame) && !pair->departed)
        gli_ibv_pair_spoil(pair, no_sense);
      break;
    case GLI_IBV_LANES:
      if (hears && !gli_ibv_lanes_note(pair, frame))
        gli_ibv_pair_spoil(pair, no_sense);
      break;
    case GLI_IBV_CREDIT:
    case GLI_IBV_PROBE:
      break;
    default:
      gli_ibv_pair_spoil(pair, no_sense);
  }
}

static uint32_t frame_credits(const uint8_t *at) {
  return (uint32_t)at[2] | (uint32_t)at[3] << 8;
}

static void take_credits(gli_ibv_pair *pair, uint32_t credits) {
  if (credits == 0) return;
  pair->credits += credits;
  gli_ibv_room(pair);
}

/* Returns the buffer of a handled frame. */
static void receive_reuse(gli_ibv_pair *pair, gli_ibv_slot *slot) {
  pair->owed++;
  if (!gli_ibv_reuse(pair->t, pair, slot))
    gli_ibv_pair_break(pair, GLOO_ERR_IO,
                       "cannot receive from rank %" PRIu32 " through %s: %s",
                       pair->config.peer_rank, pair->t->port.name,
                       strerror(errno));
}

/* Handles the bytes of a frame. A peer that sends more than it may would take
 * the buffers of others. */
static void receive_bytes(gli_ibv_pair *pair, const uint8_t *at,
                          uint32_t bytes) {
  pair->taken++;
  if (pair->allowed-- == 0) {
    gli_ibv_pair_spoil(pair, "exceeds the permitted number of messages");
    return;
  }
  if (bytes < GLI_IBV_FRAME_HEAD || bytes > GLI_IBV_FRAME_MAX || at[1] != 0 ||
      frame_credits(at) > GLI_IBV_SLOTS - pair->credits) {
    gli_ibv_pair_spoil(pair, no_sense);
    return;
  }
  take_credits(pair, frame_credits(at));
  const gli_ibv_frame frame = {.kind = at[0],
                               .number = gli_get_u32(at + 4),
                               .data = at + GLI_IBV_FRAME_HEAD,
                               .bytes = bytes - GLI_IBV_FRAME_HEAD};
  receive_frame(pair, &frame);
  if (pair->leaving) gli_ibv_check_bye(pair);
}

void gli_ibv_receive(gli_ibv_pair *pair, gli_ibv_slot *slot, uint32_t bytes) {
  receive_bytes(pair, slot->memory + GLI_IBV_FRAME_AT, bytes);
  receive_reuse(pair, slot);
  if (pair->owed >= GLI_IBV_SLOTS / 2 && pair->qp != NULL && !pair->broken)
    gli_ibv_pair_busy(pair);
}

/* Returns true if only messages can come next, without checksums. */
static bool ibv_takes_now(const gli_ibv_pair *pair) {
  return pair->way == GLI_IBV_BY_VERBS && pair->qp != NULL && pair->live &&
         !pair->broken && !pair->departed && !pair->leaving && !pair->checked;
}

/* Returns true if the frame is expected; others stay in place for poll. */
static bool frame_is_expected(const gli_ibv_pair *pair, const uint8_t *at,
                              uint32_t bytes, const gli_header *expected,
                              gli_taken *taken) {
  gli_header header;
  if (bytes > GLI_IBV_FRAME_MAX || pair->allowed == 0 ||
      bytes != GLI_IBV_FRAME_HEAD + GLI_HEADER_BYTES + expected->length ||
      at[0] != GLI_IBV_WHOLE || at[1] != 0 ||
      frame_credits(at) > GLI_IBV_SLOTS - pair->credits ||
      !gli_header_decode(at + GLI_IBV_FRAME_HEAD, &header) ||
      !gli_header_is(&header, expected))
    return false;
  taken->eager = header.eager;
  taken->credit = header.credit;
  taken->payload = at + GLI_IBV_FRAME_HEAD + GLI_HEADER_BYTES;
  return true;
}

/* The caller reads the buffer after the return. A later call, or poll, reposts
 * it. */
bool gli_ibv_take_now(gli_pair *base, const gli_header *expected,
                      gli_taken *taken) {
  gli_ibv_pair *pair = (gli_ibv_pair *)base;
  uint32_t bytes;
  if (pair->way == GLI_IBV_BY_TCP && pair->tcp != NULL) {
    const gli_transport_ops *ops = pair->tcp->ops;
    return ops->take_now != NULL && ops->take_now(pair->tcp, expected, taken);
  }
  if (!ibv_takes_now(pair)) return false;
  gli_ibv_slot *slot = gli_ibv_comes_next(pair, &bytes);
  if (slot == NULL) return false;
  const uint8_t *at = slot->memory + GLI_IBV_FRAME_AT;
  if (!frame_is_expected(pair, at, bytes, expected, taken)) return false;
  gli_ibv_drop_next(pair->t);
  take_credits(pair, frame_credits(at));
  pair->taken++;
  pair->allowed--;
  receive_reuse(pair, slot);
  if (!pair->broken) gli_ibv_give_credit(pair);
  return true;
}
