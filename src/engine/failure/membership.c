#include "engine/failure/membership.h"

static bool member_has(const gli_membership *m, uint32_t rank, unsigned flag) {
  return (m->ranks[rank] & flag) != 0;
}

static void member_set(gli_membership *m, uint32_t rank, unsigned flag) {
  m->ranks[rank] = (uint8_t)(m->ranks[rank] | flag);
}

static void members_clear(gli_membership *m, unsigned flags) {
  for (uint32_t i = 0; i < m->n; i++)
    m->ranks[i] = (uint8_t)(m->ranks[i] & ~flags);
}

static bool member_leads(const gli_membership *m) {
  return m->leader == m->self;
}

/* Sends a message to all other ranks that are not gone and have `with` and not
 * `without`. */
static void members_send(gli_membership *m, gli_member_message message,
                         unsigned with, unsigned without) {
  for (uint32_t i = 0; i < m->n; i++) {
    if (i == m->self || (m->ranks[i] & with) != with) continue;
    if ((m->ranks[i] & (without | GLI_MEMBER_GONE)) != 0) continue;
    m->ops->send(m->user, i, message);
  }
}

/* Returns true if every rank that is not gone, and has `of`, has `flag` as
 * well. */
static bool members_all(const gli_membership *m, unsigned of, unsigned flag) {
  for (uint32_t i = 0; i < m->n; i++) {
    if (member_has(m, i, GLI_MEMBER_GONE)) continue;
    if ((m->ranks[i] & of) == of && !member_has(m, i, flag)) return false;
  }
  return true;
}

/* ---- leader -------------------------------------------------------------- */

/* Ends the agreement: all members know the decision. */
static void member_end(gli_membership *m) {
  if (member_leads(m)) members_send(m, GLI_MEMBER_END, GLI_MEMBER_IN, 0);
  m->phase = GLI_MEMBER_OVER;
}

static void member_check_done(gli_membership *m) {
  if (members_all(m, GLI_MEMBER_IN, GLI_MEMBER_IS_DONE)) member_end(m);
}

/* Publishes the decision, also to ranks that are considered gone. */
static void member_announce(gli_membership *m) {
  for (uint32_t i = 0; i < m->n; i++)
    if (member_has(m, i, GLI_MEMBER_GONE))
      m->ops->send(m->user, i, GLI_MEMBER_OUT);
  member_set(m, m->self, GLI_MEMBER_IS_DONE);
  members_send(m, GLI_MEMBER_COMMIT, 0, GLI_MEMBER_IS_DONE);
  member_check_done(m);
}

static void member_check_acked(gli_membership *m) {
  if (!members_all(m, GLI_MEMBER_IN, GLI_MEMBER_ACKED)) return;
  m->phase = GLI_MEMBER_DECIDED;
  member_announce(m);
}

/* Returns true if the missing ranks may have continued without the remaining
 * ones. */
static bool members_may_be_stale(const gli_membership *m) {
  bool missing = false;
  for (uint32_t i = 0; i < m->n; i++)
    missing = missing || member_has(m, i, GLI_MEMBER_GONE);
  return missing && members_all(m, 0, GLI_MEMBER_IN_DOUBT);
}

static void member_propose(gli_membership *m) {
  if (members_may_be_stale(m)) {
    members_send(m, GLI_MEMBER_OUT, 0, 0);
    m->phase = GLI_MEMBER_LEFT_OUT;
    return;
  }
  m->ballot = (uint64_t)m->self << 32 | ++m->round;
  m->phase = GLI_MEMBER_PROPOSED;
  members_clear(m, GLI_MEMBER_IN | GLI_MEMBER_ACKED);
  for (uint32_t i = 0; i < m->n; i++)
    if (!member_has(m, i, GLI_MEMBER_GONE)) member_set(m, i, GLI_MEMBER_IN);
  m->ops->prepare(m->user);
  member_set(m, m->self, GLI_MEMBER_ACKED);
  members_send(m, GLI_MEMBER_PROPOSE, GLI_MEMBER_IN, 0);
  member_check_acked(m);
}

/* Advances the agreement of a leader after a change. A missing member makes it
 * propose anew. */
static void member_get_on(gli_membership *m, bool fewer) {
  if (m->phase == GLI_MEMBER_DECIDED) {
    member_check_done(m);
  } else if (m->phase == GLI_MEMBER_PROPOSED && !fewer) {
    member_check_acked(m);
  } else if (m->phase <= GLI_MEMBER_PROPOSED &&
             members_all(m, 0, GLI_MEMBER_IS_HERE)) {
    member_propose(m);
  }
}

/* ---- followers ----------------------------------------------------------- */

static void member_report(gli_membership *m) {
  m->ops->send(m->user, m->leader,
               gli_membership_decided(m) ? GLI_MEMBER_COMMIT : GLI_MEMBER_HERE);
}

void gli_membership_again(gli_membership *m, uint32_t rank) {
  if (!member_leads(m))
    member_report(m);
  else if (gli_membership_decided(m))
    m->ops->send(m->user, rank, GLI_MEMBER_COMMIT);
  else
    m->ops->send(m->user, rank, GLI_MEMBER_ASK);
}

/* Follows the lowest rank that is not gone. This rank itself is not gone. */
static void member_follow(gli_membership *m) {
  uint32_t leader = 0;
  while (member_has(m, leader, GLI_MEMBER_GONE)) leader++;
  if (leader == m->leader) return;
  m->leader = leader;
  members_clear(m, GLI_MEMBER_IS_HERE | GLI_MEMBER_ACKED | GLI_MEMBER_IS_DONE);
  if (m->phase == GLI_MEMBER_PROPOSED) m->phase = GLI_MEMBER_GATHERING;
  if (m->phase == GLI_MEMBER_OVER) return;
  if (!member_leads(m)) {
    member_report(m);
    return;
  }
  member_set(m, m->self, GLI_MEMBER_IS_HERE);
  if (gli_membership_decided(m)) {
    member_announce(m);
  } else {
    members_send(m, GLI_MEMBER_ASK, 0, 0);
    member_get_on(m, false);
  }
}

void gli_membership_start(gli_membership *m) {
  m->leader = m->n;
  m->phase = GLI_MEMBER_GATHERING;
  member_follow(m);
}

/* Adopts the gone ranks of a message. Returns false if this rank is among
 * them and no longer takes part. */
static bool members_lose(gli_membership *m, const uint8_t *ranks) {
  bool fewer = false;
  for (uint32_t i = 0; i < m->n; i++) {
    if ((ranks[i] & GLI_MEMBER_GONE) == 0 || member_has(m, i, GLI_MEMBER_GONE))
      continue;
    if (i == m->self) {
      m->phase = GLI_MEMBER_LEFT_OUT;
      return false;
    }
    member_set(m, i, GLI_MEMBER_GONE);
    fewer = true;
  }
  if (!fewer) return true;
  uint32_t leader = m->leader;
  member_follow(m);
  if (member_leads(m) && leader == m->leader) member_get_on(m, true);
  return true;
}

void gli_membership_gone(gli_membership *m, uint32_t rank) {
  if (m->phase == GLI_MEMBER_LEFT_OUT || rank == m->self ||
      member_has(m, rank, GLI_MEMBER_GONE))
    return;
  member_set(m, rank, GLI_MEMBER_GONE);
  uint32_t leader = m->leader;
  member_follow(m);
  if (member_leads(m) && leader == m->leader) member_get_on(m, true);
}

/* ---- messages ------------------------------------------------------------ */

/* Adopts the members of a proposal or of a decision. Returns false if this rank
 * is not among them. */
static bool members_adopt(gli_membership *m, uint64_t ballot,
                          const uint8_t *ranks) {
  const unsigned told = GLI_MEMBER_IN | GLI_MEMBER_BEATS;
  if ((ranks[m->self] & GLI_MEMBER_IN) == 0) {
    m->phase = GLI_MEMBER_LEFT_OUT;
    return false;
  }
  m->ballot = ballot;
  members_clear(m, told);
  for (uint32_t i = 0; i < m->n; i++) member_set(m, i, ranks[i] & told);
  m->ops->prepare(m->user);
  return true;
}

static void member_is_here(gli_membership *m, uint32_t from, unsigned flags) {
  const unsigned told = GLI_MEMBER_BEATS | GLI_MEMBER_IN_DOUBT;
  member_set(m, from, (flags & told) | GLI_MEMBER_IS_HERE);
  if (m->phase == GLI_MEMBER_DECIDED)
    m->ops->send(m->user, from, GLI_MEMBER_COMMIT);
  else if (m->phase == GLI_MEMBER_GATHERING)
    member_get_on(m, false);
}

static void member_proposed(gli_membership *m, uint64_t ballot,
                            const uint8_t *ranks) {
  /* A leader proposes anew for each missing rank at most. */
  if (ballot >> 32 != m->leader || (uint32_t)ballot > m->n) return;
  if (gli_membership_decided(m)) {
    member_report(m);
  } else if (members_adopt(m, ballot, ranks)) {
    m->phase = GLI_MEMBER_PROPOSED;
    m->ops->send(m->user, m->leader, GLI_MEMBER_ACK);
  }
}

static void member_committed(gli_membership *m, uint32_t from, uint64_t ballot,
                             const uint8_t *ranks) {
  bool leads = member_leads(m);
  bool knew = gli_membership_decided(m);
  if (!leads && from != m->leader) return;
  if (!knew && !members_adopt(m, ballot, ranks)) return;
  if (m->ballot != ballot) return;
  if (!knew) m->phase = GLI_MEMBER_DECIDED;
  if (leads) member_set(m, from, GLI_MEMBER_IS_DONE);
  if (leads && !knew)
    member_announce(m);
  else if (leads)
    member_check_done(m);
  else
    m->ops->send(m->user, from, GLI_MEMBER_DONE);
}

/* Answers a late rank, after all members know the decision. */
static void member_answer_late(gli_membership *m, uint32_t from,
                               gli_member_message message) {
  bool in = member_has(m, from, GLI_MEMBER_IN);
  if (message == GLI_MEMBER_COMMIT || message == GLI_MEMBER_HERE)
    m->ops->send(m->user, from, in ? GLI_MEMBER_END : GLI_MEMBER_COMMIT);
}

void gli_membership_take(gli_membership *m, uint32_t from,
                         gli_member_message message, uint64_t ballot,
                         const uint8_t *ranks) {
  if (m->phase == GLI_MEMBER_LEFT_OUT) return;
  if (member_has(m, from, GLI_MEMBER_GONE)) {
    if (message != GLI_MEMBER_OUT) m->ops->send(m->user, from, GLI_MEMBER_OUT);
    return;
  }
  if (message == GLI_MEMBER_OUT) {
    m->phase = GLI_MEMBER_LEFT_OUT;
    return;
  }
  if (m->phase == GLI_MEMBER_OVER) {
    member_answer_late(m, from, message);
    return;
  }
  if (!members_lose(m, ranks)) return;
  bool leads = member_leads(m), led = from == m->leader;
  switch (message) {
    case GLI_MEMBER_ASK:
      if (led) member_report(m);
      return;
    case GLI_MEMBER_HERE:
      if (leads) member_is_here(m, from, ranks[from]);
      return;
    case GLI_MEMBER_PROPOSE:
      if (led) member_proposed(m, ballot, ranks);
      return;
    case GLI_MEMBER_ACK:
      if (!leads || m->phase != GLI_MEMBER_PROPOSED || ballot != m->ballot)
        return;
      member_set(m, from, GLI_MEMBER_ACKED);
      member_get_on(m, false);
      return;
    case GLI_MEMBER_COMMIT:
      member_committed(m, from, ballot, ranks);
      return;
    case GLI_MEMBER_DONE:
      if (!leads || m->phase != GLI_MEMBER_DECIDED || ballot != m->ballot)
        return;
      member_set(m, from, GLI_MEMBER_IS_DONE);
      member_check_done(m);
      return;
    case GLI_MEMBER_END: /* true from any sender */
      if (m->phase == GLI_MEMBER_DECIDED && ballot == m->ballot) member_end(m);
      return;
    case GLI_MEMBER_SIGN:
    case GLI_MEMBER_OUT:
    case GLI_MEMBER_MESSAGES:
      break;
  }
}

bool gli_membership_needs(const gli_membership *m, uint32_t rank) {
  if (rank == m->self || member_has(m, rank, GLI_MEMBER_GONE)) return false;
  if (!member_leads(m)) return rank == m->leader && m->phase < GLI_MEMBER_OVER;
  switch (m->phase) {
    case GLI_MEMBER_GATHERING:
      return !member_has(m, rank, GLI_MEMBER_IS_HERE);
    case GLI_MEMBER_PROPOSED:
      return !member_has(m, rank, GLI_MEMBER_ACKED);
    case GLI_MEMBER_DECIDED:
      return member_has(m, rank, GLI_MEMBER_IN) &&
             !member_has(m, rank, GLI_MEMBER_IS_DONE);
    case GLI_MEMBER_OVER:
    case GLI_MEMBER_LEFT_OUT:
      break;
  }
  return false;
}
