/* A simulated transport: any number of ranks in one thread, a virtual clock and
 * a network whose every whim follows from a seed.
 *
 * The engine is opened on `sim_transport` with the host that sim_host gives.
 * Nothing happens by itself: sim_step moves the clock to the next event, and
 * whatever is due happens when the rank concerned polls. sleep does not wait.
 * Within what the contract allows, all is random: delays, GLI_POST_NO_ROOM,
 * DONE or IN_PROGRESS, when a payload is read, in how many pieces it arrives,
 * and which of several streams overtakes which.
 *
 * An engine that breaks the contract (a pair used after its close, a request
 * posted twice, a payload changed while in progress, no place for a payload,
 * poll or take_now called from an upcall, pairs left open) ends the program
 * with a sentence. So does a transport that the battery drives the wrong way.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum { SIM_RANKS_MAX = 64, SIM_STREAMS_MAX = 4 };

typedef struct sim_world sim_world;

typedef struct sim_options {
  uint64_t seed;
  uint64_t delay_max_ns; /* of one hop; at least 1 */
  int streams;           /* 1..SIM_STREAMS_MAX per pair */
  int no_room_percent;   /* of sends that are not taken */
  int progress_percent; /* of sends that are in progress, the rest being done */
  int at_once_percent;  /* of short messages that need no request, of those
                           that arrive as a whole, and of those that are taken
                           before a poll */
  int pieces_percent;   /* of payloads that arrive bit by bit */
  int rkey_percent;     /* of payloads that can be shown instead of sent */
  int exposes; /* so often memory is within reach for writing, too; and where
                that is not 0, rkeys to nothing are refused. For a test that
                plays the peer itself */
  uint32_t shares; /* so many pieces of what a rank copies with its peer's help
                     the peer gets at once; how it goes on is the test's */
} sim_options;

/* Everything drawn from the seed. */
sim_options sim_options_from_seed(uint64_t seed);

extern const gli_transport_ops sim_transport;

sim_world *sim_create(const sim_options *options);

/* All end points are closed. */
void sim_destroy(sim_world *world);

/* The `host` of a rank's device. Valid until the world is destroyed. */
const char *sim_host(sim_world *world, uint32_t rank);

uint64_t sim_now_ns(const sim_world *world);

/* Move the clock to the next event of a live rank. False, and nothing moved,
 * when none will ever come unless a rank acts. */
bool sim_step(sim_world *world);

/* Move the clock regardless, to let deadlines pass. */
void sim_advance(sim_world *world, uint64_t ns);

/* Uniform below `n`, from the world's own generator. */
uint64_t sim_random(sim_world *world, uint64_t n);

/* ---- faults -------------------------------------------------------------- */

/* The rank's process is gone: its peers will be told `failed`, in a while. From
 * now on it must not be polled, only closed. */
void sim_kill(sim_world *world, uint32_t rank);

/* The rank hangs: it must not be polled until it is thawed. Nobody is told. */
void sim_freeze(sim_world *world, uint32_t rank);
void sim_thaw(sim_world *world, uint32_t rank);

/* Break all connections between two ranks. False when there is none. */
bool sim_cut(sim_world *world, uint32_t a, uint32_t b);

#endif
