/* Heartbeats. A rank that is stopped or cut off breaks no connection, so other
 * ranks would wait for it until their deadlines, or forever. Each rank
 * therefore sends an ALIVE to the next rank of its context twice per
 * GLOO_HEARTBEAT, by the helper thread while the program makes no calls. In
 * shared memory the next rank sees the polls instead. It counts all traffic as
 * a heartbeat, because an ALIVE behind a long message is late. After
 * GLOO_HEARTBEAT without traffic the context fails and names the rank.
 *
 * The main cost is waking threads, 50 us of CPU time each. So an idle rank
 * wakes by its own timer only, and each time both checks the previous rank and
 * sends its heartbeat. The transport dates signs, so detection is as early.
 *
 * This ring of connections, together with the tree that is made at the start
 * (gli_context_join_tree), stays connected when any one rank is gone, so an
 * error that reaches one rank reaches every rank.
 *
 * A rank that leaves in order leaves a gap, which the rank before it closes: it
 * sends its heartbeats to the next remaining rank, and that one watches the
 * nearest rank that sends it any. Only ranks that were connected to a departed
 * rank know of its departure, so the next rank to try may be gone. Whether it
 * left or ended otherwise is unknown here and does not matter: the attempt is
 * dropped, and the next rank is tried. Once a rank has answered its first
 * ALIVE, the loss of its connection is a failure.
 *
 * A rank that did not run, because the job was stopped as a whole or the
 * processor was busy, does not count that time against others. */
#include "core/environment.h"
#include "core/error.h"
#include "core/log.h"
#include "engine/failure/failure.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* The number of ALIVEs in the time after which a rank is missed. */
#define BEATS 2
/* The signs of a shared processor. A rank that is woken later than BUSY_NS,
 * plus TURN_NS for each rank of its host, which all wake at once, shares its
 * processor with programs that compute, and may be woken much later next time.
 * So it sends heartbeats twice as often, for BUSY_TURNS turns. */
#define BUSY_NS UINT64_C(4000000)
#define TURN_NS UINT64_C(50000)
#define BUSY_TURNS 32
/* The delay before the connection to the next rank: it does not slow the start,
 * and short programs need no connection. Connecting takes a few turns of both
 * ranks, so the second heartbeat follows after the same time, the third after
 * twice that, and so on. */
#define FIRST_BEAT_NS UINT64_C(20000000)

/* The delay after the deadline of a heartbeat until the rank is missed, and the
 * time of one more check, because a sign may have come since the last poll. */
#define GRACE_NS UINT64_C(150000000)
#define DOUBT_NS UINT64_C(150000000)
/* The delay from which a late look is no other rank's fault: LATE_NS, or a part
 * of the period if that is longer. */
#define LATE_NS UINT64_C(100000000)
#define LATE_SHARE 8
/* The least time without a turn after which a rank assumes that it was missed.
 * Others wait longer, for a heartbeat and in an agreement (council.c), and a
 * rank that runs has a turn more often. */
#define MISSED_NS UINT64_C(600000000)
/* The time, on top of two heartbeats, in which others that missed a rank end
 * their connections to it. */
#define AWAY_NS UINT64_C(1000000000)

static uint32_t rank_after(const gloo_context *context, uint32_t rank) {
  return (rank + 1) % context->size;
}

static uint64_t beat_every(const gli_heartbeat *h) {
  return h->own_ns / BEATS;
}

static bool was_late(const gli_heartbeat *h, uint64_t now_ns) {
  uint64_t late_ns = beat_every(h) / LATE_SHARE;
  return now_ns - h->due_ns > (late_ns > LATE_NS ? late_ns : LATE_NS);
}

/* Returns true if the others may have heard nothing for longer than they wait.
 * The time counts from the last turn: the rank may have been stopped just after
 * it. */
static bool heartbeat_is_missed(const gli_heartbeat *h, uint64_t now_ns) {
  uint64_t limit_ns = h->own_ns > MISSED_NS ? h->own_ns : MISSED_NS;
  return h->beats && h->due_ns != 0 && h->due_ns != UINT64_MAX &&
         now_ns > h->turned_ns + limit_ns;
}

bool gli_heartbeat_was_away(const gloo_context *context, uint64_t now_ns) {
  const gli_heartbeat *h = &context->heartbeat;
  if (h->was_away || heartbeat_is_missed(h, now_ns)) return true;
  return h->away_ns != 0 && now_ns - h->away_ns < 2 * h->own_ns + AWAY_NS;
}

/* ---- sending ------------------------------------------------------------- */

static void heartbeat_forget_trial(gloo_context *context) {
  gli_link *trial = context->heartbeat.trial;
  uint32_t rank = trial->rank;
  gli_context_keep_link(trial);
  gli_context_drop_link(context, rank);
}

/* Finds the next remaining rank. Returns false if no other rank is left. */
static bool heartbeat_find_next(gloo_context *context) {
  gli_heartbeat *h = &context->heartbeat;
  bool failed = h->trial != NULL && h->trial->failed;
  /* The others consider it gone. */
  if (context->family->orphaned) return !failed;
  uint32_t was = h->next;
  if (failed) {
    heartbeat_forget_trial(context);
    h->next = rank_after(context, h->next);
  }
  while (h->next != context->rank) {
    const gli_link *link = context->peers[h->next].link;
    if (link == NULL || !link->leaving.departed) break;
    h->next = rank_after(context, h->next);
  }
  if (h->next != was) h->said = false;
  return h->next != context->rank;
}

/* Sends an ALIVE. Pending messages serve as one, and if the rank reads nothing,
 * it needs none. A rank that sees polls needs none either. But the rank must
 * learn once that heartbeats will come. */
static void say_alive(gloo_context *context) {
  gloo_error error;
  gli_heartbeat *h = &context->heartbeat;
  if (!heartbeat_find_next(context)) return;
  gli_link *link = gli_context_try_link(context, h->next, &error);
  if (link == NULL) return;
  const gli_pair *pair = link->pair;
  bool shown = pair != NULL && pair->ops->shows_polls != NULL &&
               pair->ops->shows_polls(pair);
  bool others = link->pending.first != NULL || link->in_flight.first != NULL;
  if ((others || shown) && h->said) return;
  h->said = true;
  gli_wire_control(link, GLI_MESSAGE_ALIVE, NULL,
                   (uint32_t)(beat_every(h) / 1000000));
}

static bool shares_processor(const gloo_context *context, uint64_t now_ns) {
  uint64_t ranks =
      context->hosts != NULL ? context->hosts->most : context->size;
  return now_ns - context->heartbeat.due_ns > BUSY_NS + ranks * TURN_NS;
}

/* Returns the time of the next turn. All ranks of a host have their turns at
 * the same times of their common clock. */
static uint64_t next_turn(gli_heartbeat *h, uint64_t now_ns) {
  uint64_t period_ns = beat_every(h), pause_ns = h->pause_ns;
  if (h->busy > 0) period_ns /= 2;
  if (pause_ns >= period_ns) return (now_ns / period_ns + 1) * period_ns;
  h->pause_ns *= 2;
  return now_ns + pause_ns;
}

/* Returns to the short intervals of the start, because ranks have to meet. */
static void heartbeat_hurry(gloo_context *context) {
  gli_heartbeat *h = &context->heartbeat;
  gloo_device *device = context->device;
  if (h->due_ns == 0 || gli_context_poisoned(context)) return;
  uint64_t due_ns = device->ops->now_ns(device->transport) + FIRST_BEAT_NS;
  if (due_ns < h->due_ns) h->due_ns = due_ns;
  h->pause_ns = FIRST_BEAT_NS;
}

void gli_heartbeat_departed(gli_link *link) {
  const gli_heartbeat *h = &link->context->heartbeat;
  gli_context_keep_link(link);
  if (link->rank == h->next || link->rank == h->before)
    heartbeat_hurry(link->context);
}

/* Returns true if groups, or messages that arrived, use the link. */
static bool trial_is_used(const gli_link *link) {
  const gli_family *family = link->context->family;
  if (link->leaving.came > 0 || link->leaving.sent > 0) return true;
  if (link->rts_in > 0 || link->arriving.first != NULL) return true;
  const gli_link *l = family->draining;
  for (const gloo_context *g = family->groups;; l = g->links, g = g->next) {
    while (l != NULL && l->group.base != link) l = l->next;
    if (l != NULL || g == NULL) return l != NULL;
  }
}

bool gli_heartbeat_gives_up(const gli_link *link, const gloo_error *cause) {
  gloo_context *context = link->context;
  if (context->heartbeat.trial != link || trial_is_used(link)) return false;
  gli_log(GLOO_LOG_DEBUG, "rank %u sends its heartbeat to another rank: %s",
          context->rank, cause->message);
  heartbeat_hurry(context);
  return true;
}

bool gli_heartbeat_gave_up(const gloo_context *root, uint32_t rank) {
  const gli_link *trial = root->heartbeat.trial;
  return trial != NULL && trial->rank == rank && trial->failed;
}

/* ---- watching ------------------------------------------------------------ */

/* Takes a sign that has come since the last turn. When it came costs system
 * calls to know, so the time of that turn stands for it until it matters. */
static void take_sign(gli_heartbeat *h, uint64_t now_ns) {
  if (h->turned_ns > h->heard_ns) h->heard_ns = h->turned_ns;
  h->found_ns = now_ns;
  h->doubted_ns = 0;
}

/* Finds out when the last sign came: as the transport says, or else when it was
 * found. */
static void date_sign(gli_heartbeat *h, const gli_pair *pair) {
  bool dated = pair != NULL && pair->ops->heard_at != NULL;
  uint64_t at_ns = dated ? pair->ops->heard_at(pair) : 0;
  if (at_ns == 0 || at_ns > h->found_ns) at_ns = h->found_ns;
  if (at_ns > h->heard_ns) h->heard_ns = at_ns;
}

static void miss_rank(gloo_context *context, uint32_t rank) {
  gloo_error error;
  gli_fail(&error, GLOO_ERR_PEER, (int)rank,
           "no heartbeat from rank %u for %.3g s: the process is stopped, or "
           "its host is down or disconnected (GLOO_HEARTBEAT)",
           rank, (double)context->heartbeat.limit_ns / 1e9);
  gli_link_explain(context->peers[rank].link, &error);
  gli_context_poison(context, &error);
}

/* Returns the nearest link before this rank that sends heartbeats; NULL if
 * none. */
static const gli_link *nearest_before(const gloo_context *context) {
  const gli_link *nearest = NULL;
  uint32_t least = 0;
  for (const gli_link *l = context->links; l != NULL; l = l->next) {
    if (l->alive_ms == 0 || l->leaving.departed || l->pair == NULL) continue;
    uint32_t away = (context->rank + context->size - l->rank) % context->size;
    if (nearest != NULL && away >= least) continue;
    nearest = l;
    least = away;
  }
  return nearest;
}

static void heartbeat_watch(gloo_context *context, const gli_link *link,
                            uint64_t now_ns) {
  gli_heartbeat *h = &context->heartbeat;
  uint64_t theirs_ns = (uint64_t)link->alive_ms * 1000000 * BEATS;
  h->limit_ns = theirs_ns > h->own_ns ? theirs_ns : h->own_ns;
  h->watches = h->met = true;
  if (h->before != link->rank) h->heard = link->pair->ops->heard(link->pair);
  h->before = link->rank;
  take_sign(h, now_ns);
}

/* Starts the heartbeat. A rank that has begun earlier may have been heard by
 * now, and may not announce itself again. */
void gli_heartbeat_start(gloo_context *context, uint64_t limit_ns, bool beats) {
  gli_heartbeat *h = &context->heartbeat;
  gloo_device *device = context->device;
  if (device->ops->heard == NULL || context->size < 2 || limit_ns == 0) return;
  uint64_t now_ns = device->ops->now_ns(device->transport);
  uint32_t before = (context->rank + context->size - 1) % context->size;
  *h = (gli_heartbeat){.own_ns = limit_ns,
                       .limit_ns = limit_ns,
                       .watches = context->contacts[before].beats,
                       .next = rank_after(context, context->rank),
                       .before = before,
                       .met = context->origin != NULL, /* its ranks agreed */
                       .beats = beats,
                       .pause_ns = FIRST_BEAT_NS,
                       .turned_ns = now_ns,
                       .heard_ns = now_ns};
  h->due_ns = now_ns + FIRST_BEAT_NS;
  const gli_link *heard = nearest_before(context);
  if (heard != NULL) heartbeat_watch(context, heard, now_ns);
  device->beats = true;
}

void gli_heartbeat_met(gloo_context *context) {
  gli_heartbeat *h = &context->heartbeat;
  gloo_device *device = context->device;
  if (h->due_ns == 0 || h->met) return;
  h->met = true;
  h->heard_ns = device->ops->now_ns(device->transport);
}

/* Returns the time of the next look. */
static uint64_t look_for_signs(gloo_context *context, uint64_t now_ns) {
  gli_heartbeat *h = &context->heartbeat;
  const gli_link *link = context->peers[h->before].link;
  if (link != NULL && link->leaving.departed) {
    link = nearest_before(context);
    h->watches = link != NULL;
    if (link != NULL) heartbeat_watch(context, link, now_ns);
  }
  if (context->family->orphaned) h->watches = false; /* may miss signs */
  if (!h->watches) return UINT64_MAX;
  const gli_pair *pair = link != NULL ? link->pair : NULL;
  uint64_t heard = pair != NULL ? pair->ops->heard(pair) : 0;
  if (heard != h->heard) take_sign(h, now_ns);
  if (was_late(h, now_ns)) {
    h->heard_ns = now_ns;
    h->doubted_ns = 0;
  }
  h->heard = heard;
  uint64_t limit_ns = h->limit_ns + GRACE_NS;
  /* Until it has been heard once it may still be about to connect. */
  if (!h->met && limit_ns < GLI_TIMEOUT_NS) limit_ns = GLI_TIMEOUT_NS;
  if (now_ns - h->heard_ns >= limit_ns) date_sign(h, pair);
  if (now_ns - h->heard_ns < limit_ns) return h->heard_ns + limit_ns;
  if (h->doubted_ns == 0) h->doubted_ns = now_ns;
  if (now_ns - h->doubted_ns < DOUBT_NS) return h->doubted_ns + DOUBT_NS;
  miss_rank(context, h->before);
  return UINT64_MAX;
}

void gli_heartbeat_turn(gloo_context *context, uint64_t now_ns) {
  gli_heartbeat *h = &context->heartbeat;
  if (gli_context_poisoned(context)) {
    h->was_away = gli_heartbeat_was_away(context, now_ns);
    h->due_ns = UINT64_MAX;
    return;
  }
  if (heartbeat_is_missed(h, now_ns)) h->away_ns = now_ns;
  uint64_t look_ns = h->watches ? look_for_signs(context, now_ns) : UINT64_MAX;
  h->turned_ns = now_ns;
  if (h->beats) say_alive(context);
  if (shares_processor(context, now_ns))
    h->busy = BUSY_TURNS;
  else if (h->busy > 0)
    h->busy--;
  h->due_ns = next_turn(h, now_ns);
  if (look_ns < h->due_ns) h->due_ns = look_ns;
}

void gli_heartbeat_heard(gli_link *link, const gli_header *header) {
  gloo_context *context = link->context;
  gloo_device *device = context->device;
  gli_context_keep_link(link);
  if (header->slot == 0 || device->ops->heard == NULL) return;
  bool first = link->alive_ms == 0;
  link->alive_ms = header->slot;
  if (first) gli_wire_control(link, GLI_MESSAGE_ALIVE, NULL, 0);
  if (nearest_before(context) == link)
    heartbeat_watch(context, link, device->ops->now_ns(device->transport));
}
