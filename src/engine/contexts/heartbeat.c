/* Signs of life. A rank that is stopped, or cut off, breaks no connection:
 * those that wait for it would wait until their deadlines, and for ever without
 * one. So each rank tells the next one of its context four times in
 * GLOO_HEARTBEAT that it is there (ALIVE), also when the program makes no
 * calls: the helper thread does. The next rank takes anything that comes from
 * it as a sign, for behind a long message an ALIVE comes late; after
 * GLOO_HEARTBEAT without any the context fails, and names it.
 *
 * This ring of connections and the tree that is made at the start
 * (gli_context_join_tree) are joined also when any one rank is gone: so every
 * rank hears of an error of which one has heard.
 *
 * Who has not run itself, for the job was stopped as a whole, or the processor
 * was not to be had, does not count that time against others. */
#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* ALIVEs in the time after which a rank is missed. */
#define BEATS 4
/* Connecting to the next rank can wait so long: starting is not made slower,
 * and the shortest programs do without. */
#define FIRST_BEAT_NS UINT64_C(20000000)

/* A rank is missed only after one more look, for a sign may have come since the
 * last poll. */
#define DOUBT_NS UINT64_C(100000000)

static uint32_t rank_before(const gloo_context *context) {
  return (context->rank + context->size - 1) % context->size;
}

static uint64_t beat_every(const gli_heartbeat *h) {
  return h->own_ns / BEATS;
}

void gli_heartbeat_start(gloo_context *context, uint64_t limit_ns, bool beats) {
  gli_heartbeat *h = &context->heartbeat;
  gloo_device *device = context->device;
  if (device->ops->heard == NULL || context->size < 2 || limit_ns == 0) return;
  uint64_t now_ns = device->ops->now_ns(device->transport);
  *h = (gli_heartbeat){.own_ns = limit_ns,
                       .limit_ns = limit_ns,
                       .watches = h->watches,
                       .beat_ns = beats ? now_ns + FIRST_BEAT_NS : UINT64_MAX,
                       .looked_ns = now_ns,
                       .heard_ns = now_ns};
  h->due_ns = now_ns + FIRST_BEAT_NS;
  device->beats = true;
}

/* While others are on their way, they are signs enough, or the rank takes
 * nothing. But it has to know that there will be signs. */
static void say_alive(gloo_context *context) {
  gloo_error error;
  uint32_t next = (context->rank + 1) % context->size;
  gli_link *link = gli_context_link(context, next, &error);
  if (link == NULL) return;
  bool others = link->pending.first != NULL || link->in_flight.first != NULL;
  if (others && context->heartbeat.said) return;
  context->heartbeat.said = true;
  gli_wire_control(link, GLI_MESSAGE_ALIVE, NULL,
                   (uint32_t)(beat_every(&context->heartbeat) / 1000000));
}

static void miss_rank(gloo_context *context, uint32_t rank) {
  gloo_error error;
  gli_fail(&error, GLOO_ERR_PEER, (int)rank,
           "rank %u has given no sign of life for %.3g s: it is stopped or "
           "frozen, or its host is cut off (GLOO_HEARTBEAT)",
           rank, (double)context->heartbeat.limit_ns / 1e9);
  gli_context_poison(context, &error);
}

/* Returns when to look again. */
static uint64_t look_for_signs(gloo_context *context, uint64_t now_ns) {
  gli_heartbeat *h = &context->heartbeat;
  uint32_t rank = rank_before(context);
  const gli_link *link = context->peers[rank].link;
  const gli_pair *pair = link != NULL ? link->pair : NULL;
  bool left = link != NULL && link->leaving.departed;
  if (left || context->family->orphaned) { /* nor do we hear all from it */
    h->watches = false;
    return UINT64_MAX;
  }
  uint64_t heard = pair != NULL ? pair->ops->heard(pair) : 0;
  bool ran = now_ns - h->looked_ns < 2 * beat_every(h);
  /* When it came is not known better; of an ALIVE it is. */
  uint64_t since_ns = ran ? h->looked_ns : now_ns;
  if ((heard != h->heard || !ran) && since_ns > h->heard_ns) {
    h->heard_ns = since_ns;
    h->doubted_ns = 0;
  }
  h->heard = heard;
  h->looked_ns = now_ns;
  uint64_t limit_ns = h->limit_ns;
  /* Until it has once been heard it may still be on its way to here. */
  if (!h->met && limit_ns < GLI_TIMEOUT_NS) limit_ns = GLI_TIMEOUT_NS;
  if (now_ns - h->heard_ns < limit_ns) return h->heard_ns + limit_ns;
  if (h->doubted_ns == 0) h->doubted_ns = now_ns;
  if (now_ns - h->doubted_ns < DOUBT_NS) return h->doubted_ns + DOUBT_NS;
  miss_rank(context, rank);
  return UINT64_MAX;
}

void gli_heartbeat_turn(gloo_context *context, uint64_t now_ns) {
  gli_heartbeat *h = &context->heartbeat;
  uint64_t period_ns = beat_every(h);
  if (gli_context_poisoned(context)) {
    h->due_ns = UINT64_MAX;
    return;
  }
  if (now_ns >= h->beat_ns) {
    say_alive(context);
    h->beat_ns = now_ns + period_ns;
  }
  uint64_t look_ns = h->watches ? look_for_signs(context, now_ns) : UINT64_MAX;
  h->due_ns = h->beat_ns < look_ns ? h->beat_ns : look_ns;
  if (h->watches && h->due_ns > now_ns + period_ns)
    h->due_ns = now_ns + period_ns;
}

void gli_heartbeat_heard(gli_link *link, const gli_header *header) {
  gloo_context *context = link->context;
  gli_heartbeat *h = &context->heartbeat;
  if (link->rank != rank_before(context)) return;
  uint64_t theirs_ns = (uint64_t)header->slot * 1000000 * BEATS;
  h->limit_ns = theirs_ns > h->own_ns ? theirs_ns : h->own_ns;
  h->met = true;
  h->heard_ns = context->device->ops->now_ns(context->device->transport);
  h->doubted_ns = 0;
}
