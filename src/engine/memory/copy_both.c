/* Copies that both ends make.
 *
 * Who receives a long message by reference copies it, and who sent it has
 * nothing to do until then. Where each rank has a core, such a sender offers
 * its help (GLI_FORM_SHARED), and a receiver whose memory is within reach, too,
 * asks for it: it says where the bytes go (HELP), and both take pieces of the
 * message until none is left, one from the front, the other from the back. So
 * nobody waits for a sender that is busy elsewhere: what it does not come to,
 * the receiver does. A sender that has taken pieces says HELPED after the last
 * one, and the receiver, if it did not get all of them, waits for that.
 *
 * The pieces are counted in memory that both see (transport/help.h), which,
 * like everything from a peer, is not trusted: each end copies no piece but of
 * what it knows of itself, and at most all of them. If the receiver's operation
 * fails, the memory is taken from under the sender. */
#include "core/error.h"
#include "engine/match/match.h"
#include "engine/memory/memory.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"
#include "memory/region.h"

/* From here on it pays, with so many pieces, if they are not shorter. */
#define HELP_BYTES ((uint64_t)256 * 1024)
#define PIECES 16
#define PIECE_MIN ((uint64_t)32 * 1024)

/* The work of one end. */
typedef struct share {
  uint8_t *to;
  const uint8_t *from;
  uint64_t bytes, each; /* of the message, of a piece */
  uint32_t pieces;
  bool stream;
} share;

static share share_of(const gloo_operation *op, uint32_t step, uint8_t *to,
                      const uint8_t *from) {
  share s = {.to = to,
             .from = from,
             .bytes = op->plan->steps[step].bytes,
             .stream = gli_operation_streams(op, step)};
  s.each = (s.bytes / PIECES + 4095) / 4096 * 4096;
  if (s.each < PIECE_MIN) s.each = PIECE_MIN;
  s.pieces = (uint32_t)((s.bytes + s.each - 1) / s.each);
  return s;
}

static void copy_piece(const share *s, uint32_t piece) {
  uint64_t at = piece * s->each;
  uint64_t bytes = s->bytes - at < s->each ? s->bytes - at : s->each;
  if (s->stream) {
    gli_copy_stream(s->to + at, s->from + at, (size_t)bytes);
  } else {
    memcpy(s->to + at, s->from + at, (size_t)bytes);
  }
}

/* ---- the receiver -------------------------------------------------------- */

/* Say where the bytes of a receive go. NULL: it is not to be helped with. */
static gli_help *ask(const gloo_operation *op, const gli_step *s,
                     const uint8_t *to) {
  gli_link *link = op->peers[s->peer].link, *carrier = link->carrier;
  gli_pair *pair = link->pair;
  uint32_t place = s->slot % GLI_HELPS;
  uint64_t reference;
  if (!pair->ops->help || (carrier->helping >> place & 1u) != 0) return NULL;
  if (!pair->ops->refer(pair, to, (size_t)s->bytes, true, &reference)) {
    return NULL;
  }
  gli_help *help = pair->ops->help(pair, false) + place;
  gli_help_begin(help, ++carrier->help_round, reference, &op->signature,
                 link->group, s->slot);
  gli_flow_control(link, GLI_MESSAGE_HELP, &op->signature, s->slot);
  return help;
}

gli_helping gli_help_copy(gloo_operation *op, uint32_t step,
                          const gli_source *from) {
  const gli_step *s = &op->plan->steps[step];
  if (s->kind != GLI_STEP_RECV || !from->memory) return GLI_HELP_NONE;
  uint8_t *to = gli_operation_at(op, s->dst_buffer, s->dst);
  gli_help *help = ask(op, s, to);
  if (!help) return GLI_HELP_NONE;
  gli_link *carrier = op->peers[s->peer].link->carrier;
  uint32_t round = carrier->help_round, piece, mine = 0;
  share work = share_of(op, step, to, from->memory);
  while (mine < work.pieces &&
         gli_help_claim(help, round, work.pieces, &piece)) {
    copy_piece(&work, piece);
    mine++;
  }
  if (mine == work.pieces) return GLI_HELP_DONE;
  carrier->helping |= 1u << s->slot % GLI_HELPS;
  op->recv_state[step] = GLI_RECV_HELPED;
  return GLI_HELP_NOT_YET;
}

/* The receive that a HELPED is about; NULL: there is none. */
static gloo_operation *find_helped(gli_link *link, const gli_header *h,
                                   uint32_t *step) {
  gloo_operation *op = gli_match_find(link->context, gli_key_incoming(link, h));
  uint32_t index = op ? gli_match_peer(op, link) : GLI_NO_PEER;
  if (index == GLI_NO_PEER || !gli_signature_equal(&op->signature, h)) {
    return NULL;
  }
  const gli_plan_peer *peer = &op->plan->peers[index];
  if (h->slot >= peer->recvs) return NULL;
  *step = op->plan->recv_steps[peer->first_recv + h->slot];
  return op->recv_state[*step] == GLI_RECV_HELPED ? op : NULL;
}

gloo_status gli_help_ended(gli_link *link, const gli_header *h,
                           gloo_operation **done, uint32_t *step,
                           gloo_error *error) {
  gloo_operation *op = find_helped(link, h, step);
  *done = NULL;
  if (!op) {
    return gli_fail(error, GLOO_ERR_PROTOCOL, (int)link->rank,
                    "rank %u says that it has helped with a copy that is none",
                    link->rank);
  }
  const gli_step *s = &op->plan->steps[*step];
  link->carrier->helping &= ~(1u << s->slot % GLI_HELPS);
  op->recv_state[*step] = GLI_RECV_ARRIVING;
  uint8_t *memory = gli_operation_at(op, s->dst_buffer, s->dst);
  if (!gli_region_retake(memory, (size_t)s->bytes)) {
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "what rank %u wrote cannot be read: an operation of "
                    "another context failed, and had lent memory of the same "
                    "page",
                    link->rank);
  }
  if (gli_reach_took(op, *step) == GLI_DONE) *done = op;
  return GLOO_OK;
}

void gli_help_recall(gloo_operation *op) {
  for (uint32_t i = 0; i < op->plan->n_steps; i++) {
    if (op->recv_state[i] != GLI_RECV_HELPED) continue;
    const gli_step *s = &op->plan->steps[i];
    gli_region_detach(gli_operation_at(op, s->dst_buffer, s->dst),
                      (size_t)s->bytes);
  }
}

/* ---- the sender ---------------------------------------------------------- */

/* Has it nothing but this to do? Where it receives or copies as well, the
 * receiver and it share the work already, and would only move bytes from cache
 * to cache. */
static bool is_idle(const gloo_operation *op) {
  const gli_family *family = op->context->family;
  return op->last_sends == op->plan->n_steps && !family->posted.first &&
         family->active.first == op && family->active.last == op;
}

bool gli_help_offers(const gloo_operation *op, uint32_t step) {
  const gli_step *s = &op->plan->steps[step];
  const gli_pair *pair = op->peers[s->peer].link->pair;
  return s->bytes >= HELP_BYTES && !op->context->crowded && pair->ops->help &&
         is_idle(op);
}

/* It may come late: the receiver is done, and perhaps asks for something else
 * by now. What this rank does not help with, the receiver does itself. */
void gli_help_wanted(gli_link *link, const gli_header *h) {
  const gli_transfer *t = gli_reach_find_shown(link, h);
  gli_pair *pair = link->pair;
  if (!t || t->request.header.form != GLI_FORM_SHARED) return;
  gloo_operation *op = t->operation;
  const gli_step *s = &op->plan->steps[t->step];
  gli_help *help = pair->ops->help(pair, true) + h->slot % GLI_HELPS;
  uint64_t seen, to;
  void *memory = NULL;
  gloo_error error;
  if (!gli_help_is_about(help, h, &seen, &to)) return;
  if (pair->ops->reach(pair, to, (size_t)s->bytes, true, &memory, &error) !=
      GLOO_OK) {
    return;
  }
  share work =
      share_of(op, t->step, memory, gli_operation_at(op, s->a_buffer, s->a));
  uint32_t piece, mine = 0;
  while (memory && gli_help_claim_also(help, &seen, work.pieces, &piece)) {
    copy_piece(&work, piece);
    mine++;
  }
  if (mine > 0) {
    gli_flow_control(link, GLI_MESSAGE_HELPED, &op->signature, s->slot);
  }
}
