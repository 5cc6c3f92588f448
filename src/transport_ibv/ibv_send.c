/* Sending. A work request takes a slot for its frame or a copy of payload, unless
 * it is sent inline. The slot is free once its or a later completion is known. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/crc32c.h"
#include "kernels/copy.h"
#include "transport_ibv/ibv.h"

enum {
  /* One of this many work requests is signalled. */
  TELL_EVERY = 4,
  WRITE_MAX = 1 << 20,
  ANSWER_BYTES = GLI_IBV_FRAME_HEAD + GLI_IBV_PLACE_BYTES, /* at most */
  /* Credit for one frame is reserved for returning credit, so that both ends
   * cannot run out at once. */
  KEPT = 1
};

static bool ibv_may_post(const gli_ibv_pair *pair) {
  return pair->posted - pair->done < GLI_IBV_SLOTS;
}

bool gli_ibv_has_room(gli_ibv_pair *pair, size_t bytes) {
  return ibv_may_post(pair) && pair->credits > KEPT &&
         gli_ibv_has_memory(pair, bytes);
}

/* ---- work requests ------------------------------------------------------- */

void gli_ibv_work_begin(gli_ibv_pair *pair, gli_ibv_work *work, size_t bytes) {
  memset(work, 0, sizeof *work);
  work->wr.wr_id = (uintptr_t)pair;
  work->wr.sg_list = work->part;
  if (bytes == 0) return;
  if (bytes <= pair->inline_max) {
    work->memory = pair->t->scratch;
    work->wr.send_flags = IBV_SEND_INLINE;
  } else {
    work->slot = gli_ibv_slot_take(pair);
    work->memory = work->slot->memory;
    work->part[0].lkey = work->slot->lkey;
  }
  work->part[0].addr = (uintptr_t)work->memory;
}

bool gli_ibv_work_post(gli_ibv_pair *pair, gli_ibv_work *work, int owner,
                       bool tells) {
  struct ibv_send_wr *bad;
  uint32_t i = pair->posted % GLI_IBV_SLOTS;
  pair->owner[i] = (uint8_t)(owner + 1);
  pair->slot[i] = work->slot;
  pair->signalled[i] =
      tells || i % TELL_EVERY == TELL_EVERY - 1 ||
      (work->slot != NULL && gli_ibv_slots_scarce(&pair->t->shared));
  if (pair->signalled[i]) work->wr.send_flags |= IBV_SEND_SIGNALED;
  int code = ibv_post_send(pair->qp, &work->wr, &bad);
  if (code != 0) {
    gli_ibv_pair_break(
        pair, GLOO_ERR_IO, "cannot send to rank %" PRIu32 " through %s: %s",
        pair->config.peer_rank, pair->t->port.name, strerror(code));
    return false;
  }
  pair->posted++;
  if (pair->signalled[i]) pair->tells_at = pair->posted;
  if (owner >= 0) pair->out[owner].reads++;
  return true;
}

void gli_ibv_send_done(gli_ibv_pair *pair) {
  bool told = false;
  while (pair->done != pair->posted && !told) {
    uint32_t i = pair->done++ % GLI_IBV_SLOTS;
    told = pair->signalled[i];
    if (pair->owner[i] != 0) pair->out[pair->owner[i] - 1].reads--;
    if (pair->piece[i].work != NULL)
      gli_ibv_rma_piece_done(pair, &pair->piece[i]);
    if (pair->slot[i] == NULL) continue;
    gli_ibv_slot_free(pair, pair->slot[i]);
    pair->slot[i] = NULL;
  }
  if (pair->way == GLI_IBV_WAY_CONNECTED) {
    gli_ibv_probed(pair);
    return;
  }
  gli_ibv_room(pair);
}

/* ---- frames -------------------------------------------------------------- */

static void frame_put_head(gli_ibv_pair *pair, const gli_ibv_parts *f,
                           uint8_t *at) {
  at[0] = (uint8_t)f->kind;
  at[1] = 0;
  at[2] = (uint8_t)pair->owed;
  at[3] = (uint8_t)(pair->owed >> 8);
  gli_put_u32(at + 4, f->number);
  pair->allowed += pair->owed;
  pair->owed = 0;
}

/* Returns the number of bytes of a frame that are not read in place. They are
 * inline only if that is all of it. */
static size_t frame_copied(const gli_ibv_parts *f) {
  if (f->mr != NULL) return GLI_IBV_SLOT_BYTES;
  size_t header = f->header != NULL ? GLI_HEADER_BYTES : 0;
  return GLI_IBV_FRAME_HEAD + header + f->bytes;
}

bool gli_ibv_frame_post(gli_ibv_pair *pair, const gli_ibv_parts *f) {
  gli_ibv_work work;
  gli_ibv_work_begin(pair, &work, frame_copied(f));
  size_t bytes = GLI_IBV_FRAME_HEAD;
  frame_put_head(pair, f, work.memory);
  if (f->header != NULL) {
    if (pair->checked)
      gli_header_encode_checked(f->header, f->header->number,
                                work.memory + bytes);
    else
      gli_header_encode(f->header, work.memory + bytes);
    bytes += GLI_HEADER_BYTES;
  }
  work.wr.num_sge = 1;
  if (f->mr != NULL) {
    work.part[1] = (struct ibv_sge){.addr = (uintptr_t)f->data,
                                    .length = (uint32_t)f->bytes,
                                    .lkey = f->mr->lkey};
    work.wr.num_sge = 2;
  } else if (f->bytes > 0) {
    gli_copy_bytes(work.memory + bytes, f->data, f->bytes);
    bytes += f->bytes;
  }
  work.part[0].length = (uint32_t)bytes;
  work.wr.opcode = IBV_WR_SEND;
  if (!gli_ibv_work_post(pair, &work, f->mr != NULL ? (int)f->number : -1,
                         f->tells))
    return false;
  pair->credits--;
  pair->frames++;
  if (f->kind < GLI_IBV_CREDIT) pair->must_arrive = pair->posted;
  return true;
}

/* The first probe has as many bytes as a frame can have, because the network may
 * drop packets of full length only. */
bool gli_ibv_post_probe(gli_ibv_pair *pair) {
  static uint8_t nothing[GLI_IBV_MORE_MAX];
  bool first = pair->way == GLI_IBV_WAY_CONNECTED;
  const gli_ibv_parts probe = {.kind = GLI_IBV_PROBE,
                               .data = nothing,
                               .bytes = first ? GLI_IBV_MORE_MAX : 0,
                               .tells = true};
  return gli_ibv_has_room(pair, frame_copied(&probe)) &&
         gli_ibv_frame_post(pair, &probe);
}

bool gli_ibv_arrived(const gli_ibv_pair *pair) {
  return pair->queue.head == NULL && pair->n_out == 0 &&
         (int32_t)(pair->done - pair->must_arrive) >= 0;
}

/* Posts an RDMA write of payload to the receiver's destination. */
static bool write_post(gli_ibv_pair *pair, uint32_t n, gli_ibv_out *out,
                       size_t bytes) {
  gli_ibv_work work;
  const uint8_t *from = (const uint8_t *)out->request->payload + out->posted;
  gli_ibv_work_begin(pair, &work, out->mr != NULL ? 0 : bytes);
  if (out->mr != NULL) {
    work.part[0].addr = (uintptr_t)from;
    work.part[0].lkey = out->mr->lkey;
  } else {
    gli_copy_bytes(work.memory, from, bytes);
  }
  work.part[0].length = (uint32_t)bytes;
  work.wr.num_sge = 1;
  work.wr.opcode = IBV_WR_RDMA_WRITE;
  work.wr.wr.rdma.remote_addr = out->remote + out->posted;
  work.wr.wr.rdma.rkey = out->rkey;
  return gli_ibv_work_post(pair, &work, out->mr != NULL ? (int)n : -1, false);
}

/* ---- messages ------------------------------------------------------------ */

static bool ibv_is_short(const gli_header *header) {
  return header->length <= GLI_IBV_FIRST_MAX;
}

/* Returns the length of the first frame of a message, or more. */
static size_t whole_bytes(const gli_header *header) {
  return GLI_IBV_FRAME_HEAD + GLI_HEADER_BYTES + (size_t)header->length;
}

static bool whole_post(gli_ibv_pair *pair, const gli_header *header,
                       const void *payload) {
  const gli_ibv_parts f = {.kind = GLI_IBV_WHOLE,
                           .header = header,
                           .data = payload,
                           .bytes = (size_t)header->length};
  return gli_ibv_frame_post(pair, &f);
}

static uint32_t ibv_sum(const gli_ibv_pair *pair, const gli_header *header,
                        const void *payload) {
  return pair->checked ? gli_crc32c(0, payload, (size_t)header->length) : 0;
}

/* Sends the first frame of a message of several frames. */
static bool long_begin(gli_ibv_pair *pair, gli_send_request *request) {
  uint32_t n = 0;
  while (pair->out[n].request != NULL) n++;
  gli_ibv_out *out = &pair->out[n];
  uint8_t keys[GLI_IBV_LANE_KEYS_MAX];
  gli_ibv_parts f = {.number = n, .header = &request->header};
  *out = (gli_ibv_out){.request = request};
  if (request->header.length < GLI_IBV_LONG_MIN) {
    f.kind = GLI_IBV_FIRST;
    f.data = request->payload;
    f.bytes = GLI_IBV_FIRST_MAX;
    out->mode = GLI_IBV_STREAMS;
    out->posted = f.bytes;
  } else {
    f.kind = GLI_IBV_ASK;
    if (!pair->closed) /* otherwise the payload is a copy */
      out->mr = gli_ibv_registered(pair->t, request->payload,
                                   (size_t)request->header.length);
    if (out->mr != NULL && pair->t->rails.n > 0)
      f.bytes = gli_ibv_offer_payload(pair, request, keys);
    f.data = keys;
    out->offered = f.bytes > 0;
  }
  pair->n_out++;
  return gli_ibv_frame_post(pair, &f);
}

/* Starts the next message of the queue. Returns false if none, or no room. */
static bool ibv_begin_next(gli_ibv_pair *pair) {
  gli_send_request *request = pair->queue.head;
  if (request == NULL) return false;
  bool is_short = ibv_is_short(&request->header);
  if (!is_short && pair->n_out == GLI_IBV_LONGS) return false;
  if (!gli_ibv_has_room(pair, whole_bytes(&request->header))) return false;
  (void)gli_request_pop(&pair->queue);
  request->header.number = ibv_sum(pair, &request->header, request->payload);
  if (!is_short) return long_begin(pair, request);
  bool good = whole_post(pair, &request->header, request->payload);
  gli_request_push(&pair->finished, request);
  return good;
}

/* Sends the next part of message `n`. Returns false if none, or no room. */
static bool long_go_on(gli_ibv_pair *pair, uint32_t n) {
  gli_ibv_out *out = &pair->out[n];
  if (out->request == NULL || out->mode == GLI_IBV_ASKS || out->told)
    return false;
  uint64_t left = out->request->header.length - out->posted;
  if (out->mode == GLI_IBV_WRITES && left > 0) {
    size_t most = out->mr != NULL ? WRITE_MAX : GLI_IBV_SLOT_BYTES;
    size_t bytes = left < most ? (size_t)left : most;
    if (!ibv_may_post(pair)) return false;
    if (out->mr == NULL && !gli_ibv_has_memory(pair, bytes)) return false;
    if (!write_post(pair, n, out, bytes)) return false;
    out->posted += bytes;
    return true;
  }
  gli_ibv_parts f = {.number = n, .kind = GLI_IBV_WRITTEN, .tells = true};
  if (out->mode == GLI_IBV_STREAMS) {
    f.kind = GLI_IBV_MORE;
    f.bytes = left < GLI_IBV_MORE_MAX ? (size_t)left : GLI_IBV_MORE_MAX;
    f.data = (const uint8_t *)out->request->payload + out->posted;
    f.mr = out->mr;
    f.tells = f.bytes == left && out->mr != NULL;
  }
  if (!gli_ibv_has_room(pair, frame_copied(&f))) return false;
  out->posted += f.bytes;
  out->told = f.bytes == left;
  return gli_ibv_frame_post(pair, &f);
}

static void long_check_end(gli_ibv_pair *pair, gli_ibv_out *out) {
  if (out->request == NULL || !out->told || out->reads > 0) return;
  gli_request_push(&pair->finished, out->request);
  out->request = NULL;
  pair->n_out--;
}

static bool ibv_go_on(gli_ibv_pair *pair) {
  bool any = false;
  if (pair->n_out == 0) return false;
  for (uint32_t i = 0; i < GLI_IBV_LONGS && !pair->broken; i++) {
    uint32_t n = (pair->turn + i) % GLI_IBV_LONGS;
    if (long_go_on(pair, n)) any = true;
    if (!pair->broken) long_check_end(pair, &pair->out[n]);
  }
  pair->turn++;
  return any;
}

/* ---- answers and credit -------------------------------------------------- */

static bool answer_post(gli_ibv_pair *pair, uint32_t n) {
  gli_ibv_in *in = &pair->in[n];
  uint8_t place[GLI_IBV_PLACE_BYTES];
  gli_ibv_parts f = {.kind = GLI_IBV_STREAM, .number = n};
  if (in->mode == GLI_IBV_WRITES) {
    gli_put_u64(place, (uintptr_t)in->sink.dst);
    gli_put_u32(place + 8, in->mr->rkey);
    f.kind = GLI_IBV_PLACE;
    f.data = place;
    f.bytes = sizeof place;
  }
  if (in->mode == GLI_IBV_READS) f.kind = GLI_IBV_FETCHED;
  in->answered = true;
  pair->to_answer--;
  if (!gli_ibv_frame_post(pair, &f)) return false;
  pair->must_arrive = pair->posted;
  return true;
}

static void ibv_answer(gli_ibv_pair *pair) {
  for (uint32_t n = 0;
       n < GLI_IBV_LONGS && pair->to_answer > 0 && !pair->broken; n++) {
    if (!pair->in[n].used || pair->in[n].answered) continue;
    if (!gli_ibv_has_room(pair, ANSWER_BYTES) || !answer_post(pair, n)) return;
  }
}

static bool credit_post(gli_ibv_pair *pair) {
  static const gli_ibv_parts credit = {.kind = GLI_IBV_CREDIT};
  return gli_ibv_frame_post(pair, &credit);
}

bool gli_ibv_answered(gli_ibv_pair *pair, const gli_ibv_frame *frame) {
  if (frame->number >= GLI_IBV_LONGS) return false;
  gli_ibv_out *out = &pair->out[frame->number];
  if (out->request == NULL || out->mode != GLI_IBV_ASKS) return false;
  if (frame->kind == GLI_IBV_FETCHED) {
    if (frame->bytes != 0 || !out->offered) return false;
    out->told = true;
    out->mode = GLI_IBV_READS;
    out->posted = out->request->header.length;
  } else if (frame->kind == GLI_IBV_PLACE) {
    if (frame->bytes != GLI_IBV_PLACE_BYTES) return false;
    out->remote = gli_get_u64(frame->data);
    out->rkey = gli_get_u32(frame->data + 8);
    out->mode = GLI_IBV_WRITES;
  } else {
    if (frame->bytes != 0) return false;
    out->mode = GLI_IBV_STREAMS;
  }
  out->offered = false;
  gli_ibv_pair_busy(pair);
  return true;
}

void gli_ibv_give_credit(gli_ibv_pair *pair) {
  if (pair->owed < GLI_IBV_SLOTS / 2) return;
  if (ibv_may_post(pair) && pair->credits > 0 &&
      gli_ibv_has_memory(pair, GLI_IBV_FRAME_HEAD))
    (void)credit_post(pair);
}

void gli_ibv_room(gli_ibv_pair *pair) {
  if (pair->queue.head != NULL || pair->n_out > 0 || pair->to_answer > 0 ||
      pair->owed >= GLI_IBV_SLOTS / 2 || pair->closed ||
      pair->rma.first != NULL || pair->rma.done != NULL)
    gli_ibv_pair_busy(pair);
}

void gli_ibv_flush(gli_ibv_pair *pair) {
  if (pair->way != GLI_IBV_BY_VERBS || pair->qp == NULL || pair->broken) return;
  if (pair->lanes != NULL) gli_ibv_lanes_flush(pair);
  ibv_answer(pair);
  bool more = !pair->departed;
  while (more && !pair->broken) {
    more = ibv_begin_next(pair);
    if (!pair->broken && ibv_go_on(pair)) more = true;
  }
  gli_ibv_rma_flush(pair);
  if (!pair->broken) gli_ibv_give_credit(pair);
}

/* ---- for the engine ------------------------------------------------------ */

/* Returns true if a message can be sent at once, without overtaking others. */
static bool ibv_goes_now(gli_ibv_pair *pair, const gli_header *header) {
  return pair->way == GLI_IBV_BY_VERBS && pair->queue.head == NULL &&
         ibv_is_short(header) && pair->qp != NULL && !pair->broken &&
         gli_ibv_has_room(pair, whole_bytes(header));
}

bool gli_ibv_send_now(gli_pair *base, gli_header *header, const void *payload) {
  gli_ibv_pair *pair = (gli_ibv_pair *)base;
  if (pair->way == GLI_IBV_BY_TCP) {
    const gli_transport_ops *ops = pair->tcp->ops;
    return ops->send_now != NULL && ops->send_now(pair->tcp, header, payload);
  }
  if (pair->departed || !ibv_goes_now(pair, header)) return false;
  header->number = ibv_sum(pair, header, payload);
  return whole_post(pair, header, payload);
}

gli_post gli_ibv_send(gli_pair *base, gli_send_request *request) {
  gli_ibv_pair *pair = (gli_ibv_pair *)base;
  if (pair->way == GLI_IBV_BY_TCP)
    return pair->tcp->ops->send(pair->tcp, request);
  if (pair->departed) return GLI_POST_DONE;
  if (gli_ibv_send_now(base, &request->header, request->payload))
    return GLI_POST_DONE;
  gli_request_push(&pair->queue, request);
  gli_ibv_pair_busy(pair);
  return GLI_POST_IN_PROGRESS;
}

void gli_ibv_report_sent(gli_ibv_pair *pair) {
  gli_send_request *request;
  while ((request = gli_request_pop(&pair->finished)) != NULL) {
    if (pair->live && (!pair->broken || pair->departed))
      pair->t->upcalls->sent(pair->config.user, request);
  }
  gli_ibv_rma_report(pair);
  if (pair->t->rails.n > 0) gli_ibv_report_fetched(pair);
}

void gli_ibv_drop_sends(gli_ibv_pair *pair) {
  gli_send_request *request;
  bool reads = pair->rma.pieces > 0;
  gli_ibv_pair_busy(pair);
  while ((request = gli_request_pop(&pair->queue)) != NULL)
    gli_request_push(&pair->finished, request);
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) {
    gli_ibv_out *out = &pair->out[n];
    if (out->request == NULL) continue;
    reads = reads || out->reads > 0 || out->offered;
    gli_request_push(&pair->finished, out->request);
    out->request = NULL;
    pair->n_out--;
  }
  if (reads) gli_ibv_queue_drop(pair);
}
