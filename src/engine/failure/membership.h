/* The agreement of the surviving ranks on the members of their next context.
 *
 * Each rank follows the lowest rank that it does not consider gone, its leader.
 * The leader asks all others (ASK), and ranks that take part answer (HERE).
 * When each rank is either here or gone, the leader proposes the ranks that are
 * here (PROPOSE), and they get ready for each other (ACK); when all are ready,
 * the proposal is decided (COMMIT). The agreement ends (END) when all members
 * know the decision (DONE).
 *
 * All members decide the same although ranks, leaders too, fail at any time,
 * because:
 *
 *   - A rank that was considered gone stays gone: its messages do not count.
 *     Each message lists the ranks that its sender considers gone, and the
 *     receiver adopts them. So leaders follow one another in ascending order.
 *   - A new leader hears from every rank that is not gone before it proposes,
 *     and adopts a decision that one of them has made. A rank that has told it
 *     that it has decided nothing accepts no decision from an earlier leader
 *     any more, because that leader is gone.
 *
 * A rank that was wrongly considered gone learns so (OUT), and the others
 * continue without it. A rank that the failure names, or that was stopped for
 * so long that others miss it, is in doubt: it cannot know whether a rank that
 * does not answer has failed, or has continued without it and ended. Where
 * ranks are missing and all that remain are in doubt, all of them are left out.
 * The coordinator that changes when it fails is that of Chandra and Toueg
 * (Unreliable Failure Detectors for Reliable Distributed Systems, 1996), and
 * the agreement is like that of MPI's fault tolerance (Bland, Bouteiller,
 * Herault, Bosilca and Dongarra 2013).
 *
 * This file uses no clock, no connection and no context: see council.c.
 * tests/recovery explores all histories of four ranks. */
#ifndef GLI_ENGINE_FAILURE_MEMBERSHIP_H
#define GLI_ENGINE_FAILURE_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gli_member_message {
  GLI_MEMBER_SIGN, /* no part of the agreement, see council.c */
  GLI_MEMBER_ASK,
  GLI_MEMBER_HERE,
  GLI_MEMBER_PROPOSE,
  GLI_MEMBER_ACK,
  GLI_MEMBER_COMMIT, /* also to a leader, from a rank that
                        knows the decision */
  GLI_MEMBER_DONE,
  GLI_MEMBER_END,
  GLI_MEMBER_OUT,
  GLI_MEMBER_MESSAGES
} gli_member_message;

/* The flags of each rank, in a byte; the first four are sent to others. */
enum {
  GLI_MEMBER_GONE = 1,     /* considered gone */
  GLI_MEMBER_IN = 2,       /* a member, proposed or decided */
  GLI_MEMBER_BEATS = 4,    /* sends heartbeats (heartbeat.c) */
  GLI_MEMBER_IN_DOUBT = 8, /* the others may have missed it */
  GLI_MEMBER_TRAVELS = 15,
  /* Used only while this rank leads: */
  GLI_MEMBER_IS_HERE = 16,
  GLI_MEMBER_ACKED = 32,
  GLI_MEMBER_IS_DONE = 64
};

/*   phase     this rank
 *   GATHERING waits for a proposal, or leads and waits for the others
 *   PROPOSED  is ready for the proposed members
 *   DECIDED   knows the final members; others may not know yet
 *   OVER      knows that all members know them
 *   LEFT_OUT  is considered gone by others, and no longer takes part */
typedef enum gli_member_phase {
  GLI_MEMBER_GATHERING,
  GLI_MEMBER_PROPOSED,
  GLI_MEMBER_DECIDED,
  GLI_MEMBER_OVER,
  GLI_MEMBER_LEFT_OUT
} gli_member_phase;

typedef struct gli_membership gli_membership;

typedef struct gli_membership_ops {
  /* Sends a message, with the current ballot and ranks, in order. A message
   * that cannot be sent is dropped. */
  void (*send)(void *user, uint32_t to, gli_member_message message);
  /* Prepares for the members of this ballot, until the ballot ends. May be
   * called twice. */
  void (*prepare)(void *user);
} gli_membership_ops;

struct gli_membership {
  uint32_t self, n;
  uint32_t leader; /* n if none yet */
  uint32_t round;  /* number of proposals of this rank */
  gli_member_phase phase;
  uint64_t ballot; /* leader and round of the proposal or decision */
  uint8_t *ranks;  /* [n] */
  const gli_membership_ops *ops;
  void *user;
};

/* Takes part. `ranks`, which the caller owns, is n zeros except for its own
 * BEATS and IN_DOUBT. */
void gli_membership_start(gli_membership *m);
/* Marks a rank as gone. */
void gli_membership_gone(gli_membership *m, uint32_t rank);
/* Repeats the last message to an awaited rank, because it was lost. */
void gli_membership_again(gli_membership *m, uint32_t rank);
/* Takes a message. `ranks` is [n]; no part of the message is trusted. */
void gli_membership_take(gli_membership *m, uint32_t from,
                         gli_member_message message, uint64_t ballot,
                         const uint8_t *ranks);

static inline bool gli_membership_decided(const gli_membership *m) {
  return m->phase == GLI_MEMBER_DECIDED || m->phase == GLI_MEMBER_OVER;
}
/* Returns true if this rank cannot continue without an answer from `rank`. */
bool gli_membership_needs(const gli_membership *m, uint32_t rank);

#endif
