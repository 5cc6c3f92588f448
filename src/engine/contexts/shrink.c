#include "engine/contexts/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/log.h"
#include "engine/contexts/contexts.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* The rank that all know to be gone gets no more than this to show that it is
 * there after all. */
#define ACCUSED_NS UINT64_C(300000000)
/* A rank that begins to lead when patience is over gives the others this. */
#define GRACE_NS UINT64_C(1000000000)
/* Signs per time after which a rank is taken for gone. */
#define PINGS 4
/* How often it is tried again to connect to a rank, and within what time. */
#define TRIES 3
#define TRY_NS UINT64_C(300000000)
/* One that is yet to connect to a rank that polls now and then gets so many
 * times as long. */
#define CONNECTING 2
/* A leader that has given no sign for so long may be gone, and so may those
 * that would lead after it: so many of them are asked for a sign, all at once.
 */
#define COURT_NS UINT64_C(100000000)
#define COURTED 8
/* Polls in that time of a rank for which the agreement is over. */
#define LOOKS 16

static uint64_t shrink_later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* What a key makes of a number: as hard to guess as the key, for the mapping is
 * one to one (the finalizer of SplitMix64; Steele, Lea and Flood 2014). */
static uint64_t shrink_derive(uint64_t key, uint64_t number) {
  uint64_t z = key + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* Ballots are above it: rounds are counted from 1. */
enum { COUNCIL = 0 };

bool gli_shrink_is_to_come(const gloo_device *device, uint64_t key) {
  for (const gloo_context *c = device->contexts; c != NULL; c = c->next)
    if (!c->shrunk && c->shrink == NULL && !c->family->orphaned &&
        shrink_derive(c->key, COUNCIL) == key)
      return true;
  return false;
}

/* ---- contexts ------------------------------------------------------------ */

static bool shrink_copy_hosts(gloo_context *to, const gloo_context *from,
                              const uint32_t *ranks) {
  gli_hosts *hosts;
  if (from->hosts == NULL) return true;
  uint64_t *keys = calloc(to->size, sizeof *keys);
  if (keys == NULL) return false;
  for (uint32_t i = 0; i < to->size; i++) keys[i] = from->hosts->of[ranks[i]];
  bool made = gli_hosts_make(keys, to->size, &hosts, NULL) == GLOO_OK;
  if (made) gli_context_set_hosts(to, hosts, from->oversubscribed);
  free(keys);
  return made;
}

static bool shrink_copy_tuning(gloo_context *to, const gloo_context *from) {
  if (from->tuning == NULL) return true;
  size_t bytes =
      sizeof *from->tuning + from->tuning->n * sizeof from->tuning->rules[0];
  gli_tuning *tuning = malloc(bytes);
  if (tuning == NULL) return false;
  memcpy(tuning, from->tuning, bytes);
  gli_context_set_tuning(to, tuning);
  return true;
}

static void shrink_discard(gloo_context *context) {
  (void)gli_context_end(context);
}

/* A context of these ranks of another, of which `own` is this one, with what
 * was agreed on there. NULL: out of memory. */
static gloo_context *shrink_derive_context(const gloo_context *from,
                                           const uint32_t *ranks, uint32_t n,
                                           uint32_t own, uint64_t number) {
  gloo_context *to = gli_context_new_root(from->device, own, n,
                                          shrink_derive(from->key, number),
                                          from->asks ? from->job_key : NULL);
  if (to == NULL) return NULL;
  to->timeout_ns = from->timeout_ns;
  to->oversubscribed = from->oversubscribed;
  to->buffers_promised = from->buffers_promised;
  for (uint32_t i = 0; i < n; i++) {
    const gli_contact *contact = &from->contacts[ranks[i]];
    to->contacts[i] = *contact;
    to->contacts[i].key = shrink_derive(contact->key, number);
  }
  if (shrink_copy_hosts(to, from, ranks) && shrink_copy_tuning(to, from)) {
    gli_context_learn_locality(to);
    return to;
  }
  shrink_discard(to);
  return NULL;
}

/* ---- what the agreement asks for ----------------------------------------- */

static void shrink_send(void *user, uint32_t to, gli_member_message message) {
  gli_shrink *s = user;
  gloo_context *council = s->council;
  gloo_error error;
  if (gli_context_poisoned(council)) return;
  const gli_link *known = council->peers[to].link;
  if (known != NULL && (known->failed || known->leaving.departed)) return;
  /* It is most likely not there: no reason to connect. */
  if (known == NULL && message == GLI_MEMBER_OUT) return;
  if (known == NULL)
    s->ranks[to].dialed_ns =
        council->device->ops->now_ns(council->device->transport);
  gli_link *link = gli_context_link(council, to, &error);
  uint8_t *ranks = link != NULL ? malloc(council->size) : NULL;
  if (link == NULL || ranks == NULL) {
    if (link != NULL)
      gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
               "out of memory for a message to rank %u", to);
    gli_context_poison(council, &error);
    return;
  }
  for (uint32_t i = 0; i < council->size; i++)
    ranks[i] = s->members.ranks[i] & GLI_MEMBER_TRAVELS;
  gli_header about = {.slot = (uint32_t)message,
                      .operation = s->members.ballot};
  gli_wire_note(link, GLI_MESSAGE_MEMBERS, &about, ranks, council->size);
}

/* The ranks of the council that are in; returns how many. */
static uint32_t shrink_list(const gli_shrink *s, uint32_t *ranks,
                            uint32_t *own) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->members.n; i++) {
    if ((s->members.ranks[i] & GLI_MEMBER_IN) == 0) continue;
    if (i == s->members.self) *own = n;
    ranks[n++] = i;
  }
  return n;
}

static gloo_context *shrink_make_successor(gli_shrink *s) {
  uint32_t own = 0;
  uint32_t *ranks = calloc(s->members.n, sizeof *ranks);
  if (ranks == NULL) return NULL;
  uint32_t n = shrink_list(s, ranks, &own);
  gloo_context *context =
      shrink_derive_context(s->council, ranks, n, own, s->members.ballot);
  if (context == NULL) {
    free(ranks);
    return NULL;
  }
  context->origin = ranks;
  context->origin_key = s->origin_key;
  context->heartbeat.own_ns = s->council->heartbeat.own_ns;
  for (uint32_t i = 0; i < n; i++)
    context->contacts[i].beats = s->members.ranks[ranks[i]] & GLI_MEMBER_BEATS;
  return context;
}

static gli_successor *shrink_find(const gli_shrink *s) {
  gli_successor *at = s->successors;
  while (at != NULL && at->ballot != s->members.ballot) at = at->next;
  return at;
}

/* Other members may connect to it from now on. */
static void shrink_prepare(void *user) {
  gli_shrink *s = user;
  if (shrink_find(s) != NULL) return;
  gli_successor *made = calloc(1, sizeof *made);
  if (made != NULL) made->context = shrink_make_successor(s);
  if (made == NULL || made->context == NULL) {
    gloo_error error;
    free(made);
    gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for a context of the ranks that are left");
    gli_context_poison(s->council, &error);
    return;
  }
  made->ballot = s->members.ballot;
  made->next = s->successors;
  s->successors = made;
}

static const gli_membership_ops shrink_ops = {shrink_send, shrink_prepare};

/* After anything that happened to the agreement. */
static void shrink_settle(gli_shrink *s) {
  gloo_device *device = s->council->device;
  const gli_membership *m = &s->members;
  bool left_out = m->phase == GLI_MEMBER_LEFT_OUT;
  s->due_ns = 0; /* to be found out by its next turn */
  if (s->over) return;
  bool failed = gli_context_poisoned(s->council);
  if (!failed && !left_out && !gli_membership_decided(m)) return;
  s->over = true;
  device->completed++;
  if (!failed && !left_out) {
    gli_successor *chosen = shrink_find(s);
    s->successor = chosen->context;
    chosen->context = NULL;
  }
}

/* ---- beginning and end --------------------------------------------------- */

static gloo_context *shrink_make_council(const gloo_context *failed) {
  uint32_t *all = calloc(failed->size, sizeof *all);
  if (all == NULL) return NULL;
  for (uint32_t i = 0; i < failed->size; i++) all[i] = i;
  gloo_context *council =
      shrink_derive_context(failed, all, failed->size, failed->rank, COUNCIL);
  free(all);
  return council;
}

/* But for the one that was decided on, which is the caller's. */
static void shrink_discard_successors(gli_shrink *s) {
  while (s->successors != NULL) {
    gli_successor *at = s->successors;
    s->successors = at->next;
    if (at->context != NULL) shrink_discard(at->context);
    free(at);
  }
}

static void shrink_free(gli_shrink *s) {
  shrink_discard_successors(s);
  free(s->members.ranks);
  free(s->ranks);
  free(s);
}

/* Returns the rank that the failure names, as all know; `size` if it names
 * none. */
static uint32_t shrink_accused(const gloo_context *failed) {
  const gloo_error *cause = &failed->cause;
  bool named = cause->status == GLOO_ERR_PEER && cause->rank >= 0;
  return named ? (uint32_t)cause->rank : failed->size;
}

gli_shrink *gli_shrink_begin(gloo_context *failed, uint64_t patience_ns,
                             gloo_error *error) {
  uint32_t n = failed->size;
  gloo_device *device = failed->device;
  gli_shrink *s = calloc(1, sizeof *s);
  if (s == NULL) goto no_memory;
  s->members = (gli_membership){.self = failed->rank,
                                .n = n,
                                .ranks = calloc(n, 1),
                                .ops = &shrink_ops,
                                .user = s};
  s->ranks = calloc(n, sizeof *s->ranks);
  if (s->members.ranks == NULL || s->ranks == NULL) goto no_arrays;
  s->council = shrink_make_council(failed);
  if (s->council == NULL) goto no_arrays;
  s->council->shrink = s;
  s->council->heartbeat.own_ns = failed->heartbeat.own_ns;
  s->origin_key = failed->key;
  s->accused = shrink_accused(failed);
  s->patience_ns = patience_ns;
  s->silence_ns = failed->heartbeat.own_ns;
  if (s->silence_ns != 0) s->silence_ns = shrink_later(s->silence_ns, GRACE_NS);
  s->begun_ns = s->looked_ns = device->ops->now_ns(device->transport);
  s->members.accused =
      s->accused == failed->rank || gli_heartbeat_was_away(failed, s->begun_ns);
  if (failed->heartbeat.own_ns > 0 && device->helper.exists)
    s->members.ranks[failed->rank] = GLI_MEMBER_BEATS;
  s->next = failed->shrinks;
  failed->shrinks = s;
  failed->shrunk = true;
  gli_context_attend(failed, false);
  gli_context_attend(s->council, true);
  device->beats = true;
  gli_membership_start(&s->members);
  shrink_settle(s);
  return s;

no_arrays:
  shrink_free(s);
no_memory:
  gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
           "out of memory to agree with %u ranks on who is left", n);
  return NULL;
}

void gli_shrink_hand_over(gloo_context *from, gloo_context *to) {
  gli_shrink **at = &to->shrinks;
  while (*at != NULL) at = &(*at)->next;
  *at = from->shrinks;
  from->shrinks = NULL;
}

/* What was sent to a rank that has never been heard is dropped: it would hear,
 * when it wakes, what is true no more. */
static void shrink_be_quiet(gli_shrink *s) {
  if (s->quiet) return;
  s->quiet = true;
  for (gli_link *link = s->council->links; link != NULL; link = link->next)
    if (!s->ranks[link->rank].came) link->failed = true;
  gli_context_attend(s->council, false);
  shrink_discard_successors(s);
  gli_context_leave_links(s->council);
}

void gli_shrink_end_all(gloo_context *context) {
  while (context->shrinks != NULL) {
    gli_shrink *s = context->shrinks;
    context->shrinks = s->next;
    shrink_be_quiet(s);
    (void)gli_context_end(s->council);
    shrink_free(s);
  }
}

/* ---- what happens -------------------------------------------------------- */

/* Those of higher ranks are questions, and those of lower ones answers. */
static void shrink_answer_sign(gli_shrink *s, uint32_t from) {
  const gli_membership *m = &s->members;
  if ((m->ranks[from] & GLI_MEMBER_GONE) != 0)
    shrink_send(s, from, GLI_MEMBER_OUT);
  else if (from > m->self && m->phase < GLI_MEMBER_OVER)
    shrink_send(s, from, GLI_MEMBER_SIGN);
}

void gli_shrink_arrived(gli_link *link, const gli_header *header,
                        const uint8_t *ranks) {
  gli_shrink *s = link->context->shrink;
  gloo_device *device = s->council->device;
  s->ranks[link->rank].came = true;
  s->ranks[link->rank].sign_ns = device->ops->now_ns(device->transport);
  if (header->slot >= GLI_MEMBER_MESSAGES) return;
  if (header->slot == GLI_MEMBER_SIGN) {
    shrink_answer_sign(s, link->rank);
    return;
  }
  gli_membership_take(&s->members, link->rank, (gli_member_message)header->slot,
                      header->operation, ranks);
  shrink_settle(s);
}

static void shrink_miss(gli_shrink *s, uint32_t rank, const char *why) {
  if (gli_membership_needs(&s->members, rank))
    gli_log(GLOO_LOG_INFO, "rank %u takes rank %u for gone: %s",
            s->members.self, rank, why);
  gli_membership_gone(&s->members, rank);
}

/* A connection that ends before anything came may be one that the other side
 * gave up long ago, and that was only waiting to be looked at. Those of ranks
 * that are gone take longer to fail. */
static bool shrink_tries_again(gli_shrink *s, uint32_t rank) {
  const gloo_device *device = s->council->device;
  gli_shrink_rank *r = &s->ranks[rank];
  uint64_t now_ns = device->ops->now_ns(device->transport);
  bool dialed = r->dialed_ns != 0; /* or the other side has */
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
  shrink_settle(s);
}

/* Is this rank waited for, although it need not answer yet? */
static bool shrink_courts(const gli_shrink *s, uint32_t rank) {
  const gli_shrink_rank *r = &s->ranks[rank];
  return r->courted && !r->came &&
         (s->members.ranks[rank] & GLI_MEMBER_GONE) == 0;
}

/* What was lost with such a connection is said again. */
static void shrink_connect_again(gli_shrink *s) {
  const gli_membership *m = &s->members;
  for (uint32_t i = 0; i < m->n; i++) {
    if (!s->ranks[i].again) continue;
    s->ranks[i].again = false;
    gli_context_drop_link(s->council, i);
    if (gli_membership_needs(m, i))
      gli_membership_again(&s->members, i);
    else if (shrink_courts(s, i))
      shrink_send(s, i, GLI_MEMBER_SIGN);
  }
}

/* ---- silence ------------------------------------------------------------- */

/* Look for a sign: a message, or an answer by which it puts this rank off. */
static void shrink_look_at(gli_shrink *s, uint32_t rank, uint64_t now_ns) {
  gli_shrink_rank *r = &s->ranks[rank];
  const gli_link *link = s->council->peers[rank].link;
  if (link == NULL || link->pair == NULL || link->pair->ops->heard == NULL)
    return;
  uint64_t signs = link->pair->ops->heard(link->pair);
  if (signs != r->signs) r->sign_ns = now_ns;
  r->signs = signs;
}

/* When a rank that is waited for is taken for gone: when it is silent, and when
 * it does not come. */
static uint64_t shrink_limit(const gli_shrink *s, uint32_t rank) {
  const gli_shrink_rank *r = &s->ranks[rank];
  uint64_t silent_ns = UINT64_MAX, late_ns = UINT64_MAX;
  if (s->silence_ns != 0 && (r->came || s->council->contacts[rank].beats))
    silent_ns = shrink_later(r->asked_ns, r->sign_ns) +
                (r->came ? 1 : CONNECTING) * s->silence_ns;
  if (r->came && s->silence_ns != 0) return silent_ns;
  if (rank == s->accused && r->sign_ns == 0) return r->asked_ns + ACCUSED_NS;
  if (s->patience_ns != UINT64_MAX)
    late_ns =
        shrink_later(s->begun_ns + s->patience_ns, r->asked_ns + GRACE_NS);
  return silent_ns < late_ns ? silent_ns : late_ns;
}

/* Those that wait for this rank are to know that it is there; their answers say
 * that they are. */
static void shrink_ping(gli_shrink *s, uint64_t now_ns) {
  const gli_membership *m = &s->members;
  if (s->silence_ns == 0 || m->leader != m->self) return;
  if (now_ns < s->ping_ns) return;
  s->ping_ns = now_ns + s->silence_ns / PINGS;
  for (uint32_t i = 0; i < m->n; i++)
    if (s->ranks[i].came && (m->ranks[i] & GLI_MEMBER_GONE) == 0)
      shrink_send(s, i, GLI_MEMBER_ASK);
}

/* Ranks that would lead one after the other would be missed one after the
 * other, each after it has been tried for seconds. Returns when to look again.
 */
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
    if (i != m->leader) shrink_send(s, i, GLI_MEMBER_SIGN);
  }
  return UINT64_MAX;
}

/* Returns when to look again. */
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
      shrink_miss(s, i, "it gives no answer");
      shrink_settle(s);
      return now_ns;
    }
    if (limit_ns < due_ns) due_ns = limit_ns;
  }
  return due_ns;
}

void gli_shrink_turn(gloo_context *council, uint64_t now_ns) {
  gli_shrink *s = council->shrink;
  if (gli_context_poisoned(council)) shrink_settle(s);
  if (council->teardown_pending) return;
  if (s->members.phase >= GLI_MEMBER_OVER || gli_context_poisoned(council)) {
    shrink_be_quiet(s);
    /* A rank that was away may ask: it needs a few polls to connect. */
    s->due_ns = now_ns + shrink_later(s->silence_ns, GRACE_NS) / LOOKS;
    return;
  }
  shrink_connect_again(s);
  shrink_ping(s, now_ns);
  uint64_t due_ns = shrink_look(s, now_ns);
  uint64_t court_ns = shrink_court(s, now_ns);
  if (court_ns < due_ns) due_ns = court_ns;
  bool leads = s->members.leader == s->members.self;
  if (leads && s->silence_ns != 0 && s->ping_ns < due_ns) due_ns = s->ping_ns;
  /* While it waits it looks often enough to know that it runs. */
  if (s->silence_ns != 0 && due_ns > now_ns + s->silence_ns / PINGS)
    due_ns = now_ns + s->silence_ns / PINGS;
  s->due_ns = due_ns;
}
