/* One-sided operations, which the peer's device performs without its process.
 * They use the work requests that messages leave free. Payloads that are read
 * over lanes follow. */
#include <inttypes.h>

#include "kernels/copy.h"
#include "memory/region.h"
#include "transport_ibv/ibv.h"

enum {
  PIECE_MAX = 1 << 20, /* largest part of an operation on registered memory */
  KEPT_SLOTS = 4       /* reserved for messages and credits */
};

gli_exposure gli_ibv_rma_expose(gli_pair *base, const void *memory,
                                size_t bytes, uint64_t *remote,
                                uint32_t *rkey) {
  gli_ibv_pair *pair = (gli_ibv_pair *)base;
  if (!gli_ibv_is_decided(pair)) return GLI_EXPOSES_LATER;
  if (pair->way != GLI_IBV_BY_VERBS || pair->checked || pair->broken)
    return GLI_EXPOSES_NOT;
  const struct ibv_mr *mr = gli_ibv_registered(pair->t, memory, bytes);
  if (mr == NULL)
    return gli_ibv_registration_pending(pair->t, memory, bytes)
               ? GLI_EXPOSES_LATER
               : GLI_EXPOSES_NOT;
  *remote = (uintptr_t)memory;
  *rkey = mr->rkey;
  return GLI_EXPOSES;
}

/* Queues one-sided work. If nothing can be started any more, the work ends with
 * the pair. A read to other than registered memory is refused if it needs more
 * slots than reads are carried out at once: the peer sends such data instead. */
bool gli_ibv_rma(gli_pair *base, gli_rma_work *work) {
  gli_ibv_pair *pair = (gli_ibv_pair *)base;
  if (pair->way != GLI_IBV_BY_VERBS || pair->checked) return false;
  size_t reads = gli_ibv_reads_begun(pair);
  if (!work->puts && reads == 0) return false;
  if (!work->puts && work->bytes > reads * GLI_IBV_SLOT_BYTES &&
      gli_ibv_registered(pair->t, work->local, (size_t)work->bytes) == NULL)
    return false;
  work->posted = work->over = 0;
  work->next = NULL;
  if (pair->rma.last != NULL)
    pair->rma.last->next = work;
  else
    pair->rma.first = work;
  pair->rma.last = work;
  gli_ibv_pair_busy(pair);
  return true;
}

static bool rma_post_piece(gli_ibv_pair *pair, gli_rma_work *rma) {
  const struct ibv_mr *mr =
      gli_ibv_registered(pair->t, rma->local, (size_t)rma->bytes);
  uint64_t left = rma->bytes - rma->posted;
  uint64_t most = mr != NULL ? PIECE_MAX : GLI_IBV_SLOT_BYTES;
  size_t bytes = (size_t)(left < most ? left : most);
  uint8_t *local = rma->local + rma->posted;
  bool in_place = mr != NULL && (bytes > pair->inline_max || !rma->puts);
  size_t copied = rma->puts ? bytes : GLI_IBV_SLOT_BYTES;
  gli_ibv_work work;
  if (in_place) copied = 0;
  if (copied > 0 && !gli_ibv_has_memory(pair, copied)) return false;
  gli_ibv_work_begin(pair, &work, copied);
  gli_ibv_piece *piece = &pair->piece[pair->posted % GLI_IBV_SLOTS];
  *piece = (gli_ibv_piece){.work = rma, .bytes = bytes};
  if (in_place) {
    work.part[0].addr = (uintptr_t)local;
    work.part[0].lkey = mr->lkey;
  } else if (rma->puts) {
    gli_copy_bytes(work.memory, local, bytes);
  } else {
    piece->from = work.memory;
    piece->to = local;
  }
  work.part[0].length = (uint32_t)bytes;
  work.wr.num_sge = 1;
  work.wr.opcode = rma->puts ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
  work.wr.wr.rdma.remote_addr = rma->remote + rma->posted;
  work.wr.wr.rdma.rkey = rma->rkey;
  rma->posted += bytes;
  if (!gli_ibv_work_post(pair, &work, -1, rma->posted == rma->bytes)) {
    piece->work = NULL;
    return false;
  }
  pair->rma.pieces++;
  return true;
}

void gli_ibv_rma_flush(gli_ibv_pair *pair) {
  while (pair->rma.first != NULL && !pair->broken && !pair->departed &&
         pair->posted - pair->done < GLI_IBV_SLOTS - KEPT_SLOTS) {
    gli_rma_work *rma = pair->rma.first;
    if (!rma_post_piece(pair, rma)) return;
    if (rma->posted < rma->bytes) continue;
    pair->rma.first = rma->next;
    if (rma->next == NULL) pair->rma.last = NULL;
    rma->next = NULL;
  }
}

void gli_ibv_rma_piece_done(gli_ibv_pair *pair, gli_ibv_piece *piece) {
  gli_rma_work *rma = piece->work;
  if (piece->from != NULL) gli_copy_bytes(piece->to, piece->from, piece->bytes);
  rma->over += piece->bytes;
  piece->work = NULL;
  pair->rma.pieces--;
  if (rma->over < rma->bytes || !pair->live) return;
  if (!rma->puts && !gli_region_retake(rma->local, (size_t)rma->bytes)) {
    gli_ibv_pair_spoil(pair, "cannot be accessed in place");
    return;
  }
  rma->next = pair->rma.done;
  pair->rma.done = rma;
}

void gli_ibv_rma_report(gli_ibv_pair *pair) {
  while (pair->rma.done != NULL) {
    gli_rma_work *rma = pair->rma.done;
    pair->rma.done = rma->next;
    if (pair->live && !pair->broken)
      pair->t->upcalls->rma_done(pair->config.user, rma);
  }
}

void gli_ibv_rma_forget(gli_ibv_pair *pair) {
  pair->rma.first = pair->rma.last = pair->rma.done = NULL;
}

/* ---- payloads over lanes ------------------------------------------------- */

/* The first payload that is long enough begins to set up lanes, and takes the
 * other way. */
size_t gli_ibv_offer_payload(gli_ibv_pair *pair,
                             const gli_send_request *request, uint8_t *keys) {
  if (pair->peer.rails == 0 ||
      request->header.length < pair->t->rails.min_bytes)
    return 0;
  if (pair->lanes != NULL)
    return gli_ibv_lanes_keys(pair->lanes, request->payload,
                              (size_t)request->header.length, keys);
  pair->lanes = gli_ibv_lanes_begin(pair, gli_ibv_pair_busy);
  return 0;
}

/* The peer has left its lanes: what has not been read comes in frames. */
static bool lanes_were_left(gli_ibv_pair *pair) {
  if (pair->lanes == NULL || pair->lanes->state != GLI_IBV_LANES_WORK)
    return false;
  gli_ibv_lanes_drop(pair->lanes);
  pair->lanes = NULL;
  pair->peer.rails = 0;
  for (uint32_t n = 0; n < GLI_IBV_LONGS; n++) {
    gli_ibv_in *in = &pair->in[n];
    if (!in->used || in->mode != GLI_IBV_READS || in->fetched) continue;
    in->mode = GLI_IBV_STREAMS;
    in->answered = false;
    pair->to_answer++;
  }
  gli_ibv_pair_busy(pair);
  return true;
}

bool gli_ibv_lanes_note(gli_ibv_pair *pair, const gli_ibv_frame *frame) {
  if (frame->number == GLI_IBV_LANES_LEFT)
    return frame->bytes == 0 && lanes_were_left(pair);
  if (pair->lanes == NULL) {
    if (pair->t->rails.n == 0 || pair->peer.rails == 0 ||
        frame->number != GLI_IBV_LANES_OFFER)
      return false;
    pair->lanes = gli_ibv_lanes_begin(pair, gli_ibv_pair_busy);
    if (pair->lanes == NULL) return true; /* out of memory: without lanes */
  }
  gli_ibv_pair_busy(pair);
  return gli_ibv_lanes_hear(pair->lanes, frame->number, frame->data,
                            frame->bytes);
}

/* Posts as many notes as there is room for. Returns false if the room ended. */
static bool lanes_say_all(gli_ibv_pair *pair) {
  uint8_t data[GLI_IBV_LANE_NOTE_MAX];
  gli_ibv_parts f = {.kind = GLI_IBV_LANES, .data = data};
  while (gli_ibv_has_room(pair, GLI_IBV_FRAME_HEAD + sizeof data)) {
    f.number = gli_ibv_lanes_say(pair->lanes, data, &f.bytes);
    if (f.number == GLI_IBV_LANES_NONE || !gli_ibv_frame_post(pair, &f))
      return true;
    pair->must_arrive = pair->posted;
  }
  return false;
}

void gli_ibv_lanes_flush(gli_ibv_pair *pair) {
  bool more = gli_ibv_lanes_serve(pair->lanes);
  if (pair->lanes->failed) {
    gli_ibv_pair_break(pair, GLOO_ERR_PEER,
                       "rank %" PRIu32 " cannot read a message of rank %" PRIu32
                       " over its rails; the last failed: %s",
                       pair->config.self_rank, pair->config.peer_rank,
                       pair->lanes->why);
    return;
  }
  for (uint32_t n = 0; n < GLI_IBV_LONGS && !pair->broken; n++)
    if (gli_ibv_lanes_fetched(pair->lanes, n)) gli_ibv_fetched(pair, n);
  if (!pair->broken && !lanes_say_all(pair)) more = true;
  if (more) gli_ibv_pair_busy(pair);
}
