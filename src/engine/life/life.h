/* Operations from call to release: their memory (pool.c), their creation from
 * calls (prepare.c), the begin of a run (begin.c), and repeated calls
 * (call_cache.c). */
#ifndef GLI_ENGINE_LIFE_LIFE_H
#define GLI_ENGINE_LIFE_LIFE_H

#include "engine/run/in_order.h"
#include "engine/state/call.h"
#include "engine/state/context.h"

/* ---- memory (pool.c) ----------------------------------------------------- */

/* Scratch that is kept for later runs; the last one is, however large. */
#define GLI_IDLE_SCRATCH ((uint64_t)64 << 20)

gli_operation *gli_operation_new(gloo_context *context, gli_plan_ref *ref);
void gli_operation_release(gli_operation *op); /* back to the pool, or freed */
void gli_operation_free_pool(void *pool);      /* for the plan cache */
gli_kept gli_family_kept(const gli_family *family);
void gli_family_trim(gli_family *family);

/* ---- from call to operation (prepare.c) ---------------------------------- */

gloo_status gli_operation_make(gloo_context *context, const gli_call *call,
                               gli_operation **operation, gloo_error *error);

/* ---- the beginning of a run (begin.c) ------------------------------------ */

/* The way of all that gli_in_order_begin does not begin: what it needs is
 * looked for, and it is listed. */
gloo_status gli_operation_begin_counted(gli_operation *op, bool now,
                                        gloo_error *error);
/* `now`: its first steps need not wait for the thread that runs what is
 * runnable, but run behind all that was deferred. The context is not poisoned.
 */
static inline gloo_status gli_operation_begin(gli_operation *op, bool now,
                                              gloo_error *error) {
  if (now && op->in_order.prepared && gli_in_order_begin(op)) return GLOO_OK;
  return gli_operation_begin_counted(op, now, error);
}

/* ---- taking it back (withdraw.c) ----------------------------------------- */

/* Has no other rank heard of a message that is sent or received? */
bool gli_operation_is_private(const gli_operation *op);
/* End it, as if it had never begun. */
void gli_operation_withdraw(gli_operation *op);

/* ---- figures (tally.c) -------------------------------------------------- */

/* Add what it has done to the family's, before it becomes another one. */
void gli_operation_count_runs(gli_operation *op);
/* And that of all operations. */
void gli_family_count_runs(gli_family *family);

/* ---- calls that are repeated (call_cache.c) ------------------------------ */

/* The call, if it is remembered and no thread is in it; NULL: not so. */
gli_repeat *gli_repeat_find(gloo_context *context, const gli_repeat_key *key);
/* An operation that does the same as another. NULL: out of memory. */
gli_operation *gli_repeat_like(const gli_operation *model);
/* After a call: remember it, or (call NULL) release its operation. */
void gli_repeat_keep(gli_operation *op, const gli_repeated_call *call);
/* Remember the call that an operation, not started yet, was prepared for. */
void gli_repeat_keep_like(const gli_operation *op,
                          const gli_repeated_call *call);
void gli_repeat_forget_all(gloo_context *context);
/* Updates the cached operations after the timeout of the context has changed.
 */
void gli_repeat_set_timeout(gloo_context *context);

#endif
