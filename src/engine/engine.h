/* The engine: runs plans on pairs. This is the interface for src/api and tests.
 *
 * The engine reads the clock, and waits, through the transport of its device
 * only, so that a simulated transport can drive it. */
#ifndef GLI_ENGINE_ENGINE_H
#define GLI_ENGINE_ENGINE_H

#include "engine/contexts/settings.h"
#include "engine/contexts/snapshot.h"
#include "engine/drive/driver.h"
#include "engine/state/call.h"
#include "gloo_c/window.h"
#include "transport/transport.h"

/* ---- contexts ------------------------------------------------------------ */

/* Creates a context that knows no other rank yet. `key` must be hard to guess:
 * other ranks present it to connect. With `job_key` (GLI_JOB_KEY_BYTES, copied;
 * NULL if none) the key only names the context, and others prove that they have
 * the same job key. Connections of others are accepted from now on. */
gloo_status gli_context_open(gloo_device *device, uint32_t rank, uint32_t size,
                             uint64_t key, const uint8_t *job_key,
                             int64_t timeout_ns, gloo_context **context,
                             gloo_error *error);
/* Sets where a rank listens, before operations are started, and whether it
 * sends heartbeats. The rank may connect from now on. */
void gli_context_set_peer(gloo_context *context, uint32_t rank,
                          const gli_address *address, uint64_t key, bool beats);
/* Sets the hosts of the ranks, once the addresses of all are known: see
 * gli_context_set_hosts and gli_context_learn_locality. */
void gli_context_place(gloo_context *context, gli_hosts *hosts,
                       gli_subscription oversubscribed);
/* Like gli_context_set_tuning, once ranks can connect. */
void gli_context_tune(gloo_context *context, gli_tuning *tuning);

/* ---- groups -------------------------------------------------------------- */

/* Creates a group, which uses the connections of the parent's family. Each rank
 * gives the group a number, so a rank never confuses two groups. As soon as the
 * group has a number here it receives messages; operations can be started once
 * it is formed. The contexts of a family can be closed in any order. */
gloo_status gli_group_begin(gloo_context *parent, gloo_context **group,
                            gloo_error *error);

/* Sets the members of a group, in the order of their new ranks; members[own] is
 * this rank. Hosts, tuning and promises are those of the parent. `timeout_ns`
 * 0: the parent's. A failure poisons the family, because the other ranks count
 * on the group. */
gloo_status gli_group_form(gloo_context *group, const gloo_context *parent,
                           const gli_member *members, uint32_t n, uint32_t own,
                           int64_t timeout_ns, gloo_error *error);

/* Returns the control context, in which the ranks of a context make groups of
 * it: it has the same ranks and separate operations. It lives as long as the
 * context. */
gloo_status gli_context_control(gloo_context *context, gloo_context **control,
                                gloo_error *error);

/* Fails a context, on all ranks of the family. Returns the status of the
 * cause. */
gloo_status gli_context_fail(gloo_context *context, const gloo_error *cause);
/* Returns GLOO_ERR_POISONED, with the cause, if the context has failed. */
gloo_status gli_context_usable(const gloo_context *context, gloo_error *error);

/* Connects to the neighbours in a binomial tree over all ranks, without
 * waiting. The connections stay open, so that an error reaches every rank,
 * whichever links operations use. */
gloo_status gli_context_join_tree(gloo_context *context, gloo_error *error);
/* Starts the heartbeat: a rank that is silent for `limit_ns` is missed. 0: no
 * heartbeats are sent, and no rank is missed. */
void gli_context_start_heartbeat(gloo_context *context, uint64_t limit_ns);
/* Makes the context an owner of its device, which ends with its last owner. */
void gli_context_own_device(gloo_context *context);
/* See gloo_context_shrink; `error` is not NULL. */
gloo_status gli_context_shrink(gloo_context *context,
                               const gloo_shrink_options *options,
                               gloo_context **successor, gloo_error *error);
/* Fails the context, if it has not failed, and forbids a shrink: the other
 * ranks may have continued without this one, which cannot know. */
void gli_context_forsake(gloo_context *context, const gloo_error *cause);
/* Returns the job key, of GLI_JOB_KEY_BYTES, which belongs to the context. NULL
 * if there is none. */
const uint8_t *gli_context_job_key(const gloo_context *context);
/* Makes `also` an owner of the device if `context` is one. */
void gli_context_share_device(const gloo_context *context, gloo_context *also);
/* Hands over from `from` to `to`, on the same device: late ranks, which `from`
 * was shrunk without, are answered as long as `to` exists. */
void gli_context_follow(gloo_context *from, gloo_context *to);
/* Counts the silence of ranks from now on, because all have made calls. */
void gli_context_have_met(gloo_context *context);
void gli_context_close(gloo_context *context);
gloo_device *gli_context_device(const gloo_context *context);
/* Returns the transport of this rank's messages to `peer`, in words, and in
 * `why` the reason against a better one (may be ""). NULL until they
 * connect. */
const char *gli_context_route(gloo_context *context, uint32_t peer,
                              char why[GLI_WHY_BYTES]);

/* Records a refused call for gloo_context_error. Returns error->status. */
gloo_status gli_context_refuse(gloo_context *context, const gloo_error *error);

/* ---- records ------------------------------------------------------------- */

/* Sets the number of operations of a new root context and its groups that
 * snapshots show, the last ones. Called before operations are started here. */
gloo_status gli_context_keep_traces(gloo_context *context, uint64_t kept,
                                    gloo_error *error);
/* Returns a snapshot, to be released with gli_snapshot_free. NULL if out of
 * memory. */
gli_snapshot *gli_context_snapshot(gloo_context *context);
/* See gli_snapshot_mark. */
uint64_t gli_context_mark(gloo_context *context);
/* The totals of a family, and their time. */
typedef struct gli_figures {
  uint32_t rank, size; /* rank and size of the root */
  uint64_t mark;       /* see gli_snapshot_mark */
  const char *transport;
  size_t running; /* number of pending operations */
  gli_kept kept;
  bool has_failed;
  gli_totals *totals; /* released by the caller with free() */
  gli_moment first, now;
} gli_figures;
/* Returns false if out of memory. */
bool gli_context_figures(gloo_context *context, gli_figures *figures);
/* Ends the start of a root context, before the program receives it. Figures
 * count the operations so far separately, as the library's own, and snapshots
 * omit them. */
void gli_context_started(gloo_context *context);
/* Frees the memory that the family keeps for later calls. */
void gli_context_trim(gloo_context *context);
static inline uint64_t gli_figures_ns(const gli_figures *figures,
                                      uint64_t ticks) {
  return gli_ticks_span_ns(&figures->first, &figures->now, ticks);
}

/* Sets the failure function of a root context, once, before its operations are
 * started here. If the context has failed by then, the function is called at
 * once. `user` is released with free() when the last context of the family has
 * ended; it may be NULL. */
void gli_context_on_failure(gloo_context *context, gli_snapshot_fn function,
                            void *user);
/* Returns the `user` of gli_context_on_failure; NULL if none. */
const void *gli_context_failure_user(const gloo_context *context);

/* ---- windows ------------------------------------------------------------- */

/* Opens this rank's part of a window over `group`. Frees `ours` with the window
 * if it is not NULL. Other ranks can access the part at once; this rank can
 * access another part once the owner has described it. */
gloo_status gli_window_open(gloo_context *group, void *memory, size_t bytes,
                            void *ours, gloo_window **window,
                            gloo_error *error);
void gli_window_learn(gloo_window *window, uint32_t rank, uint64_t key,
                      uint64_t bytes);
uint64_t gli_window_key(const gloo_window *window);
gloo_context *gli_window_context(const gloo_window *window);
/* Returns true if ranks that have mapped the memory of the window still see the
 * same memory. */
bool gli_window_is_shared(const gloo_window *window);
/* Begins a flush of a rank, or of all, that ends `request`, which was made for
 * the group and has no steps. */
#define GLI_WINDOW_ALL INT64_MAX
gloo_status gli_window_flush(const char *function, gloo_window *window,
                             int64_t rank, gli_operation *request,
                             gloo_error *error);
/* Closes a window and returns `ours`. The caller destroys the group. */
void *gli_window_close(gloo_window *window);

/* ---- operations ---------------------------------------------------------- */

/* Prepares an operation without sending. Cheap if the plan is cached. */
gloo_status gli_operation_prepare(gloo_context *context, const gli_call *call,
                                  gli_operation **operation, gloo_error *error);

/* Starts a request without a plan: `op` sends nothing, and is pending until
 * gli_operation_settle. *owner points to `op` until then, and becomes NULL when
 * `op` is freed. */
void gli_operation_hold(gli_operation *op, gli_operation **owner);
/* Does so with the lock held. The deadline of the operation counts. */
void gli_operation_hold_locked(gli_operation *op, gli_operation **owner);
/* Ends a held request with `error`, or with success if that is NULL, and then
 * sets *place to `value`. Returns false, and stores nothing, if the request was
 * freed or had failed with its context. */
bool gli_operation_settle(gloo_device *device, gli_operation **owner,
                          const gloo_error *error, gloo_context **place,
                          gloo_context *value);
/* Makes one handle of two operations of the same context: from now on `also` is
 * started, tested, waited for, cancelled and released with `op`. */
void gli_operation_join(gli_operation *op, gli_operation *also);

/* Prepares and starts an operation, and waits for it. Then it is cached if
 * `remembered` is not NULL, or else released. `source` may be NULL. */
gloo_status gli_operation_run(gloo_context *context, const gli_call *call,
                              const gli_repeated_call *remembered, int *source,
                              gloo_error *error);

/* ---- repeated calls ------------------------------------------------------ */

/* Returns true if these arguments can be those of a cached call, with the same
 * plan. The device is locked. */
typedef bool (*gli_fits_fn)(const gloo_context *context, const void *arguments,
                            const gli_repeated_call *call);
/* Makes a cached call, on the buffers of `key`. Returns GLOO_IN_PROGRESS,
 * without any effect, if it is not cached or cannot be made that way now.
 * `source` may be NULL. */
gloo_status gli_repeat_run(gloo_context *context, const gli_repeat_key *key,
                           gli_fits_fn fits, const void *arguments, int *source,
                           gloo_error *error);
/* Prepares a cached call only. Returns NULL if it is not cached, or if out of
 * memory. */
gli_operation *gli_repeat_prepare(gloo_context *context,
                                  const gli_repeat_key *key, gli_fits_fn fits,
                                  const void *arguments);
/* Caches the call that a new operation was prepared for. */
void gli_repeat_remember(const gli_operation *op,
                         const gli_repeated_call *call);

#endif
