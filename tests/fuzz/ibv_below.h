/* A transport that replaces TCP below the RDMA transport: the peer's messages
 * are the input, and its clock is the device's. It keeps the contract of
 * transport/transport.h: upcalls come from poll alone, and none after BYE,
 * ABORT or a failure. */
#ifndef TESTS_FUZZ_IBV_BELOW_H
#define TESTS_FUZZ_IBV_BELOW_H

#include "fuzz.h"
#include "transport/transport.h"

enum { BELOW_KEPT = 32, BELOW_BYTES = 512 };

typedef struct below_end {
  gli_transport base;
  gli_pair pair;
  const gli_upcalls *upcalls;
  void *device_user, *user;
  bool verbs;        /* the peer has a device, too */
  bool keeps;        /* requests stay in progress until the next poll */
  bool stalls;       /* threads do not end while others sleep */
  bool open, silent; /* the pair; no more upcalls are made for it */
  gli_send_request *kept[BELOW_KEPT];
  size_t n_kept;
  /* The queue pair that the library offers the peer; number 0: none yet. */
  uint32_t offered_number, offered_psn;
  gli_header said; /* delivered by the next poll, with its payload */
  uint8_t payload[BELOW_BYTES];
  bool says, whole, fails;
} below_end;

extern below_end below;

/* Resets the transport before an input. */
void below_begin(bool verbs, bool keeps);
/* Makes the next poll deliver a message, as a `whole` or in parts; a payload
 * longer than BELOW_BYTES is not delivered. */
void below_say(const gli_header *header, const void *payload, bool whole);
/* Makes the next poll report a lost connection. */
void below_fail(void);

#endif
