/* Elastic jobs: a loop that continues when ranks fail, and admits new ranks.
 *
 * A program calls gloo_elastic_next between its steps. After a failed call the
 * function shrinks the context; else it admits processes that wait to join.
 * After each change it calls the program's `sync`, which broadcasts the state
 * from the rank that has completed most steps; from a newcomer only if no other
 * rank is left.
 *
 * Example:
 *
 *     static gloo_status share(gloo_context *context, int root,
 *                              gloo_elastic_reason reason, void *weights,
 *                              gloo_error *error) {
 *       (void)reason;
 *       return gloo_broadcast(context, GLOO_IN_PLACE, weights, 1000,
 *                             GLOO_FLOAT32, root, NULL, error);
 *     }
 *
 *     gloo_status train(float *weights, gloo_error *error) {
 *       gloo_elastic_options options = GLOO_ELASTIC_OPTIONS_INIT;
 *       options.sync = share;
 *       options.user = weights;
 *       options.steps = 100;
 *       gloo_elastic *job;
 *       int64_t step = 0;
 *       gloo_status end, status;
 *       status = gloo_elastic_create(NULL, &options, &job, error);
 *       if (status != GLOO_OK) return status;
 *       while ((end = gloo_elastic_next(job, status, &step, error)) == GLOO_OK &&
 *              step < options.steps) {
 *         status = gloo_allreduce(gloo_elastic_context(job), GLOO_IN_PLACE,
 *                                 weights, 1000, GLOO_FLOAT32, GLOO_SUM, NULL,
 *                                 error);
 *         if (status == GLOO_OK) step++;
 *       }
 *       gloo_elastic_destroy(job);
 *       return end;
 *     } */
#ifndef GLOO_C_ELASTIC_H
#define GLOO_C_ELASTIC_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/context.h"
#include "gloo_c/store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gloo_elastic gloo_elastic;

typedef enum gloo_elastic_reason {
  GLOO_ELASTIC_START = 0,  /* this rank has started, or joined */
  GLOO_ELASTIC_SHRINK = 1, /* ranks have failed */
  GLOO_ELASTIC_GROW = 2    /* newcomers were admitted */
} gloo_elastic_reason;

typedef struct gloo_elastic_options {
  size_t struct_size;
  /* Gives all ranks of the context, which is new, the state of rank `root`;
   * required. If the root fails meanwhile, the state of a rank at another step
   * counts as lost, since a part may have been overwritten. */
  gloo_status (*sync)(gloo_context *context, int root,
                      gloo_elastic_reason reason, void *user,
                      gloo_error *error);
  void *user;
  /* Store for newcomers, which survives failures of ranks and belongs to this
   * job alone; NULL: GLOO_STORE if it is set, else no newcomers. */
  gloo_store *store;
  int64_t steps; /* number of steps of the job, required; equal on all ranks */
  const gloo_shrink_options *shrink; /* NULL: defaults */
  const gloo_grow_options *grow;     /* NULL: defaults */
} gloo_elastic_options;
#define GLOO_ELASTIC_OPTIONS_INIT \
  { sizeof(gloo_elastic_options), 0, 0, 0, 0, 0, 0 }

/* Creates an elastic job of a context of gloo_init or gloo_context_join. With a
 * NULL context it creates one: by gloo_context_join if GLOO_JOIN is 1, else by
 * gloo_init.
 * Errors: GLOO_ERR_INVALID (`job`, `sync` or `steps` missing, GLOO_JOIN without
 * a store), GLOO_ERR_UNSUPPORTED (options of a newer version),
 * GLOO_ERR_NO_MEMORY, and those of gloo_store_open and of the function that
 * creates the context.
 * Threads: any; blocks. Ownership: *job is the caller's; on success the context
 * is the job's; the options are copied, and what they point to must outlive the
 * job. */
GLOO_API gloo_status gloo_elastic_create(gloo_context *context,
                                         const gloo_elastic_options *options,
                                         gloo_elastic **job, gloo_error *error);

/* Ends a step and prepares the next. `last` is GLOO_OK, or the status of the
 * call that failed in the step. *step is the number of steps that this rank's
 * state has completed; on success it is that of all ranks, lower or higher.
 * Call it before the first step and after each, also after the last: if *step
 * is still `steps`, all ranks have completed them.
 *
 * A failed context is shrunk, also if all ranks are alive; without a lost rank
 * at most once per step.
 * Errors: `last` if the context has not failed, as after a refused call.
 * GLOO_ERR_INVALID (NULL, negative *step). Those of `sync` and of
 * gloo_context_shrink; GLOO_ERR_STALE of gloo_context_grow, whose other errors
 * are logged as warnings. GLOO_ERR_PEER if no rank has a whole state: restart
 * from a checkpoint.
 * Threads: one at a time; blocks. Ownership: the job stays the caller's; a
 * previous context is destroyed.
 * Cost: for a change, a shrink or a grow, two allreduces of a number, and sync.
 * Else nothing, except about once per second and after the last step: a
 * broadcast of a number and, with a store, gloo_context_grow. */
GLOO_API gloo_status gloo_elastic_next(gloo_elastic *job, gloo_status last,
                                       int64_t *step, gloo_error *error);

/* Returns the context, which changes in gloo_elastic_next.
 * Errors: NULL for NULL. Threads: any. Ownership: the context is the job's. */
GLOO_API gloo_context *gloo_elastic_context(const gloo_elastic *job);

/* Leaves the job. NULL is allowed.
 * Errors: none. Threads: no other thread may use the job. Ownership: the handle
 * and the context are invalid afterwards. */
GLOO_API void gloo_elastic_destroy(gloo_elastic *job);

#ifdef __cplusplus
}
#endif
#endif
