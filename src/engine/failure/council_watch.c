/* Watches the ranks that the agreement waits for. A rank is missed when its
 * connection is lost, when it is silent, or when it does not come. */
#include "core/log.h"
#include "engine/failure/council.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* The time in which the rank that the failure names can show that it is alive.
 */
#define ACCUSED_NS UINT64_C(300000000)
/* The number of pings in the time after which a silent rank is considered
 * gone. */
#define PINGS 4
/* The number of attempts to connect to a rank, and the time for them. */
#define TRIES 3
#define TRY_NS UINT64_C(300000000)
/* The silence after which a leader may be gone, and its successors too: up to
 * COURTED successors are asked for a sign at once. */
#define COURT_NS UINT64_C(100000000)
#define COURTED 8
/* The number of polls, in the time after which a rank is missed, once the
 * agreement has ended. */
#define LOOKS 16

static uint64_t shrink_later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* ---- lost connections ---------------------------------------------------- */

static void shrink_miss(gli_shrink *s, uint32_t rank, const char *why) {
  if (gli_membership_needs(&s->members, rank))
    gli_log(GLOO_LOG_INFO, "rank %u considers rank %u dead: %s",
            s->members.self, rank, why);
  gli_membership_gone(&s->members, rank);
}

/* Returns true if another attempt is due. A connection that ends before
 * anything arrives may be an old one, which the peer gave up while it waited to
 * be accepted. Connections to ranks that have ended take longer to fail. */
static bool shrink_tries_again(gli_shrink *s, uint32_t rank) {
  const gloo_device *device = s->council->device;
  gli_shrink_rank *r = &s->ranks[rank];
  uint64_t now_ns = device->ops->now_ns(device->transport);
  bool dialed = r->dialed_ns != 0; /* otherwise the peer dialed */
  if (r->came || r->tries >= TRIES ||
      (dialed && now_ns - r->dialed_ns > TRY_NS))
    return false;
  r->tries++;
  r->again = true;
  s->due_ns = 0;
  return true;
}

void gli_shrink_lost(gli_link *link, const char *why) {
  gli_shrink *s = link->context->shrink;
  if (s->members.phase == GLI_MEMBER_OVER) return;
  if (shrink_tries_again(s, link->rank)) return;
  shrink_miss(s, link->rank, why);
  gli_shrink_settle(s);
}

/* Returns true if this rank awaits a sign of `rank`, which need not answer
 * yet. */
static bool shrink_courts(const gli_shrink *s, uint32_t rank) {
  const gli_shrink_rank *r = &s->ranks[rank];
  return r->courted && !r->came &&
         (s->members.ranks[rank] & GLI_MEMBER_GONE) == 0;
}

/* Repeats the messages that were lost with such a connection. */
static void shrink_connect_again(gli_shrink *s) {
  const gli_membership *m = &s->members;
  for (uint32_t i = 0; i < m->n; i++) {
    if (!s->ranks[i].again) continue;
    s->ranks[i].again = false;
    gli_context_drop_link(s->council, i);
    if (gli_membership_needs(m, i))
      gli_membership_again(&s->members, i);
    else if (shrink_courts(s, i))
      gli_shrink_send(s, i, GLI_MEMBER_SIGN);
  }
}

/* ---- silence ------------------------------------------------------------- */

/* Looks for a sign of a rank: bytes that arrived, or an answer by which it
 * defers this rank. */
static void shrink_look_at(gli_shrink *s, uint32_t rank, uint64_t now_ns) {
  gli_shrink_rank *r = &s->ranks[rank];
  const gli_link *link = s->council->peers[rank].link;
  if (link == NULL || link->pair == NULL || link->pair->ops->heard == NULL)
    return;
  uint64_t signs = link->pair->ops->heard(link->pair);
  if (signs != r->signs) r->sign_ns = now_ns;
  r->signs = signs;
}

/* Returns the time at which an awaited rank is considered gone, because it is
 * silent or does not come. */
static uint64_t shrink_limit(const gli_shrink *s, uint32_t rank) {
  const gli_shrink_rank *r = &s->ranks[rank];
  uint64_t silent_ns = UINT64_MAX, late_ns = UINT64_MAX;
  if (s->silence_ns != 0 && (r->came || s->council->contacts[rank].beats))
    silent_ns = shrink_later(r->asked_ns, r->sign_ns) + s->silence_ns;
  if (r->came && s->silence_ns != 0) return silent_ns;
  if (rank == s->accused && r->sign_ns == 0) return r->asked_ns + ACCUSED_NS;
  if (s->patience_ns != UINT64_MAX)
    late_ns = shrink_later(s->begun_ns + s->patience_ns,
                           r->asked_ns + GLI_SHRINK_GRACE_NS);
  return silent_ns < late_ns ? silent_ns : late_ns;
}

/* Tells waiting ranks that this rank runs. Their answers show that they run. */
static void shrink_ping(gli_shrink *s, uint64_t now_ns) {
  const gli_membership *m = &s->members;
  if (s->silence_ns == 0 || m->leader != m->self) return;
  if (now_ns < s->ping_ns) return;
  s->ping_ns = now_ns + s->silence_ns / PINGS;
  for (uint32_t i = 0; i < m->n; i++)
    if (s->ranks[i].came && (m->ranks[i] & GLI_MEMBER_GONE) == 0)
      gli_shrink_send(s, i, GLI_MEMBER_ASK);
}

/* Pings the next possible leaders while the leader is silent, because waiting
 * for one after another would take seconds each. Returns the time of the next
 * check. */
static uint64_t shrink_court(gli_shrink *s, uint64_t now_ns) {
  const gli_membership *m = &s->members;
  if (!gli_membership_needs(m, m->leader)) return UINT64_MAX;
  const gli_shrink_rank *leader = &s->ranks[m->leader];
  if (leader->came || leader->sign_ns != 0) return UINT64_MAX;
  if (leader->asked_ns == 0) return now_ns + COURT_NS;
  if (now_ns < leader->asked_ns + COURT_NS && !leader->courted)
    return leader->asked_ns + COURT_NS;
  unsigned n = 0;
  for (uint32_t i = m->leader; i < m->self && n < COURTED; i++) {
    if ((m->ranks[i] & GLI_MEMBER_GONE) != 0) continue;
    n++;
    if (s->ranks[i].courted) continue;
    s->ranks[i].courted = true;
    if (i != m->leader) gli_shrink_send(s, i, GLI_MEMBER_SIGN);
  }
  return UINT64_MAX;
}

/* Returns the time of the next look. */
static uint64_t shrink_look(gli_shrink *s, uint64_t now_ns) {
  const gli_membership *m = &s->members;
  uint64_t due_ns = UINT64_MAX;
  /* Time in which this rank did not run is not counted against others. */
  bool ran = s->silence_ns == 0 || now_ns - s->looked_ns < s->silence_ns / 2;
  s->looked_ns = now_ns;
  for (uint32_t i = 0; i < m->n; i++) {
    bool needed = gli_membership_needs(m, i);
    if (!needed && !shrink_courts(s, i)) {
      s->ranks[i].asked_ns = 0;
      continue;
    }
    if (s->ranks[i].asked_ns == 0 || !ran) s->ranks[i].asked_ns = now_ns;
    shrink_look_at(s, i, now_ns);
    if (!needed) continue;
    uint64_t limit_ns = shrink_limit(s, i);
    if (now_ns >= limit_ns) {
      shrink_miss(s, i, "it does not answer");
      gli_shrink_settle(s);
      return now_ns;
    }
    if (limit_ns < due_ns) due_ns = limit_ns;
  }
  return due_ns;
}

void gli_shrink_turn(gloo_context *council, uint64_t now_ns) {
  gli_shrink *s = council->shrink;
  if (gli_context_poisoned(council)) gli_shrink_settle(s);
  if (council->teardown_pending) return;
  if (s->members.phase >= GLI_MEMBER_OVER || gli_context_poisoned(council)) {
    gli_shrink_be_quiet(s);
    /* A rank that was stopped may ask: it needs a few polls to connect. */
    s->due_ns =
        now_ns + shrink_later(s->silence_ns, GLI_SHRINK_GRACE_NS) / LOOKS;
    return;
  }
  shrink_connect_again(s);
  shrink_ping(s, now_ns);
  uint64_t due_ns = shrink_look(s, now_ns);
  uint64_t court_ns = shrink_court(s, now_ns);
  if (court_ns < due_ns) due_ns = court_ns;
  bool leads = s->members.leader == s->members.self;
  if (leads && s->silence_ns != 0 && s->ping_ns < due_ns) due_ns = s->ping_ns;
  /* While it waits, it looks often enough to know that it runs. */
  if (s->silence_ns != 0 && due_ns > now_ns + s->silence_ns / PINGS)
    due_ns = now_ns + s->silence_ns / PINGS;
  s->due_ns = due_ns;
}
