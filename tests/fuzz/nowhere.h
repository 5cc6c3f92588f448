/* A transport whose peers are the input. It has a clock of its own, which moves
 * when somebody looks, sleeps or waits: no time passes. */
#ifndef TESTS_FUZZ_NOWHERE_H
#define TESTS_FUZZ_NOWHERE_H

#include "fuzz.h"
#include "gloo_c/context.h"
#include "transport/transport.h"

enum {
  NOWHERE_RANKS = 4,
  NOWHERE_SAID = 8,         /* headers that are remembered of each pair */
  NOWHERE_BYTES = 256 << 10 /* of payload, and of memory that rkeys name */
};

typedef struct nowhere_pair {
  gli_pair base;
  void *user;
  bool open, stopped;
  gli_header said[NOWHERE_SAID]; /* what was sent last, by `n_said` */
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
  /* What the next poll is to hand up; NULL: nothing. */
  void (*next)(void *user);
  void *next_user;
  uint8_t memory[NOWHERE_BYTES]; /* what it holds does not matter */
} nowhere_end;

extern nowhere_end nowhere;

/* For one input. */
gloo_device *nowhere_open(void);
void nowhere_close(gloo_device *device);

/* Within `next`. A message of that pair, with the first bytes of its payload;
 * fewer than its length: the rest never comes. */
void nowhere_hand_up(nowhere_pair *pair, const gli_header *header,
                     const uint8_t *payload, size_t bytes);
void nowhere_fail(nowhere_pair *pair, gloo_status status, int rank);

#endif
