/* A transport whose peers are the input. Its virtual clock advances when the
 * engine polls, sleeps or waits, so no real time passes. */
#ifndef TESTS_FUZZ_NOWHERE_H
#define TESTS_FUZZ_NOWHERE_H

#include "fuzz.h"
#include "gloo_c/context.h"
#include "transport/transport.h"

enum {
  NOWHERE_RANKS = 4,
  NOWHERE_SAID = 8,         /* headers kept for each pair */
  NOWHERE_BYTES = 256 << 10 /* payload, and memory that rkeys refer to */
};

typedef struct nowhere_pair {
  gli_pair base;
  void *user;
  bool open, stopped;
  gli_header said[NOWHERE_SAID]; /* last headers sent, indexed by `n_said` */
  unsigned n_said;
} nowhere_pair;

typedef struct nowhere_end {
  gli_transport base;
  const gli_upcalls *upcalls;
  void *device_user;
  uint32_t owed;
  uint64_t now_ns;
  bool reaches; /* pairs can be opened */
  bool lends;   /* memory can be exposed */
  bool keeps;   /* requests stay in progress until the next poll */
  nowhere_pair pairs[NOWHERE_RANKS]; /* by rank */
  gli_send_request *kept[64];
  nowhere_pair *kept_by[64];
  size_t n_kept;
  gli_shared_copy copies[2][GLI_SHARED_COPIES];
  /* Called by the next poll to deliver a message; NULL: nothing. */
  void (*next)(void *user);
  void *next_user;
  uint8_t memory[NOWHERE_BYTES]; /* with any content */
} nowhere_end;

extern nowhere_end nowhere;

/* Opens a device for one input. */
gloo_device *nowhere_open(void);
void nowhere_close(gloo_device *device);

/* Delivers a message from that pair; only within `next`. If `bytes` is less
 * than its length, the rest never comes. */
void nowhere_hand_up(nowhere_pair *pair, const gli_header *header,
                     const uint8_t *payload, size_t bytes);
void nowhere_fail(nowhere_pair *pair, gloo_status status, int rank);

#endif
