/* The engine: runs plans on pairs. This is its face towards src/api and tests.
 *
 * It calls no clock and waits nowhere but through the transport of its device,
 * so that a simulated transport can drive it. */
#ifndef GLI_ENGINE_ENGINE_H
#define GLI_ENGINE_ENGINE_H

#include "engine/contexts/settings.h"
#include "engine/contexts/snapshot.h"
#include "engine/drive/driver.h"
#include "engine/state/call.h"
#include "gloo_c/window.h"
#include "transport/transport.h"

/* ---- contexts ------------------------------------------------------------ */

/* A context that knows no other rank yet. `key` must be hard to guess: it is
 * what others present to connect. With `job_key` (GLI_JOB_KEY_BYTES, copied;
 * NULL: none) it only says which context is meant, and others prove that they
 * have the same job key. From now on their connections are accepted. */
gloo_status gli_context_open(gloo_device *device, uint32_t rank, uint32_t size,
                             uint64_t key, const uint8_t *job_key,
                             int64_t timeout_ns, gloo_context **context,
                             gloo_error *error);
/* Say where a rank listens, before operations are started, and whether it tells
 * the next one that it is there. It may connect from now on. */
void gli_context_set_peer(gloo_context *context, uint32_t rank,
                          const gli_address *address, uint64_t key, bool beats);
/* Say on which hosts the ranks are, once it is known where all listen: see
 * gli_context_set_hosts and gli_context_learn_locality. */
void gli_context_place(gloo_context *context, gli_hosts *hosts,
                       gli_subscription oversubscribed);
/* gli_context_set_tuning, once ranks can connect. */
void gli_context_tune(gloo_context *context, gli_tuning *tuning);

/* ---- groups -------------------------------------------------------------- */

/* A group of ranks of a context uses its connections. Ranks call it by numbers
 * that each has given it itself, so no two groups of a rank are ever confused.
 * As soon as it has a number here it takes in messages; operations can be
 * started once it is formed. Any context of the family can be closed first. */
gloo_status gli_group_begin(gloo_context *parent, gloo_context **group,
                            gloo_error *error);

/* Say which ranks belong to it, in the order of their new ranks; members[own]
 * is this rank. Hosts, tuning and promises are those of the parent.
 * `timeout_ns` 0: the parent's. A failure poisons the family, for the other
 * ranks count on the group. */
gloo_status gli_group_form(gloo_context *group, const gloo_context *parent,
                           const gli_member *members, uint32_t n, uint32_t own,
                           int64_t timeout_ns, gloo_error *error);

/* Where the ranks of a context make groups of it: a context of the same ranks,
 * with operations of its own. It lives as long as the other. */
gloo_status gli_context_control(gloo_context *context, gloo_context **control,
                                gloo_error *error);

/* Every rank of the family is to know. Returns the status. */
gloo_status gli_context_fail(gloo_context *context, const gloo_error *cause);
/* GLOO_ERR_POISONED, with the cause: it is. */
gloo_status gli_context_usable(const gloo_context *context, gloo_error *error);

/* Connect to the neighbours in a binomial tree over all ranks, without waiting.
 * It stays open, so that an error reaches every rank, whichever links
 * operations use. */
gloo_status gli_context_join_tree(gloo_context *context, gloo_error *error);
/* Signs of life, from now on: a rank that gives none for `limit_ns` is missed.
 * 0: none are given, and no rank is missed. */
void gli_context_start_heartbeat(gloo_context *context, uint64_t limit_ns);
/* Tie the life of the device to the context's. */
void gli_context_own_device(gloo_context *context);
/* See gloo_context_shrink; `error` is not NULL. */
gloo_status gli_context_shrink(gloo_context *context,
                               const gloo_shrink_options *options,
                               gloo_context **successor, gloo_error *error);
/* The other ranks may have gone on without this one, and it cannot know: the
 * context fails, if it has not, and cannot be shrunk. */
void gli_context_forsake(gloo_context *context, const gloo_error *cause);
/* The GLI_JOB_KEY_BYTES of the job key, which belong to the context; NULL: it
 * has none. */
const uint8_t *gli_context_job_key(const gloo_context *context);
/* A device that belongs to the one belongs to both. */
void gli_context_share_device(const gloo_context *context, gloo_context *also);
/* `to` goes on for `from` on the same device: ranks that `from` was shrunk
 * without, and that come late, are answered as long as `to` exists. */
void gli_context_follow(gloo_context *from, gloo_context *to);
/* All ranks have made calls: one that is silent from now on is missed. */
void gli_context_have_met(gloo_context *context);
void gli_context_close(gloo_context *context);
gloo_device *gli_context_device(const gloo_context *context);
/* Through what this rank's messages to `peer` go, and why not through something
 * better (may be ""), in words for people. NULL as long as nothing has made
 * them connect. */
const char *gli_context_route(gloo_context *context, uint32_t peer,
                              char why[GLI_WHY_BYTES]);

/* Remember a refused call for gloo_context_error; returns error->status. */
gloo_status gli_context_refuse(gloo_context *context, const gloo_error *error);

/* ---- what is remembered ------------------------------------------------- */

/* Records of so many of the last operations of a new root context and its
 * groups are to be seen in snapshots; to be said before operations are started
 * here. */
gloo_status gli_context_keep_traces(gloo_context *context, uint64_t kept,
                                    gloo_error *error);
/* NULL: out of memory. For gli_snapshot_free. */
gli_snapshot *gli_context_snapshot(gloo_context *context);
/* See gli_snapshot_mark. */
uint64_t gli_context_mark(gloo_context *context);
/* The figures of a family, and when they were. */
typedef struct gli_figures {
  uint32_t rank, size; /* of the root */
  uint64_t mark;       /* see gli_snapshot_mark */
  const char *transport;
  size_t running; /* operations */
  gli_kept kept;
  bool has_failed;
  gli_totals *totals; /* the caller's, for free() */
  gli_moment first, now;
} gli_figures;
/* False: out of memory. */
bool gli_context_figures(gloo_context *context, gli_figures *figures);
/* Free what the family keeps for later calls. */
void gli_context_trim(gloo_context *context);
static inline uint64_t gli_figures_ns(const gli_figures *figures,
                                      uint64_t ticks) {
  return gli_ticks_span_ns(&figures->first, &figures->now, ticks);
}

/* Of a root context, once, and before its operations are started here. One that
 * has failed by then is told of at once. `user` goes through free() when the
 * last of the family is gone; NULL is allowed. */
void gli_context_on_failure(gloo_context *context, gli_snapshot_fn function,
                            void *user);
/* NULL: there is none. */
const void *gli_context_failure_user(const gloo_context *context);

/* ---- windows ------------------------------------------------------------- */

/* Open this rank's part of a window, whose group is `group`; `ours` is what is
 * to be freed with it, or NULL. Other ranks reach it from now on; this one
 * reaches theirs when it has learnt of them. */
gloo_status gli_window_open(gloo_context *group, void *memory, size_t bytes,
                            void *ours, gloo_window **window,
                            gloo_error *error);
void gli_window_learn(gloo_window *window, uint32_t rank, uint64_t key,
                      uint64_t bytes);
uint64_t gli_window_key(const gloo_window *window);
gloo_context *gli_window_context(const gloo_window *window);
/* Do other ranks that its memory is mapped to still see the same? */
bool gli_window_is_shared(const gloo_window *window);
/* Returns `ours`. The group is the caller's to destroy. */
void *gli_window_close(gloo_window *window);

/* ---- operations ---------------------------------------------------------- */

/* Prepare an operation; nothing is sent. Cheap when the plan is cached. */
gloo_status gli_operation_prepare(gloo_context *context, const gli_call *call,
                                  gli_operation **operation, gloo_error *error);

/* A request whose end is not that of a plan: `op`, which sends nothing, is
 * under way from now on, until it is settled. *owner is it until then, and NULL
 * once it is gone. */
void gli_operation_hold(gli_operation *op, gli_operation **owner);
/* End it, with `error` or (NULL) well; *place is `value` then. False: it was
 * gone already, or had failed with its context, and nothing was stored. */
bool gli_operation_settle(gloo_device *device, gli_operation **owner,
                          const gloo_error *error, gloo_context **place,
                          gloo_context *value);
/* Make one handle of two operations of the same context: from now on `also` is
 * started, tested, waited for, cancelled and released with `op`. */
void gli_operation_join(gli_operation *op, gli_operation *also);

/* Prepare, start and wait. Then it is remembered when `remembered` is not NULL,
 * or else released. `source` may be NULL. */
gloo_status gli_operation_run(gloo_context *context, const gli_call *call,
                              const gli_repeated_call *remembered, int *source,
                              gloo_error *error);

/* ---- calls that are repeated --------------------------------------------- */

/* Can these arguments be those of a remembered call, with the same plan? With
 * the device locked. */
typedef bool (*gli_fits_fn)(const gloo_context *context, const void *arguments,
                            const gli_repeated_call *call);
/* Make a call that is remembered, on the buffers of `key`. GLOO_IN_PROGRESS: it
 * is not remembered, or cannot be made that way now, and nothing has happened.
 * `source` may be NULL. */
gloo_status gli_repeat_run(gloo_context *context, const gli_repeat_key *key,
                           gli_fits_fn fits, const void *arguments, int *source,
                           gloo_error *error);
/* Or only prepare it. NULL: not so, or out of memory. */
gli_operation *gli_repeat_prepare(gloo_context *context,
                                  const gli_repeat_key *key, gli_fits_fn fits,
                                  const void *arguments);
/* Remember the call that an operation, not started yet, was prepared for. */
void gli_repeat_remember(const gli_operation *op,
                         const gli_repeated_call *call);

#endif
