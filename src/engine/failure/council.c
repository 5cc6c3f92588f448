#include "engine/failure/council.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "engine/contexts/contexts.h"
#include "engine/failure/failure.h"
#include "engine/state/device.h"
#include "engine/state/fail.h"
#include "engine/wire/wire.h"

/* Derives a key from a key and a number. It is as hard to guess as the key,
 * because the mapping is one to one (the finalizer of SplitMix64; Steele, Lea
 * and Flood 2014). */
static uint64_t shrink_derive(uint64_t key, uint64_t number) {
  uint64_t z = key + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* The number from which the keys of a council are derived. Ballots are above
 * it, because rounds count from 1. */
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

/* Creates a context of some ranks of another, with its settings; `own` is this
 * rank. NULL if out of memory. */
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

/* ---- callbacks of the agreement ------------------------------------------ */

void gli_shrink_send(void *user, uint32_t to, gli_member_message message) {
  gli_shrink *s = user;
  gloo_context *council = s->council;
  gloo_error error;
  if (gli_context_poisoned(council)) return;
  const gli_link *known = council->peers[to].link;
  if (known != NULL && (known->failed || known->leaving.departed)) return;
  /* A rank without a connection is most likely gone: no reason to connect. */
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

/* Lists the ranks of the council that are members, and returns their number. */
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

/* Creates the successor of a ballot. Other members may connect to it from now
 * on. */
static void shrink_prepare(void *user) {
  gli_shrink *s = user;
  if (shrink_find(s) != NULL) return;
  gli_successor *made = calloc(1, sizeof *made);
  if (made != NULL) made->context = shrink_make_successor(s);
  if (made == NULL || made->context == NULL) {
    gloo_error error;
    free(made);
    gli_fail(&error, GLOO_ERR_NO_MEMORY, -1,
             "out of memory for a context of the surviving ranks");
    gli_context_poison(s->council, &error);
    return;
  }
  made->ballot = s->members.ballot;
  made->next = s->successors;
  s->successors = made;
}

static const gli_membership_ops shrink_ops = {gli_shrink_send, shrink_prepare};

void gli_shrink_settle(gli_shrink *s) {
  gloo_device *device = s->council->device;
  const gli_membership *m = &s->members;
  bool left_out = m->phase == GLI_MEMBER_LEFT_OUT;
  s->due_ns = 0; /* its next turn computes it */
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

/* Discards all successors except the decided one, which belongs to the caller.
 */
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

void gli_shrink_be_quiet(gli_shrink *s) {
  if (s->quiet) return;
  s->quiet = true;
  for (gli_link *link = s->council->links; link != NULL; link = link->next)
    if (!s->ranks[link->rank].came) link->failed = true;
  gli_context_attend(s->council, false);
  shrink_discard_successors(s);
  gli_context_leave_links(s->council);
}

static void shrink_end_all(gloo_context *context) {
  while (context->shrinks != NULL) {
    gli_shrink *s = context->shrinks;
    context->shrinks = s->next;
    gli_shrink_be_quiet(s);
    (void)gli_context_end(s->council);
    shrink_free(s);
  }
}

/* Returns the rank that the failure names, which all ranks know; `size` if it
 * names none. */
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
  if (s->silence_ns != 0 && s->silence_ns < GLI_SHRINK_GRACE_NS)
    s->silence_ns = GLI_SHRINK_GRACE_NS;
  s->begun_ns = s->looked_ns = device->ops->now_ns(device->transport);
  bool in_doubt =
      s->accused == failed->rank || gli_heartbeat_was_away(failed, s->begun_ns);
  bool beats = failed->heartbeat.own_ns > 0 && device->helper.exists;
  s->members.ranks[failed->rank] =
      (beats ? GLI_MEMBER_BEATS : 0) | (in_doubt ? GLI_MEMBER_IN_DOUBT : 0);
  s->next = failed->shrinks;
  failed->shrinks = s;
  failed->end_shrinks = shrink_end_all;
  failed->shrunk = true;
  gli_context_attend(failed, false);
  gli_context_attend(s->council, true);
  device->beats = true;
  gli_membership_start(&s->members);
  gli_shrink_settle(s);
  return s;

no_arrays:
  shrink_free(s);
no_memory:
  gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
           "out of memory for the agreement of %u ranks on the survivors", n);
  return NULL;
}

void gli_shrink_hand_over(gloo_context *from, gloo_context *to) {
  gli_shrink **at = &to->shrinks;
  while (*at != NULL) at = &(*at)->next;
  *at = from->shrinks;
  from->shrinks = NULL;
  to->end_shrinks = shrink_end_all;
}

/* ---- events -------------------------------------------------------------- */

/* Answers a SIGN. From a higher rank it is a question, and from a lower rank an
 * answer. */
static void shrink_answer_sign(gli_shrink *s, uint32_t from) {
  const gli_membership *m = &s->members;
  if ((m->ranks[from] & GLI_MEMBER_GONE) != 0)
    gli_shrink_send(s, from, GLI_MEMBER_OUT);
  else if (from > m->self && m->phase < GLI_MEMBER_OVER)
    gli_shrink_send(s, from, GLI_MEMBER_SIGN);
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
  gli_shrink_settle(s);
}
