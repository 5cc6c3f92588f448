/* Late operations: the search for the rank at fault.
 *
 * When one rank does not come, most others wait for a rank that waits itself.
 * So shortly before its deadline an operation asks (PROBE) the ranks that it
 * waits for. A rank that waits itself, in the same call or in another one,
 * answers (WAITING), and asks in turn the ranks that it waits for, so that the
 * search ends at the late rank. The rank that waits for the late one gets no
 * answer: at the deadline its error names the late rank, and reaches all. Ranks
 * that got all their answers hold back their own errors for a moment, and press
 * the ranks that they wait for (PROBE with slot 1), which press on: these may
 * have come later, and have time left or no deadline, and would not give that
 * up for a question alone. A rank between two calls answers from its next one:
 * it is not late. If no rank is silent, or two ranks wait for each other in
 * different calls, ranks made different calls: the error lists the ranks that
 * wait elsewhere, and names no rank as at fault, except while a group is made.
 * A question carries the call that it is about: a rank that has made another
 * call in its place reports that to all. */
#include "core/error.h"
#include "engine/failure/failure.h"
#include "engine/match/match.h"
#include "engine/memory/staged_copies.h"
#include "engine/run/run.h"
#include "engine/state/deadline.h"
#include "engine/state/fail.h"
#include "engine/state/signature.h"
#include "engine/wire/wire.h"

/* The slot of WAITING: this rank waits in the same call, in another one, or in
 * another one for the rank that asks; combined with GLI_WAITING_MAY_COME. */
enum { SAYS_HERE, SAYS_ELSEWHERE, SAYS_FOR_YOU, SAYS_MASK = 3 };

/* Returns the link to the rank that a message waits for; NULL if the rank is
 * unknown or not connected. */
static gli_link *message_link(const gli_operation *op) {
  if (!gli_operation_is_running(op)) return NULL;
  if (op->p2p.peer < 0) return NULL;
  return op->context->peers[op->p2p.peer].link;
}

static void send_probes(const gli_operation *op) {
  uint32_t slot = op->deadline.suspected ? 1 : 0;
  if (gli_operation_is_message(op)) {
    gli_link *link = message_link(op);
    if (link != NULL)
      gli_wire_control(link, GLI_MESSAGE_PROBE, &op->signature, slot);
    return;
  }
  if (!gli_operation_is(op, GLI_OPERATION_RUNNING)) return;
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    bool asks =
        slot == 0 ? gli_operation_needs(op, i) : gli_operation_waits_for(op, i);
    if (!asks) continue;
    gli_wire_control(op->peers[i].link, GLI_MESSAGE_PROBE, &op->signature,
                     slot);
  }
}

static void begin_probing(gli_operation *op, uint64_t now_ns) {
  op->deadline.blame_phase = GLI_PROBING;
  gli_deadline_set(op, now_ns + gli_deadline_probe_ns(op));
  send_probes(op);
}

/* Ends a search that others started, while there is time left. */
static void stop_probing(gli_operation *op) {
  op->deadline.blame_phase = GLI_ON_TIME;
  op->deadline.suspected = false;
  gli_deadline_set(op, op->deadline.timeout_ns > 0
                           ? op->deadline.at_ns - gli_deadline_probe_ns(op)
                           : UINT64_MAX);
}

static bool all_cleared(const gli_operation *op) {
  if (gli_operation_is_message(op))
    return message_link(op) != NULL && op->peers[0].cleared;
  if (!gli_operation_is(op, GLI_OPERATION_RUNNING)) return false;
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    if (!op->peers[i].cleared && gli_operation_waits_for(op, i)) return false;
  }
  return true;
}

static bool is_elsewhere(const gli_op_peer *peer) {
  return peer->cleared == GLI_ELSEWHERE || peer->cleared == GLI_CROSSED;
}

/* Returns true if the operation waits for a rank that waits in another call. */
static bool knows_elsewhere(const gli_operation *op) {
  if (gli_operation_is_message(op)) return is_elsewhere(&op->peers[0]);
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    if (is_elsewhere(&op->peers[i]) && gli_operation_waits_for(op, i))
      return true;
  }
  return false;
}

/* Waits for a rank that knows more to report first. */
static void keep_listening(gli_operation *op, uint64_t now_ns) {
  op->deadline.blame_phase = GLI_LISTENING;
  gli_deadline_set(
      op, now_ns + (knows_elsewhere(op) ? 2 : 4) * gli_deadline_probe_ns(op));
  if (op->deadline.suspected) return;
  op->deadline.suspected = true;
  send_probes(op);
}

/* Waits for a copy that has not begun, because of earlier work in its stream.
 * After the deadline (`over`) the error names no other rank. */
static void wait_for_stream(gli_operation *op, bool over) {
  gloo_error error;
  char text[GLI_TEXT_BYTES];
  gli_deadline_set(op, op->deadline.at_ns);
  if (!over) return;
  gli_fail(&error, GLOO_ERR_TIMEOUT, (int)op->context->root_rank,
           "timed out: %s waits for earlier work in a GPU stream of rank %u",
           gli_describe_call(&op->signature, text), op->context->root_rank);
  gli_context_poison(op->context, &error);
}

void gli_blame_timer(gli_operation *op, uint64_t now_ns) {
  if (!gli_deadline_is_started(op)) {
    gli_deadline_start(op);
    return;
  }
  bool over = now_ns >= op->deadline.at_ns;
  if (gli_staged_is_gated(op)) {
    wait_for_stream(op, over);
    return;
  }
  if (op->deadline.blame_phase == GLI_ON_TIME) {
    begin_probing(op, now_ns);
    return;
  }
  if (!over &&
      (!op->deadline.suspected || op->deadline.blame_phase == GLI_LISTENING)) {
    stop_probing(op);
    return;
  }
  if (op->deadline.blame_phase == GLI_PROBING && all_cleared(op)) {
    keep_listening(op, now_ns);
    return;
  }
  gloo_error error;
  gli_describe_timeout(op, &error);
  gli_context_poison(op->context, &error);
}

/* Returns true if the receive belongs to the creation of the same group. */
static bool makes_group(const gli_operation *op, const gli_link *link,
                        const gli_header *h) {
  return op->context == link->context && op->context->is_control &&
         op->side == GLI_RECV_SIDE && message_link(op) != NULL &&
         op->signature.tag == h->tag;
}

/* Returns true if the operation waits for a rank other than the asking one. */
static bool waits_for_others(const gli_operation *op, const gli_link *link,
                             const gli_header *h) {
  (void)h;
  if (gli_operation_is_message(op)) {
    const gli_link *to = message_link(op);
    return to != NULL && to->rank != link->rank;
  }
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    if (op->peers[i].link->rank != link->rank && gli_operation_waits_for(op, i))
      return true;
  }
  return false;
}

/* Returns true if the operation waits for the rank that asks. */
static bool waits_for_asker(const gli_operation *op, const gli_link *link,
                            const gli_header *h) {
  (void)h;
  if (gli_operation_is_message(op)) {
    const gli_link *to = message_link(op);
    return to != NULL && to->rank == link->rank;
  }
  for (uint32_t i = 0; i < op->plan->n_peers; i++) {
    if (gli_operation_waits_for(op, i) && op->peers[i].link->rank == link->rank)
      return true;
  }
  return false;
}

/* Returns the oldest operation of the family for which `is_so` holds. */
static gli_operation *find_waiting(const gli_link *link, const gli_header *h,
                                   bool (*is_so)(const gli_operation *op,
                                                 const gli_link *link,
                                                 const gli_header *h)) {
  const gli_family *family = link->context->family;
  const gli_operation_list *lists[] = {&family->active, &family->posted};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    gli_operation *op = lists[i]->first;
    for (; op != NULL; op = op->active_next) {
      if (is_so(op, link, h)) return op;
    }
  }
  return NULL;
}

static gli_operation *find_operation(const gli_link *link,
                                     const gli_header *h) {
  if (h->collective == GLI_SENDRECV) return find_waiting(link, h, makes_group);
  return gli_match_operation(link, h);
}

/* Returns true if this rank is in a call. */
static bool is_waiting(const gli_link *link) {
  const gli_family *family = link->context->family;
  return family->active.first != NULL || family->posted.first != NULL;
}

/* Checks that both ranks made the same call. Otherwise the rank that asks may
 * wait for a message that never comes. */
static gloo_status check_agrees(const gli_operation *op, const gli_link *link,
                                const gli_header *h, gloo_error *error) {
  if (h->collective == GLI_SENDRECV) return GLOO_OK;
  if (op != NULL) return gli_match_agree(op, link, h, error);
  return gli_match_agree_late(link, h, error);
}

/* Passes on the question of another rank, though the own deadline may not have
 * passed. */
static void ask_on(gli_operation *op, bool pressed) {
  gloo_device *device = op->device;
  if (op->deadline.timeout_ns > 0) gli_deadline_start(op);
  bool suspected = pressed && !op->deadline.suspected;
  if (suspected) op->deadline.suspected = true;
  if (op->deadline.blame_phase == GLI_ON_TIME)
    begin_probing(op, device->ops->now_ns(device->transport));
  else if (suspected)
    send_probes(op); /* ranks that were asked have had their time */
}

static bool probe_is_message(const gli_operation *op, const gli_link *link,
                             const gli_header *h) {
  (void)link;
  (void)h;
  return gli_operation_is_message(op);
}

static bool probe_is_collective(const gli_operation *op, const gli_link *link,
                                const gli_header *h) {
  return !probe_is_message(op, link, h);
}

/* Answers a question about `op`; NULL if this rank takes no part in it. */
static void answer_question(gli_link *link, const gli_header *h,
                            gli_operation *op) {
  gli_header about = *h;
  about.slot = SAYS_HERE;
  if (op == NULL) {
    bool crossed = find_waiting(link, h, waits_for_asker) != NULL;
    about.slot = crossed ? SAYS_FOR_YOU : SAYS_ELSEWHERE;
    if (find_waiting(link, h, probe_is_message) == NULL ||
        find_waiting(link, h, probe_is_collective) != NULL)
      about.slot |= GLI_WAITING_MAY_COME;
    op = find_waiting(link, h, waits_for_others);
  }
  (void)gli_wire_answer(link, GLI_MESSAGE_WAITING, &about, NULL);
  if (op != NULL) ask_on(op, h->slot != 0);
}

/* Keeps a question about a call that this rank has not made. It gives no
 * answer, unless it makes other calls. */
static void keep_question(gli_link *link, const gli_header *h) {
  gloo_device *device = link->context->device;
  link->question =
      (gli_link_question){true, device->completed, /* about: */ *h};
  device->asked = device->leftovers = true;
}

gloo_status gli_blame_probed(gli_link *link, const gli_header *h,
                             gloo_error *error) {
  gli_operation *op = find_operation(link, h);
  gloo_status status = check_agrees(op, link, h, error);
  if (status != GLOO_OK) return status;
  if (op != NULL || is_waiting(link))
    answer_question(link, h, op);
  else
    keep_question(link, h);
  return GLOO_OK;
}

/* Answers kept questions. A call that starts and ends within one poll shows
 * only in the count of completed operations. */
static void answer_links_late(gloo_context *context) {
  gloo_device *device = context->device;
  for (gli_link *link = context->links; link != NULL; link = link->next) {
    gli_link_question *q = &link->question;
    if (!q->open) continue;
    if (!is_waiting(link) && device->completed == q->completed) {
      device->asked = true;
      continue;
    }
    gli_operation *op = find_operation(link, &q->about);
    if (op != NULL && q->about.collective != GLI_SENDRECV &&
        !gli_signature_equal(&op->signature, &q->about))
      op = NULL;
    q->open = false;
    answer_question(link, &q->about, op);
  }
}

void gli_blame_answer_late(gloo_device *device) {
  device->asked = false;
  for (gloo_context *c = device->contexts; c != NULL; c = c->next) {
    if (gli_context_poisoned(c)) continue;
    answer_links_late(c);
    for (gloo_context *g = c->family->groups; g != NULL; g = g->next)
      answer_links_late(g);
  }
}

static bool asks_for_message(const gli_operation *op, const gli_link *link,
                             const gli_header *h) {
  return op->context == link->context && gli_operation_is_message(op) &&
         message_link(op) == link && op->signature.tag == h->tag &&
         op->peers[0].cleared == GLI_SILENT;
}

static uint8_t said_of(const gli_header *h) {
  uint32_t slot = h->slot & SAYS_MASK;
  if (slot == SAYS_HERE) return GLI_WITH_US;
  return slot == SAYS_FOR_YOU ? GLI_CROSSED : GLI_ELSEWHERE;
}

void gli_blame_answered(gli_link *link, const gli_header *h) {
  uint8_t how = said_of(h);
  gli_missed_answered(link, h);
  if (h->collective == GLI_SENDRECV) {
    gli_operation *op;
    while ((op = find_waiting(link, h, asks_for_message)) != NULL)
      gli_operation_note(op, 0)->cleared = how;
    return;
  }
  gli_operation *op = gli_match_operation(link, h);
  if (op == NULL) return;
  uint32_t peer = gli_plan_find_peer(op->plan, link->local);
  if (peer != GLI_NO_PEER) gli_operation_note(op, peer)->cleared = how;
}
