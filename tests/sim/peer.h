/* One rank with the real engine, and a peer without one: the peer sends what
 * the test wants, when the test wants it, and counts the messages that it
 * gets. */
#ifndef TESTS_SIM_PEER_H
#define TESTS_SIM_PEER_H

/* cmocka.h needs the first four. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "engine/engine.h"
#include "gloo_c/gloo_c.h"
#include "sim.h"

typedef struct said said; /* a request of the peer */

typedef struct pair_of_ranks {
  sim_world *world;
  gloo_device *device; /* rank 0 */
  gloo_context *context;
  gli_transport *peer; /* rank 1 */
  gli_pair *pair;
  uint8_t *discard;
  said *said; /* all requests of the peer */
  uint32_t came[GLI_MESSAGE_TYPES];
  gli_header last[GLI_MESSAGE_TYPES];
} pair_of_ranks;

void peer_set_up(pair_of_ranks *two, int in_progress_percent,
                 int64_t timeout_ns);
/* All memory may be exposed for reading, and `lends` times for writing. */
void peer_set_up_exposing(pair_of_ranks *two, int in_progress_percent,
                          int exposes);
void peer_set_up_rkeys(pair_of_ranks *two, int in_progress_percent);
/* As peer_set_up_exposing, and the peer helps to copy `shares` pieces. */
void peer_set_up_sharing(pair_of_ranks *two, uint32_t shares);
void peer_tear_down(pair_of_ranks *two);

/* Runs the engine until no operation is in progress. */
void peer_run_engine(pair_of_ranks *two);
void peer_run_both(pair_of_ranks *two);

/* Sends a message without payload; most of its header is that of `about`. */
void peer_say(pair_of_ranks *two, gli_message_type type,
              const gli_header *about, uint32_t slot);
/* Sends DATA in any form; `payload` holds all of its bytes, if it has any. */
void peer_data(pair_of_ranks *two, const gli_header *about, uint32_t slot,
               gli_form form, const void *payload, uint64_t bytes);
/* Sends any message unchanged. */
void peer_post(pair_of_ranks *two, const gli_header *header,
               const void *payload);
void peer_rkey_pack(pair_of_ranks *two, const gli_header *about, uint32_t slot,
                    gli_form form, uint64_t rkey);

#endif
