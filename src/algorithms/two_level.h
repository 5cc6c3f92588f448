/* Shared parts of the two-level algorithms: the ranks of a host, the ranks with
 * the same place on all hosts, and builders for a part of the work.
 *
 * The list of algorithms passes `best` to each: a builder that uses the
 * selector's choice for its parameters. All members make the same choice as
 * long as their parameters differ in the rank only. */
#ifndef GLI_ALGORITHMS_TWO_LEVEL_H
#define GLI_ALGORITHMS_TWO_LEVEL_H

#include "plan/builder.h"

/* Returns true if there are several hosts, and some ranks share one. Otherwise
 * a two-level algorithm is the best one-level algorithm. */
bool gli_two_levels(const gli_plan_params *p);

/* Returns the number of leaders: ranks of each host that work on `bytes` bytes
 * for the others. Their places are below that number. */
uint32_t gli_leaders(const gli_plan_params *p, uint64_t bytes);

/* Returns true if blocks (of allgather and reduce-scatter) are so short that
 * sorting them into scratch memory is faster than sending them one by one. */
bool gli_is_short(const gli_plan_params *p);

/* Returns the number of turns of the leaders: a long vector goes through the
 * levels piece by piece, so that all levels are busy at once. */
uint64_t gli_turns(const gli_plan_params *p, uint64_t bytes, uint32_t leaders);

/* Inner plans for the ranks of this rank's host, numbered by place, and for the
 * ranks with this rank's place (below hosts->least), numbered by host. The
 * caller sets buffers and root. */
gli_sub gli_sub_host(const gli_plan_params *p, gli_collective collective,
                     uint64_t count);
gli_sub gli_sub_across(const gli_plan_params *p, gli_collective collective,
                       uint64_t count);

/* ---- builders for plans within ------------------------------------------- */

/* The root sends its input to all (GLI_BROADCAST). Ranks that do this at the
 * same time, each for its own part, need no forwarding. */
void gli_broadcast_flat(gli_builder *b, const gli_plan_params *p);

/* Two ranks swap their vectors. */
void gli_allreduce_recursive_doubling(gli_builder *b, const gli_plan_params *p);

/* Sends as few bytes as possible. */
void gli_allreduce_circulant(gli_builder *b, const gli_plan_params *p);

/* All send their input to the root, which adds in the order of ranks. */
void gli_reduce_flat(gli_builder *b, const gli_plan_params *p);

#endif
