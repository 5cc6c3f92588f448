/* Shared parts of the two-level algorithms: the ranks of a host, the ranks with
 * the same place on all hosts, and builders for a part of the work.
 *
 * The list of algorithms passes `best` to each: a builder that uses what the
 * selector chooses for the parameters it gets. All members come to the
 * same choice as long as their parameters differ in the rank only. */
#ifndef GLI_ALGORITHMS_TWO_LEVEL_H
#define GLI_ALGORITHMS_TWO_LEVEL_H

#include "plan/builder.h"

/* Are there several hosts, and ranks that share one? Without, an algorithm of
 * two levels is the best one of one level. */
bool gli_two_levels(const gli_plan_params *p);

/* How many ranks of each host work for the others when there are `bytes` bytes
 * to share out: those with places below. */
uint32_t gli_leaders(const gli_plan_params *p, uint64_t bytes);

/* Blocks (of allgather and reduce-scatter) that are better sorted into scratch
 * memory than sent one by one. */
bool gli_is_short(const gli_plan_params *p);

/* How often the leaders take turns: a long vector goes through the levels piece
 * by piece, so that all levels are busy at once. */
uint64_t gli_turns(const gli_plan_params *p, uint64_t bytes, uint32_t leaders);

/* Plans within: of the ranks of this rank's host, numbered by place, and of the
 * ranks with this rank's place (below hosts->least), numbered by host. Buffers
 * and root are left to the caller. */
gli_sub gli_sub_host(const gli_plan_params *p, gli_collective collective,
                     uint64_t count);
gli_sub gli_sub_across(const gli_plan_params *p, gli_collective collective,
                       uint64_t count);

/* ---- builders for plans within ------------------------------------------ */

/* The root sends its input to all (GLI_BROADCAST). What every rank does at
 * once, for a part of its own, goes straight and not by way of others. */
void gli_broadcast_flat(gli_builder *b, const gli_plan_params *p);

/* Two ranks swap their vectors. */
void gli_allreduce_recursive_doubling(gli_builder *b, const gli_plan_params *p);

/* As few bytes as possible. */
void gli_allreduce_circulant(gli_builder *b, const gli_plan_params *p);

/* All send their input to the root, which adds them in the order of ranks. */
void gli_reduce_flat(gli_builder *b, const gli_plan_params *p);

#endif
