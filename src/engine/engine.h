/* The engine: runs plans on pairs. This is its face towards src/api and tests.
 *
 * It calls no clock and waits nowhere but through the transport of its device,
 * so that a simulated transport can drive it. */
#ifndef GLI_ENGINE_ENGINE_H
#define GLI_ENGINE_ENGINE_H

#include "gloo_c/collectives.h"
#include "plan/plan.h"
#include "plan/shape.h"
#include "plan/tuning.h"
#include "transport/transport.h"

/* ---- devices ------------------------------------------------------------- */

/* Open a device on any transport. `config`'s upcalls and device_user are set
 * here. Without a helper thread, operations advance inside test and wait only.
 */
gloo_status gli_device_open(const gli_transport_ops *ops,
                            const gli_transport_config *config, bool helper,
                            gloo_device **device, gloo_error *error);
void gli_device_close(gloo_device *device);
void gli_device_address(const gloo_device *device, gli_address *address);
const char *gli_device_transport(const gloo_device *device);

/* One round of progress for all contexts of the device, deadlines included.
 * Returns how many things happened. */
int gli_device_progress(gloo_device *device);

/* How to wait: `crowded` when the ranks on this host outnumber its cores, which
 * makes spinning harmful. The environment variable GLOO_WAIT (spin, yield,
 * sleep) overrides what is set here. */
void gli_device_set_crowded(gloo_device *device, bool crowded);
/* What it does while it waits, in words for people. */
const char *gli_device_wait_policy(const gloo_device *device);

/* ---- contexts ------------------------------------------------------------ */

/* A context that knows nobody yet. `key` must be hard to guess: it is what
 * others present to connect. From now on their connections are accepted. */
gloo_status gli_context_open(gloo_device *device, uint32_t rank, uint32_t size,
                             uint64_t key, int64_t timeout_ns,
                             gloo_context **context, gloo_error *error);
/* Say where a rank listens, before operations are started. */
void gli_context_set_peer(gloo_context *context, uint32_t rank,
                          const gli_address *address, uint64_t key);
/* What plans may know of hosts, to be said before operations are started: which
 * ranks share one (the context takes `hosts` over, and keeps them unless there
 * is only one), and whether ranks outnumber cores. The same on all ranks. */
void gli_context_set_hosts(gloo_context *context, gli_hosts *hosts,
                           gli_crowding crowded);
/* What chooses algorithms before the selector does; the context takes it over.
 * To be said before operations are started. NULL: nothing does. */
void gli_context_set_tuning(gloo_context *context, gli_tuning *tuning);
/* All ranks promise that the buffers of their collectives are in memory from
 * gloo_alloc; to be said before operations are started. */
void gli_context_promise_buffers(gloo_context *context);
/* For gli_plan_params. */
const gli_tuning *gli_context_tuning(const gloo_context *context);
const gli_hosts *gli_context_hosts(const gloo_context *context);
gli_crowding gli_context_crowded(const gloo_context *context);
/* What ranks that share a host have of each other. The same on every rank. */
gli_nearness gli_context_near(const gloo_context *context);
/* ---- groups -------------------------------------------------------------- */

/* A group of ranks of a context uses its connections. Ranks call it by numbers
 * that each has given it itself, so no two groups of a rank are ever confused.
 * As soon as it has a number here it takes in messages; operations can be
 * started once it is formed. Any context of the family can be closed first. */
gloo_status gli_group_begin(gloo_context *parent, gloo_context **group,
                            gloo_error *error);
uint32_t gli_group_id(const gloo_context *group);

typedef struct gli_member {
  uint32_t rank;  /* in the parent */
  uint32_t group; /* its number for the group */
} gli_member;

/* Say who belongs to it, in the order of their new ranks; members[own] is this
 * rank. Hosts, tuning and promises are those of the parent. `timeout_ns` 0: the
 * parent's. A failure poisons the family, for the other ranks count on the
 * group. */
gloo_status gli_group_form(gloo_context *group, const gloo_context *parent,
                           const gli_member *members, uint32_t n, uint32_t own,
                           int64_t timeout_ns, gloo_error *error);

/* Where the ranks of a context make groups of it: a context of the same ranks,
 * with operations of its own. It lives as long as the other. */
gloo_status gli_context_lobby(gloo_context *context, gloo_context **lobby,
                              gloo_error *error);

/* Every rank of the family is to know. Returns the status. */
gloo_status gli_context_fail(gloo_context *context, const gloo_error *cause);
/* GLOO_ERR_POISONED, with the cause: it is. */
gloo_status gli_context_usable(const gloo_context *context, gloo_error *error);

/* Rank `rank` of the context in the root of its family, by which sentences and
 * gloo_error call it. */
uint32_t gli_context_root_rank(const gloo_context *context, uint32_t rank);
/* The other way round; UINT32_MAX: it is not in the context. */
uint32_t gli_context_rank_of(const gloo_context *context, uint32_t root_rank);
bool gli_context_related(const gloo_context *a, const gloo_context *b);

/* Connect to the neighbours in a binomial tree over all ranks, without waiting.
 * It stays open, so that an error reaches every rank, whoever uses which links.
 */
gloo_status gli_context_join_tree(gloo_context *context, gloo_error *error);
/* Tie the life of the device to the context's. */
void gli_context_own_device(gloo_context *context);
void gli_context_close(gloo_context *context);
gloo_device *gli_context_device(const gloo_context *context);
/* Through what this rank's messages to `peer` go, and why not through something
 * better (may be ""), in words for people. NULL as long as nothing has made
 * them connect. */
const char *gli_context_route(gloo_context *context, uint32_t peer,
                              char why[GLI_WHY_BYTES]);

/* Remember a refused call for gloo_context_error; returns error->status. */
gloo_status gli_context_refuse(gloo_context *context, const gloo_error *error);

/* ---- operations ---------------------------------------------------------- */

/* What to run, in the words of one call. `build` and `params` name the plan.
 * For point-to-point messages (collective GLI_SENDRECV) the plan speaks of
 * ranks 0 (sender) and 1 (receiver), and `peers` says who may really be at the
 * other end. */
typedef struct gli_call {
  gli_build_fn build;
  gli_plan_params params;
  uint8_t algorithm;      /* number for the signature */
  gloo_dtype dtype;       /* GLOO_DTYPE_COUNT: none */
  gloo_op op;             /* GLOO_OP_COUNT: none */
  bool ordered;           /* as the caller said */
  gloo_custom_op *custom; /* of GLOO_CUSTOM; NULL otherwise */
  /* GLOO_SCALED_SUM: so many bytes, times `factor`, are the input: in the
   * output when it is in place, else in memory of the operation. */
  double factor;
  const void *unscaled;
  uint64_t unscaled_bytes;
  bool scales_joined; /* instead: what several inputs are joined to */
  bool averages;      /* the kernels do it, which see all operands at once */
  /* The plan is one of float32, of one input and one output, which are memory
   * of the operation (wide.c): before it, `factor` times each of `n_inputs`
   * inputs of narrow floats is added up, and after it the result is divided by
   * `divisor`, rounded, and stored in `n_outputs` outputs. The one input or
   * output is `input` or `output`. */
  bool wide;
  size_t n_inputs, n_outputs;
  float divisor;
  uint32_t tag;
  const void *input;
  void *output;
  const void *const *inputs; /* [params.n_in] of several; they are copied */
  void *const *outputs;      /* [params.n_out] */
  int64_t timeout_ns;        /* 0: the context's; below 0: none */
  const int *peers;          /* GLI_SENDRECV; NULL: any */
  size_t n_peers;
} gli_call;

/* Prepare an operation; nothing is sent. Cheap when the plan is cached. */
gloo_status gli_operation_prepare(gloo_context *context, const gli_call *call,
                                  gloo_operation **operation,
                                  gloo_error *error);

/* Make one handle of two operations of the same context: from now on `also` is
 * started, tested, waited for, cancelled and released with `op`. */
void gli_operation_join(gloo_operation *op, gloo_operation *also);

/* ---- calls that are repeated (repeat.c) ---------------------------------- */

/* All that a plain call says, but for its buffers. */
typedef struct gli_repeat_key {
  gli_collective collective;
  gloo_dtype dtype;
  gloo_op op;
  int who;  /* the root, or the other rank of a message */
  int side; /* of a message */
  bool ordered;
  bool in_place; /* with given counts: GLOO_IN_PLACE, which has fewer lists */
  uint32_t tag;
  size_t count;
  uint64_t lists; /* a hash of the given counts, which are compared as well */
  int64_t timeout_ns;
  const void *algorithm; /* that it names; NULL: none */
} gli_repeat_key;

/* And what has been found out of it. */
typedef struct gli_repeated_call {
  gli_repeat_key key;
  bool in_place;
  gli_shape apart, within;  /* as it is, and as it would be in place */
  const gli_counts *counts; /* of its plan; NULL: none */
} gli_repeated_call;

typedef struct gli_repeat {
  gli_repeated_call call;
  gloo_operation *operation; /* NULL: none */
  bool busy;
} gli_repeat;

/* The call, if it is remembered and can be made at once, with the device
 * locked: gli_repeat_run, _prepare or _leave follows. */
gli_repeat *gli_repeat_find(gloo_context *context, const gli_repeat_key *key);
void gli_repeat_leave(gloo_context *context);
/* Make it, on buffers that are as good as those of the remembered one. */
gloo_status gli_repeat_run(gli_repeat *repeat, const void *input, void *output,
                           int *source, gloo_error *error);

/* Or only prepare it. NULL: out of memory. */
gloo_operation *gli_repeat_prepare(gli_repeat *repeat, const void *input,
                                   void *output);
/* Remember the call that an operation, not started yet, was prepared for. */
void gli_repeat_keep_like(const gloo_operation *op,
                          const gli_repeated_call *call);

/* Prepare, start and wait. Then it is remembered when `remembered` is not NULL,
 * or else released. `source` may be NULL. */
gloo_status gli_operation_run(gloo_context *context, const gli_call *call,
                              const gli_repeated_call *remembered, int *source,
                              gloo_error *error);

#endif
