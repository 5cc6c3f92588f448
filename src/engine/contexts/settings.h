/* The settings of a context: ranks, hosts, and values that all ranks agreed on.
 * They do not change once operations are started, so reading takes no lock.
 * Writing takes the lock of the device as soon as ranks can connect, because
 * any thread handles their messages. */
#ifndef GLI_ENGINE_CONTEXTS_SETTINGS_H
#define GLI_ENGINE_CONTEXTS_SETTINGS_H

#include "gloo_c/context.h"
#include "plan/plan.h"
#include "plan/tuning.h"

/* Sets the hosts for plans, before operations are started: which ranks share
 * one (the context takes over `hosts`, and keeps it unless there is only one),
 * and whether ranks outnumber cores. The same on all ranks. */
void gli_context_set_hosts(gloo_context *context, gli_hosts *hosts,
                           gli_subscription oversubscribed);
/* Determines, from the addresses, whether ranks on one host can access each
 * other's memory. Called after addresses and hosts are set. The result is the
 * same on all ranks, because every rank must be able to run the plans that use
 * it. */
void gli_context_learn_locality(gloo_context *context);
/* Sets the tuning that precedes the selector; the context takes it over. Called
 * before operations are started. NULL for none. */
void gli_context_set_tuning(gloo_context *context, gli_tuning *tuning);
/* Records that all ranks promise collective buffers from gloo_alloc. Called
 * before operations are started. */
void gli_context_promise_buffers(gloo_context *context);
/* For gli_plan_params. */
const gli_tuning *gli_context_tuning(const gloo_context *context);
const gli_hosts *gli_context_hosts(const gloo_context *context);
gli_subscription gli_context_oversubscribed(const gloo_context *context);
/* Returns the access that ranks of a host have to each other. The same on every
 * rank. */
gli_locality gli_context_locality(const gloo_context *context);

/* ---- ranks --------------------------------------------------------------- */

/* Returns the rank in the root of the family of rank `rank` of the context.
 * Messages and gloo_error use that number. */
uint32_t gli_context_root_rank(const gloo_context *context, uint32_t rank);
/* Returns the rank in the context of a rank of the root; UINT32_MAX if it is
 * not in the context. */
uint32_t gli_context_rank_of(const gloo_context *context, uint32_t root_rank);
/* Converts an error for callers of this context: the rank at fault gets its
 * number in the context. Errors inside the engine use ranks of the root. */
void gli_context_localize(const gloo_context *context, gloo_error *error);
/* Maps a rank of a failed root context to its rank in the root of `to`, a
 * successor. Returns UINT32_MAX if `to` is no successor, or the rank has
 * left. */
uint32_t gli_context_rank_since(const gloo_context *from, uint32_t root_rank,
                                const gloo_context *to);
bool gli_context_related(const gloo_context *a, const gloo_context *b);
uint32_t gli_group_id(const gloo_context *group);

typedef struct gli_member {
  uint32_t rank;  /* rank in the parent */
  uint32_t group; /* its number for the group */
} gli_member;

#endif
