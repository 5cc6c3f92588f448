/* Operations from call to release: their memory (pool.c), their creation from
 * calls (prepare.c), the begin of a run (begin.c), and repeated calls
 * (call_cache.c). */
#ifndef GLI_ENGINE_LIFE_LIFE_H
#define GLI_ENGINE_LIFE_LIFE_H

#include "engine/run/in_order.h"
#include "engine/state/call.h"
#include "engine/state/context.h"

/* ---- memory (pool.c) ----------------------------------------------------- */

/* The limit of scratch that is kept for later runs. The last one is kept
 * whatever its size. */
#define GLI_IDLE_SCRATCH ((uint64_t)64 << 20)

gli_operation *gli_operation_new(gloo_context *context, gli_plan_ref *ref);
void gli_operation_release(gli_operation *op); /* to the pool, or freed */
void gli_operation_free_pool(void *pool);      /* for the plan cache */
gli_kept gli_family_kept(const gli_family *family);
void gli_family_trim(gli_family *family);

/* ---- from call to operation (prepare.c) ---------------------------------- */

gloo_status gli_operation_make(gloo_context *context, const gli_call *call,
                               gli_operation **operation, gloo_error *error);

/* ---- the beginning of a run (begin.c) ------------------------------------ */

/* Begins an operation that gli_in_order_begin does not: prepares it and lists
 * it. */
gloo_status gli_operation_begin_counted(gli_operation *op, bool now,
                                        gloo_error *error);
/* Begins a run. `now`: run its first steps in this thread, after all deferred
 * operations. The context is not poisoned. */
static inline gloo_status gli_operation_begin(gli_operation *op, bool now,
                                              gloo_error *error) {
  if (now && op->in_order.prepared && gli_in_order_begin(op)) return GLOO_OK;
  return gli_operation_begin_counted(op, now, error);
}

/* ---- withdrawal (withdraw.c) --------------------------------------------- */

/* Returns true if no other rank knows of the message that is sent or
 * received. */
bool gli_operation_is_private(const gli_operation *op);
/* Ends an operation as if it had never begun. */
void gli_operation_withdraw(gli_operation *op);

/* ---- totals (tally.c) ---------------------------------------------------- */

/* Adds the runs of an operation to the family's totals, before it changes. */
void gli_operation_count_runs(gli_operation *op);
/* Adds the runs of all operations of a family to its totals. */
void gli_family_count_runs(gli_family *family);

/* ---- repeated calls (call_cache.c) --------------------------------------- */

/* Returns the cached call, or NULL if it is not cached or a thread is in it. */
gli_repeat *gli_repeat_find(gloo_context *context, const gli_repeat_key *key);
/* Returns a new operation like another one; NULL if out of memory. */
gli_operation *gli_repeat_like(const gli_operation *model);
/* Caches a call after its end, or (call NULL) releases its operation. */
void gli_repeat_keep(gli_operation *op, const gli_repeated_call *call);
/* Caches the call that a new operation was prepared for. */
void gli_repeat_keep_like(const gli_operation *op,
                          const gli_repeated_call *call);
void gli_repeat_forget_all(gloo_context *context);
/* Updates the cached operations after the timeout of the context has changed.
 */
void gli_repeat_set_timeout(gloo_context *context);

#endif
