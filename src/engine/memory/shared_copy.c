/* Shared copies: sender and receiver copy one message together.
 *
 * The receiver copies a long message that arrives as an rkey, while the sender
 * is idle. If each rank has a core, the sender offers help (GLI_FORM_SHARED). A
 * receiver whose memory is mapped as well accepts: it sends the destination
 * (SHARE), and both copy pieces of the message until none is left, the receiver
 * from the front and the sender from the back. So no receiver waits for a
 * sender that is busy elsewhere: it copies the pieces that the sender does not.
 * A sender that has claimed pieces sends SHARE_DONE after the last one, and a
 * receiver that did not copy all pieces waits for that.
 *
 * The pieces are counted in memory that both map (transport/shared_copy.h),
 * which, like everything from a peer, is not trusted: each end copies pieces of
 * the message as it knows it, and at most all of them. If the receiver's
 * operation fails, its memory is detached from the sender. */
#include "core/error.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"
#include "kernels/copy.h"
#include "memory/region.h"

/* The least length of a shared copy, its number of pieces, and the least length
 * of a piece. */
#define SHARED_BYTES ((uint64_t)256 * 1024)
#define PIECES 16
#define PIECE_MIN ((uint64_t)32 * 1024)

/* The work of one end. */
typedef struct share {
  uint8_t *to;
  const uint8_t *from;
  uint64_t bytes, each; /* length of the message, of a piece */
  uint32_t pieces;
  bool nontemporal;
} share;

static share share_of(const gli_operation *op, uint32_t step, uint8_t *to,
                      const uint8_t *from) {
  share s = {.to = to,
             .from = from,
             .bytes = op->plan->steps[step].bytes,
             .nontemporal = gli_operation_is_nontemporal(op, step)};
  s.each = (s.bytes / PIECES + 4095) / 4096 * 4096;
  if (s.each < PIECE_MIN) s.each = PIECE_MIN;
  s.pieces = (uint32_t)((s.bytes + s.each - 1) / s.each);
  return s;
}

static void copy_piece(const share *s, uint32_t piece) {
  uint64_t at = piece * s->each;
  uint64_t bytes = s->bytes - at < s->each ? s->bytes - at : s->each;
  if (s->nontemporal) {
    gli_copy_nontemporal(s->to + at, s->from + at, (size_t)bytes);
  } else {
    gli_copy_bytes(s->to + at, s->from + at, (size_t)bytes);
  }
}

/* ---- the receiver -------------------------------------------------------- */

/* Sends the destination of a receive. NULL if the copy cannot be shared. */
static gli_shared_copy *ask_to_share(const gli_operation *op, const gli_step *s,
                                     const uint8_t *to) {
  gli_link *link = op->peers[s->peer].link, *base_link = link->group.base;
  gli_pair *pair = link->pair;
  uint32_t window = s->slot % GLI_SHARED_COPIES;
  uint64_t rkey;
  if (pair->ops->shared_copy == NULL ||
      (base_link->copies.in_use >> window & 1u) != 0)
    return NULL;
  if (!pair->ops->rkey_pack(pair, to, (size_t)s->bytes, GLI_ACCESS_WRITE,
                            &rkey)) {
    return NULL;
  }
  gli_shared_copy *copy = pair->ops->shared_copy(pair, false) + window;
  gli_shared_copy_begin(copy, ++base_link->copies.round, rkey, &op->signature,
                        link->group.peers, s->slot);
  gli_wire_control(link, GLI_MESSAGE_SHARE, &op->signature, s->slot);
  return copy;
}

gli_shared_copy_outcome gli_shared_copy_run(gli_operation *op, uint32_t step,
                                            const gli_source *from) {
  const gli_step *s = &op->plan->steps[step];
  if (s->kind != GLI_STEP_RECV || from->memory == NULL)
    return GLI_SHARED_COPY_NONE;
  uint8_t *to = gli_operation_at(op, s->dst_buffer, s->dst);
  gli_shared_copy *copy = ask_to_share(op, s, to);
  if (copy == NULL) return GLI_SHARED_COPY_NONE;
  gli_link *base_link = op->peers[s->peer].link->group.base;
  uint32_t round = base_link->copies.round, piece, mine = 0;
  share work = share_of(op, step, to, from->memory);
  while (mine < work.pieces &&
         gli_shared_copy_claim_front(copy, round, work.pieces, &piece)) {
    copy_piece(&work, piece);
    mine++;
  }
  if (mine == work.pieces) return GLI_SHARED_COPY_DONE;
  base_link->copies.in_use |= 1u << s->slot % GLI_SHARED_COPIES;
  op->recv_state[step] = GLI_RECV_SHARED;
  return GLI_SHARED_COPY_PENDING;
}

/* Returns the receive that a SHARE_DONE is for; NULL if none. */
static gli_operation *find_shared(gli_link *link, const gli_header *h,
                                  uint32_t *step) {
  gli_operation *op = gli_match_find(link->context, gli_key_incoming(link, h));
  uint32_t index = op != NULL ? gli_match_peer(op, link) : GLI_NO_PEER;
  if (index == GLI_NO_PEER || !gli_signature_equal(&op->signature, h)) {
    return NULL;
  }
  const gli_plan_peer *peer = &op->plan->peers[index];
  if (h->slot >= peer->recvs) return NULL;
  *step = op->plan->recv_steps[peer->first_recv + h->slot];
  return op->recv_state[*step] == GLI_RECV_SHARED ? op : NULL;
}

gloo_status gli_shared_copy_ended(gli_link *link, const gli_header *h,
                                  gli_operation **done, uint32_t *step,
                                  gloo_error *error) {
  gli_operation *op = find_shared(link, h, step);
  *done = NULL;
  if (op == NULL) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u reported progress on a copy that does not exist "
                    "(protocol error)",
                    link->rank);
  }
  const gli_step *s = &op->plan->steps[*step];
  link->group.base->copies.in_use &= ~(1u << s->slot % GLI_SHARED_COPIES);
  op->recv_state[*step] = GLI_RECV_ARRIVING;
  uint8_t *memory = gli_operation_at(op, s->dst_buffer, s->dst);
  if (!gli_region_retake(memory, (size_t)s->bytes)) {
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "data written by rank %u is lost: a failed operation of "
                    "another context had exposed memory in the same page",
                    link->rank);
  }
  if (gli_get_done(op, *step) == GLI_DONE) *done = op;
  return GLOO_OK;
}

void gli_shared_copy_revoke(gli_operation *op) {
  for (uint32_t i = 0; i < op->plan->n_steps; i++) {
    if (op->recv_state[i] != GLI_RECV_SHARED) continue;
    const gli_step *s = &op->plan->steps[i];
    gli_region_detach(gli_operation_at(op, s->dst_buffer, s->dst),
                      (size_t)s->bytes);
  }
}

/* ---- the sender ---------------------------------------------------------- */

/* Returns true if the rank only has this message to send. If it receives or
 * copies as well, receiver and sender share the work already, and helping would
 * only move bytes from cache to cache. */
static bool is_idle(const gli_operation *op) {
  const gli_family *family = op->context->family;
  return op->last_sends == op->plan->n_steps && family->posted.first == NULL &&
         family->active.first == op && family->active.last == op;
}

bool gli_shared_copy_offers(const gli_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  const gli_pair *pair = op->peers[s->peer].link->pair;
  return s->bytes >= SHARED_BYTES && !op->context->oversubscribed &&
         pair->ops->shared_copy != NULL && is_idle(op);
}

/* Takes the request for help of a receiver. It may be late: the receiver may
 * have finished, and be asking for another copy by now. The receiver copies
 * what this rank does not. */
void gli_shared_copy_asked(gli_link *link, const gli_header *h) {
  const gli_transfer *t = gli_expose_find(link, h);
  gli_pair *pair = link->pair;
  if (t == NULL || t->request.header.form != GLI_FORM_SHARED) return;
  gli_operation *op = t->operation;
  const gli_step *s = &op->plan->steps[t->step];
  gli_shared_copy *copy =
      pair->ops->shared_copy(pair, true) + h->slot % GLI_SHARED_COPIES;
  uint64_t seen, to;
  void *memory = NULL;
  gloo_error error;
  if (!gli_shared_copy_is_about(copy, h, &seen, &to)) return;
  if (pair->ops->rkey_map(pair, to, (size_t)s->bytes, true, &memory, &error) !=
      GLOO_OK) {
    return;
  }
  share work =
      share_of(op, t->step, memory, gli_operation_at(op, s->a_buffer, s->a));
  uint32_t piece, mine = 0;
  /* A peer that undoes claims gets no more than the message, either. */
  while (memory != NULL && mine < work.pieces &&
         gli_shared_copy_claim_back(copy, &seen, work.pieces, &piece)) {
    copy_piece(&work, piece);
    mine++;
  }
  if (mine > 0) {
    gli_wire_control(link, GLI_MESSAGE_SHARE_DONE, &op->signature, s->slot);
  }
}
