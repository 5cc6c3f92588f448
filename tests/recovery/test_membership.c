/* Exhaustive exploration of the membership agreement after failures: every
 * order in which messages arrive, ranks enter the agreement, die (at any
 * moment, with their sent messages delivered or lost), and are wrongly
 * suspected. It runs the library's own code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/failure/membership.h"

enum { RANKS_MAX = 4, QUEUED_MAX = 8 };

typedef struct message {
  uint8_t kind, leader, round;
  uint8_t ranks[RANKS_MAX];
} message;

typedef struct queue {
  uint8_t n;
  message messages[QUEUED_MAX];
} queue;

typedef struct rank_state {
  uint8_t leader, round, phase, ballot_leader, ballot_round;
  uint8_t started, dead, accused;
  uint8_t decided; /* has ever decided; the decision follows */
  uint8_t decided_leader, decided_round, decided_in;
  uint8_t ranks[RANKS_MAX];
} rank_state;

/* The state of all ranks, without padding: states are compared byte by byte. */
typedef struct world {
  rank_state ranks[RANKS_MAX];
  queue queues[RANKS_MAX][RANKS_MAX]; /* from, to */
  uint8_t cut[RANKS_MAX][RANKS_MAX];  /* messages are no longer delivered */
  uint8_t deaths, doubts;             /* numbers that may still happen */
} world;

typedef struct run {
  uint32_t n;
  world *w; /* where the running state machine is stored */
  uint32_t self;
} run;

static uint32_t n_ranks;
static unsigned may_doubt;

/* Steps that lead to the current state, printed when a check fails. */
enum { DEPTH_MAX = 512 };
static const char *path[DEPTH_MAX];
static uint8_t path_ranks[DEPTH_MAX][2];
static size_t depth;

static void print_path(void) {
  for (size_t i = 0; i < depth; i++)
    print_message("  %s %u %u\n", path[i], path_ranks[i][0], path_ranks[i][1]);
}

#define HOLDS(what)                       \
  do {                                    \
    if (what) break;                      \
    print_path();                         \
    fail_msg("does not hold: %s", #what); \
  } while (0)

/* ---- one step of one rank ------------------------------------------------ */

static void model_send(void *user, uint32_t to, gli_member_message kind);
static void model_prepare(void *user) {
  (void)user;
}
static const gli_membership_ops model_ops = {model_send, model_prepare};

typedef struct actor {
  gli_membership m;
  world *w;
} actor;

static void model_send(void *user, uint32_t to, gli_member_message kind) {
  actor *a = user;
  uint32_t from = a->m.self;
  queue *q = &a->w->queues[from][to];
  if (a->w->cut[from][to] || a->w->ranks[to].dead) return;
  HOLDS(q->n <= QUEUED_MAX - 1);
  message *sent = &q->messages[q->n++];
  sent->kind = (uint8_t)kind;
  sent->leader = (uint8_t)(a->m.ballot >> 32);
  sent->round = (uint8_t)a->m.ballot;
  for (uint32_t i = 0; i < n_ranks && i < RANKS_MAX; i++)
    sent->ranks[i] = a->m.ranks[i] & GLI_MEMBER_TRAVELS;
}

static void actor_load(actor *a, world *w, uint32_t self) {
  rank_state *s = &w->ranks[self];
  a->w = w;
  a->m = (gli_membership){
      .self = self,
      .n = n_ranks,
      .leader = s->leader,
      .round = s->round,
      .phase = (gli_member_phase)s->phase,
      .ballot = (uint64_t)s->ballot_leader << 32 | s->ballot_round,
      .ranks = s->ranks,
      .ops = &model_ops,
      .user = a};
}

static void check_agreement(const world *w, uint32_t self) {
  const rank_state *me = &w->ranks[self];
  for (uint32_t i = 0; i < n_ranks; i++) {
    const rank_state *other = &w->ranks[i];
    if (!other->decided || i == self) continue;
    bool together =
        (me->decided_in >> i & 1) && (other->decided_in >> self & 1);
    bool alive = !me->dead && !other->dead;
    if (!together && !(alive && !may_doubt)) continue;
    HOLDS(me->decided_in == other->decided_in);
    HOLDS(me->decided_leader == other->decided_leader);
    HOLDS(me->decided_round == other->decided_round);
  }
}

static bool all_are_accused(const world *w, uint8_t of) {
  for (uint32_t i = 0; i < n_ranks; i++)
    if ((of >> i & 1) && !w->ranks[i].accused) return false;
  return true;
}

static void check_decision(world *w, uint32_t self) {
  rank_state *s = &w->ranks[self];
  uint8_t in = 0;
  for (uint32_t i = 0; i < n_ranks; i++) {
    if ((s->ranks[i] & GLI_MEMBER_IN) == 0) continue;
    in = (uint8_t)(in | 1u << i);
    HOLDS(w->ranks[i].started);
  }
  HOLDS(in >> self & 1);
  HOLDS(in == (1u << n_ranks) - 1 || !all_are_accused(w, in));
  if (s->decided) { /* a decision never changes */
    HOLDS(s->decided_in == in);
    HOLDS(s->decided_leader == s->ballot_leader);
    HOLDS(s->decided_round == s->ballot_round);
    return;
  }
  s->decided = 1;
  s->decided_in = in;
  s->decided_leader = s->ballot_leader;
  s->decided_round = s->ballot_round;
  check_agreement(w, self);
}

static void actor_store(const actor *a) {
  rank_state *s = &a->w->ranks[a->m.self];
  s->leader = (uint8_t)a->m.leader;
  s->round = (uint8_t)a->m.round;
  s->phase = (uint8_t)a->m.phase;
  s->ballot_leader = (uint8_t)(a->m.ballot >> 32);
  s->ballot_round = (uint8_t)a->m.ballot;
  HOLDS(s->round != UINT8_MAX);
  if (gli_membership_decided(&a->m)) check_decision(a->w, a->m.self);
  if (!may_doubt && !s->accused) HOLDS(s->phase != GLI_MEMBER_LEFT_OUT);
}

/* ---- what can happen ----------------------------------------------------- */

static void queue_shift(queue *q) {
  q->n--;
  memmove(q->messages, q->messages + 1, q->n * sizeof q->messages[0]);
  memset(&q->messages[q->n], 0, sizeof q->messages[0]);
}

static void deliver(world *w, uint32_t from, uint32_t to) {
  queue *q = &w->queues[from][to];
  message m = q->messages[0];
  queue_shift(q);
  actor a;
  actor_load(&a, w, to);
  gli_membership_take(&a.m, from, (gli_member_message)m.kind,
                      (uint64_t)m.leader << 32 | m.round, m.ranks);
  actor_store(&a);
}

static void begin(world *w, uint32_t self) {
  actor a;
  w->ranks[self].started = 1;
  actor_load(&a, w, self);
  gli_membership_start(&a.m);
  actor_store(&a);
}

static void lose(world *w, uint32_t self, uint32_t other) {
  actor a;
  memset(&w->queues[other][self], 0, sizeof w->queues[other][self]);
  w->cut[other][self] = w->cut[self][other] = 1;
  actor_load(&a, w, self);
  gli_membership_gone(&a.m, other);
  actor_store(&a);
}

static void die(world *w, uint32_t self) {
  w->deaths--;
  rank_state *s = &w->ranks[self];
  s->dead = 1;
  for (uint32_t i = 0; i < n_ranks; i++)
    memset(&w->queues[i][self], 0, sizeof w->queues[i][self]);
}

static void doubt(world *w, uint32_t self, uint32_t other, bool breaks) {
  actor a;
  w->doubts--;
  if (breaks) {
    lose(w, self, other);
    return;
  }
  actor_load(&a, w, self);
  gli_membership_gone(&a.m, other);
  actor_store(&a);
}

/* Returns true if the rank is dead or left out, and so has closed its
 * connections. */
static bool is_away(const world *w, uint32_t rank) {
  return w->ranks[rank].dead || w->ranks[rank].phase == GLI_MEMBER_LEFT_OUT;
}

static bool takes_for_gone(const world *w, uint32_t self, uint32_t other) {
  return (w->ranks[self].ranks[other] & GLI_MEMBER_GONE) != 0;
}

/* ---- all orders ---------------------------------------------------------- */

static uint64_t *seen; /* fingerprints; 0: an empty slot */
static unsigned seen_bits;
static size_t seen_slots;
static size_t n_seen, n_ends;

static uint64_t fingerprint(const world *w) {
  const uint8_t *bytes = (const uint8_t *)w;
  uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
  for (size_t i = 0; i < sizeof *w; i += 8) {
    uint64_t word = 0;
    memcpy(&word, bytes + i, sizeof *w - i < 8 ? sizeof *w - i : 8);
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 29;
  }
  return hash != 0 ? hash : 1;
}

/* Records a state. Returns false if it was seen before. */
static bool note_seen(const world *w) {
  uint64_t print = fingerprint(w);
  size_t at = (size_t)(print >> (64 - seen_bits));
  while (seen[at] != 0 && seen[at] != print) at = (at + 1) % seen_slots;
  if (seen[at] == print) return false;
  seen[at] = print;
  n_seen++;
  HOLDS(n_seen <= seen_slots / 10 * 9);
  return true;
}

/* Checks a final state, in which no step is possible: every living rank has
 * finished. */
static void check_end(const world *w) {
  n_ends++;
  for (uint32_t i = 0; i < n_ranks; i++) {
    const rank_state *s = &w->ranks[i];
    if (s->dead || s->phase == GLI_MEMBER_LEFT_OUT) continue;
    if (may_doubt)
      HOLDS(s->decided);
    else
      HOLDS(s->phase == GLI_MEMBER_OVER);
  }
}

static void explore(const world *w);

#define HAPPENS(what, one, other)            \
  do {                                       \
    world next = *w;                         \
    path[depth] = #what;                     \
    path_ranks[depth][0] = (uint8_t)(one);   \
    path_ranks[depth][1] = (uint8_t)(other); \
    depth++;                                 \
    what;                                    \
    explore(&next);                          \
    depth--;                                 \
  } while (0)

static void explore_misfortunes(const world *w, uint32_t i) {
  const rank_state *s = &w->ranks[i];
  if (w->deaths > 0) HAPPENS(die(&next, i), i, i);
  if (w->doubts == 0 || !s->started) return;
  for (uint32_t k = 0; k < n_ranks; k++) {
    if (k == i || w->ranks[k].dead || takes_for_gone(w, i, k)) continue;
    HAPPENS(doubt(&next, i, k, true), i, k);
    HAPPENS(doubt(&next, i, k, false), i, k);
  }
}

static void explore(const world *w) {
  if (!note_seen(w)) return;
  bool quiet = true;
  for (uint32_t i = 0; i < n_ranks; i++) {
    const rank_state *s = &w->ranks[i];
    if (s->dead) continue;
    if (!s->started) {
      quiet = false;
      HAPPENS(begin(&next, i), i, i);
    }
    for (uint32_t k = 0; k < n_ranks && s->started; k++) {
      if (w->queues[k][i].n > 0) {
        quiet = false;
        HAPPENS(deliver(&next, k, i), k, i);
      }
      bool broken = is_away(w, k) || w->cut[k][i];
      if (k != i && broken && !takes_for_gone(w, i, k) &&
          s->phase < GLI_MEMBER_OVER) {
        quiet = false;
        HAPPENS(lose(&next, i, k), i, k);
      }
    }
    explore_misfortunes(w, i);
  }
  if (quiet) check_end(w);
}

/* Explores all orders. `accused` has a bit for each rank that others may have
 * missed. */
static void explore_accused(uint32_t n, unsigned deaths, unsigned doubts,
                            unsigned accused) {
  world w;
  memset(&w, 0, sizeof w);
  for (uint32_t i = 0; i < n; i++) {
    if (!(accused >> i & 1)) continue;
    w.ranks[i].accused = 1;
    w.ranks[i].ranks[i] = GLI_MEMBER_IN_DOUBT;
  }
  n_ranks = n;
  may_doubt = doubts;
  w.deaths = (uint8_t)deaths;
  w.doubts = (uint8_t)doubts;
  n_seen = n_ends = 0;
  memset(seen, 0, seen_slots * sizeof *seen);
  explore(&w);
  print_message("# %u ranks, %u deaths, %u doubts: %zu states, %zu ends\n", n,
                deaths, doubts, n_seen, n_ends);
}

static void explore_all(uint32_t n, unsigned deaths, unsigned doubts) {
  explore_accused(n, deaths, doubts, 0);
}

static void ranks_that_were_missed_do_not_go_on_without_others(void **state) {
  (void)state;
  for (unsigned accused = 1; accused < 8; accused++) {
    explore_accused(3, 2, 0, accused);
    explore_accused(3, 1, 1, accused);
  }
}

static void all_that_are_left_decide_the_same(void **state) {
  (void)state;
  explore_all(2, 1, 0);
  explore_all(3, 2, 0);
  explore_all(4, 3, 0);
}

static void members_decide_the_same_when_some_doubt_others(void **state) {
  (void)state;
  explore_all(2, 1, 1);
  explore_all(3, 1, 1);
  explore_all(3, 0, 2);
  explore_all(4, 0, 1);
}

static void four_ranks_of_which_one_dies_and_one_is_doubted(void **state) {
  (void)state;
  explore_all(4, 1, 1);
}

static int take_memory(unsigned bits) {
  seen_bits = bits;
  seen_slots = (size_t)1 << bits;
  seen = calloc(seen_slots, sizeof *seen);
  return seen == NULL ? 77 : 0;
}

/* The argument "deep" explores cases that take minutes and a gigabyte of
 * memory. */
int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "deep") == 0) {
    if (take_memory(27) != 0) return 77;
    const struct CMUnitTest deep[] = {
        cmocka_unit_test(four_ranks_of_which_one_dies_and_one_is_doubted),
    };
    return cmocka_run_group_tests(deep, NULL, NULL);
  }
  if (take_memory(23) != 0) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_that_are_left_decide_the_same),
      cmocka_unit_test(members_decide_the_same_when_some_doubt_others),
      cmocka_unit_test(ranks_that_were_missed_do_not_go_on_without_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
