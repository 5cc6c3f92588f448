/* A simulated transport: any number of ranks in one thread, a virtual clock,
 * and a network whose behaviour follows from a seed.
 *
 * The engine is opened on `sim_transport` with the host that sim_host returns.
 * sim_step moves the clock to the next event, and a due event is handled when
 * the rank concerned polls. sleep does not wait. Within the limits of the
 * contract everything is random: delays, GLI_POST_NO_ROOM, DONE or IN_PROGRESS,
 * when a payload is read, the number of pieces in which it arrives, and the
 * order of messages in different streams.
 *
 * An engine that breaks the contract (a pair used after its close, a request
 * posted twice, a payload changed while in progress, no destination for a
 * payload, poll or take_now called from an upcall, pairs left open) ends the
 * program with a message. So does a battery test that misuses the transport. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum { SIM_RANKS_MAX = 64, SIM_STREAMS_MAX = 4 };

typedef struct sim_world sim_world;

typedef struct sim_options {
  uint64_t seed;
  uint64_t delay_max_ns; /* per hop, at least 1 */
  int streams;           /* 1..SIM_STREAMS_MAX per pair */
  int no_room_percent;   /* sends refused */
  int progress_percent;  /* sends in progress; the rest are done */
  int at_once_percent;   /* short messages without a request, messages that
                            arrive as a whole, and messages taken before a
                            poll */
  int pieces_percent;    /* payloads that arrive in pieces */
  int rkey_percent;      /* payloads that can be exposed instead of sent */
  int exposes; /* number of times memory can be exposed for writing; if not 0,
                  unknown rkeys are refused. For tests that play the peer */
  uint32_t shares; /* pieces of a shared copy that the peer takes at once; the
                      test controls the rest */
} sim_options;

/* Returns options drawn from the seed. */
sim_options sim_options_from_seed(uint64_t seed);

extern const gli_transport_ops sim_transport;

sim_world *sim_create(const sim_options *options);

/* Destroys the world; all endpoints must be closed. */
void sim_destroy(sim_world *world);

/* Returns the `host` of a rank's device, valid until the world is destroyed. */
const char *sim_host(sim_world *world, uint32_t rank);

uint64_t sim_now_ns(const sim_world *world);

/* Returns the access of the last rkey that a rank wanted; -1 if none did. */
int sim_last_access(const sim_world *world);

/* Moves the clock to the next event of a live rank. Returns false and leaves
 * the clock unchanged if no event will come unless a rank acts. */
bool sim_step(sim_world *world);

/* Moves the clock unconditionally, to let deadlines pass. */
void sim_advance(sim_world *world, uint64_t ns);

/* Returns a uniform number below `n` from the world's own generator. */
uint64_t sim_random(sim_world *world, uint64_t n);

/* ---- faults -------------------------------------------------------------- */

/* Kills the rank's process: after a delay its peers get the `failed` upcall.
 * The rank must not be polled any more, only closed. */
void sim_kill(sim_world *world, uint32_t rank);

/* Freezes the rank, which must not be polled until sim_thaw. Peers get no
 * upcall. */
void sim_freeze(sim_world *world, uint32_t rank);
void sim_thaw(sim_world *world, uint32_t rank);

/* Breaks all connections between two ranks. Returns false if they have none. */
bool sim_cut(sim_world *world, uint32_t a, uint32_t b);

#endif
