/* What the files of the engine share. Everything here is guarded by the
 * device's lock, except where a comment says otherwise. */
#ifndef GLI_ENGINE_INTERNAL_H
#define GLI_ENGINE_INTERNAL_H

#include <stdatomic.h>
#include <uv.h>

#include "core/custom_op.h"
#include "engine/engine.h"
#include "engine/lock.h"
#include "plan/cache.h"

typedef struct gli_link gli_link;
typedef struct gli_family gli_family;

/* ---- messages on their way ----------------------------------------------- */

/* A message that is moving, in one list of its link: blocked (waits for credit
 * or for the receiver to start), again (the transport had no room), flying (the
 * transport has it), shown (the peer has a reference) or arriving. `operation`
 * is NULL for control messages. */
typedef struct gli_transfer {
  gli_send_request request; /* first: `sent` upcalls get its address */
  gli_link *link;
  gloo_operation *operation;
  struct gli_parked *parked; /* arriving: where to, when not to a step */
  uint32_t step;
  uint32_t peer; /* index into the plan's peers */
  bool answer;   /* counted in link->answers */
  bool errand;   /* counted in device->errands */
  bool shown;    /* sent by reference: over when the peer says TAKEN */
  uint8_t form;  /* arriving: gli_form */
  uint8_t reference[GLI_REFERENCE_BYTES];
  struct gli_transfer *prev, *next;
} gli_transfer;

typedef struct gli_transfer_list {
  gli_transfer *first, *last;
} gli_transfer_list;

/* ---- messages that came before their receive was ready ------------------- */

/* A parked message. `complete` once its payload is in `data`. A WANT that came
 * before its operation was started is parked too, without payload. */
typedef struct gli_parked {
  gli_header header;
  gli_link *link;
  gloo_operation *operation; /* NULL until the operation is known */
  uint32_t step;             /* its receive, once the operation is known */
  struct gli_parked *next;   /* in a bucket or in operation->parked */
  struct gli_parked *envelope_prev, *envelope_next;
  uint32_t size_class;
  bool complete;
  bool awaited;  /* its receive step is ready and waits for `complete` */
  bool envelope; /* in context->envelopes */
  bool orphan;   /* its context went while it was arriving */
  _Alignas(16) uint8_t data[];
} gli_parked;

/* ---- links: everything about one other rank ------------------------------ */

enum { GLI_EARLY_NOTES = 16, GLI_PARKED_CLASSES = 11 };

typedef struct gli_note {
  uint32_t tag;
  uint64_t operation;
} gli_note;

struct gli_link {
  gloo_context *context;
  uint32_t rank;  /* in the root context: who it is in sentences */
  uint32_t local; /* in this context; GLI_NO_RANK while that is being made */
  gli_pair *pair; /* NULL: self, or not open. Groups use that of `carrier` */
  bool self;
  bool left;    /* the peer said BYE, or LEFT */
  bool gone;    /* it said BYE: nothing else comes through this pair */
  bool leaving; /* it said LEFT, but some of what it sent is still to come */
  bool again_queued; /* member of device->again_links */
  gli_link *again_next;

  uint32_t group;    /* what the peer calls this context, and what we do; */
  uint32_t own;      /* both are 0 for a root context */
  gli_link *carrier; /* of the root context, to the same rank; or itself */
  gli_link *next;    /* of the same context */
  gli_link *route_next;
  uint64_t data_sent, data_came; /* messages */
  uint64_t leaves_after;         /* as many as that */

  /* Outgoing credit. All three count bytes modulo 2^32. */
  uint32_t charged;  /* sent at the receiver's parking expense */
  uint32_t credited; /* of those, known to be taken out again */
  /* Incoming credit. */
  uint32_t consumed;
  uint32_t consumed_told;
  uint32_t parked_bytes; /* charged and still parked */

  gli_transfer_list blocked, again, flying, shown, arriving;
  uint32_t unannounced; /* of `blocked`: the peer has no WANT for them yet */
  uint32_t wants_out;   /* WANTs of ours that wait for their STARTED */
  uint32_t wants_in;    /* WANTs of the peer that are parked here */
  uint32_t answers;     /* to WANT and PROBE, not yet taken by the transport */
  uint64_t p2p_sent;    /* number of the next message to this rank */

  /* STARTED notes that came before the operation was started here. Forgetting
   * one costs a round trip, so a few are enough. */
  gli_note notes[GLI_EARLY_NOTES];
  uint32_t notes_count;

  /* The last collective started that talks to this rank, while it runs, and the
   * rank's index among the peers of its plan: most messages are for it. */
  gloo_operation *recent;
  uint32_t recent_peer;

  bool failed; /* the transport said so: no farewell */
};

typedef struct gli_peer {
  gli_link *link; /* made when first needed */
  uint32_t rank;  /* in the root context */
  uint32_t group; /* what it calls the context; 0: a root context */
} gli_peer;

/* Where a rank listens. */
typedef struct gli_contact {
  gli_address address;
  uint64_t key;
} gli_contact;

#define GLI_NO_RANK UINT32_MAX

/* ---- operations ---------------------------------------------------------- */

typedef enum gli_wait_mode {
  GLI_WAIT_ADAPT,
  GLI_WAIT_SPIN,
  GLI_WAIT_YIELD,
  GLI_WAIT_SLEEP
} gli_wait_mode;

typedef enum gli_operation_state {
  GLI_OPERATION_IDLE,
  GLI_OPERATION_DONE,
  GLI_OPERATION_POSTED, /* a receive that no message has met yet */
  GLI_OPERATION_RUNNING
} gli_operation_state;

/* How far the search for the rank at fault has come: see late.c. */
typedef enum gli_lateness {
  GLI_ON_TIME,
  GLI_PROBING,
  GLI_LISTENING
} gli_lateness;

typedef enum gli_recv_state {
  GLI_RECV_UNREADY, /* waits for other steps */
  GLI_RECV_READY,   /* may be written to */
  GLI_RECV_ARRIVING,
  GLI_RECV_DONE
} gli_recv_state;

/* Per plan peer of an operation. */
typedef struct gli_op_peer {
  gli_link *link;
  bool granted;  /* the peer has started: send without credit */
  bool wanted;   /* WANT was sent */
  bool innocent; /* it answered a PROBE: it waits like us */
  uint32_t lent; /* ranges that it may write to now */
} gli_op_peer;

/* A view or a loan of a plan. */
typedef struct gli_op_place {
  gli_link *link;
  uint8_t *memory;    /* NULL: a view to be fetched; a loan out of reach */
  uint64_t reference; /* of a view */
  bool shown;         /* a view of the peer's memory, not of bytes it sent */
  bool filled;        /* a loan: the result is there */
} gli_op_place;

/* Memory of this rank or a peer. */
typedef struct gli_source {
  gli_pair *pair;
  const uint8_t *memory; /* NULL: fetch it */
  uint64_t reference;
} gli_source;

/* Room for the operands of one step. */
typedef struct gli_operands {
  size_t n, n_to;
  bool fetches;
  gli_source *from;
  uint8_t **room; /* to fetch to; NULL where mapped */
  uint8_t **to;
  const void **srcs; /* for the kernel */
  void **dsts;
} gli_operands;

struct gloo_operation {
  gloo_context *context; /* NULL once the context is destroyed */
  gloo_device *device;   /* lives until the operation is detached */
  gli_plan_ref *ref;
  const gli_plan *plan;

  gli_operation_state state;
  gloo_operation *also; /* has no handle of its own: it starts and ends with
                           this one */
  gloo_error error;     /* of the last run; status GLOO_OK when none */
  int source;

  gli_header signature; /* what every message of it carries */
  uint64_t *counter;    /* of its tag; NULL: not looked for yet */
  bool pairwise;        /* gli_collective_pairwise of it */
  bool expects_much;    /* from some peer: it says STARTED unasked */
  gli_reduce_fn reduce;
  gli_combine_fn combine; /* plans with n_operands only */
  gli_custom_call custom; /* instead of both, when its op is not NULL */
  gloo_custom_op *held_custom;
  double factor;        /* GLOO_SCALED_SUM, when unscaled is not NULL */
  const void *unscaled; /* what it is multiplied with, and where to */
  uint8_t *scaled_to, *scaled;
  size_t unscaled_count;
  uint8_t *base[GLI_BUFFERS];
  const void **ins; /* of several inputs, outputs; plan->params says how many */
  void **outs;
  uint8_t *scratch;
  int64_t timeout_ns;
  uint64_t deadline_ns;
  uint64_t alarm_ns; /* when to look after it next; UINT64_MAX: never */
  gli_lateness lateness;
  bool pressed; /* the time of somebody who waits for us is up */

  /* Point to point. */
  int *candidates; /* ranks a receive takes messages from; NULL: any */
  size_t n_candidates;
  int64_t p2p_peer; /* the one rank of a send or receive; -1: see candidates */

  uint32_t steps_left;
  uint32_t ready_head, ready_tail;
  bool runnable; /* in device->runnable or device->put_off */
  bool put_off;  /* in the latter */
  gloo_operation *runnable_next;
  gli_parked *parked;

  /* Arrays of the plan's sizes, in the same allocation. */
  gli_op_peer *peers;
  uint32_t *pending; /* steps that each step still waits for */
  uint32_t *ready;   /* queue of steps that may run */
  uint8_t *recv_state;
  gli_op_place *places;
  gli_operands operands;

  gloo_operation *active_prev, *active_next; /* in ->active, posted or idle */
  gloo_operation *hash_next, **bucket;       /* NULL: in none */
  gloo_operation *all_prev, *all_next;       /* context->all */
  gloo_operation *pool_next;
  uint32_t pool_depth; /* in a pool: how many there are from here on */
};

typedef struct gli_operation_list {
  gloo_operation *first, *last;
} gli_operation_list;

/* ---- contexts ------------------------------------------------------------ */

enum { GLI_BUCKETS = 256, GLI_FINISHED = 16 };

typedef struct gli_tag_counter {
  uint32_t tag;
  uint64_t next;
} gli_tag_counter;

/* A context that met its ranks is a root. Groups that are made of it, or of its
 * groups, are contexts that use its pairs; all together are a family, which
 * fails as one. See group.c. */
struct gloo_context {
  gloo_device *device;
  bool owns_device;
  uint32_t rank, size; /* size 0: a group in the making */
  uint64_t key;
  int64_t timeout_ns;
  uint32_t budget;       /* bytes that one peer may park here */
  gli_peer *peers;       /* [size] */
  gli_contact *contacts; /* [size] of a root; NULL in groups */
  gli_link *links;       /* all of them */
  gli_hosts *hosts;      /* NULL: all ranks share one */
  gli_tuning *tuning;
  uint8_t choices; /* its hash, for signatures; 0: it has none */
  bool crowded;    /* on some host there are more ranks than cores */

  gli_family *family;
  uint32_t root_rank; /* this rank, in the root of the family */
  uint32_t id;        /* what other ranks call it when they speak to this one */
  bool is_lobby;      /* where the ranks of another context make groups of it */
  gloo_context *lobby; /* of this one; made when first needed */

  gloo_error cause;   /* why it is poisoned; status GLOO_OK: it is not */
  gloo_error refused; /* the last refused call */
  /* Of a root: a lost connection, to become the cause at suspect_ns. */
  gloo_error suspect;
  uint64_t suspect_ns;
  bool unsettled; /* a root: poisoned, but operations and links still live */

  gli_plan_cache *cache;
  gli_repeat *repeats; /* NULL: none yet */
  gloo_operation *all; /* every operation with a handle or running */
  gloo_operation *buckets[GLI_BUCKETS];
  gli_parked *parked[GLI_BUCKETS]; /* for operations not started here */
  size_t n_parked;                 /* in these */
  gli_parked *envelopes_first, *envelopes_last; /* unmatched p2p, as arrived */

  gli_tag_counter **counters; /* operations started, per tag */
  uint32_t n_counters, counter_slots;
  gli_header finished[GLI_FINISHED]; /* signatures of the last ones */
  uint32_t n_finished;

  gloo_context *next; /* root, or group of this family */
};

/* What the contexts of a family share. */
struct gli_family {
  gloo_context *root;
  bool rootless;             /* it is destroyed; its pairs serve the groups */
  gli_operation_list active; /* running, oldest first */
  gli_operation_list posted; /* receives that no message has met yet */
  gli_operation_list idle;   /* in a plan's pool, with scratch */
  uint64_t idle_bytes;       /* scratch of those */
  gloo_context *groups;      /* lobbies too */
  uint32_t last_id;
  gli_link *dying;   /* of groups that are gone: they still have to send */
  gli_link **routes; /* links of groups, by what arrives for them */
  size_t n_routes, route_slots;
};

struct gloo_device {
  const gli_transport_ops *ops;
  gli_transport *transport;
  gli_lock lock;
  atomic_uint lock_wanted; /* threads that wait for the lock; no lock needed */
  atomic_bool crowded;     /* no lock needed */
  gli_wait_mode wait_mode; /* forced by GLOO_WAIT */
  uint64_t yield_ns;       /* how long to yield before sleeping: learnt */
  gloo_context *contexts;
  gli_link *again_links;
  gli_transfer_list self_queue; /* messages of ranks to themselves */
  gli_transfer *free_transfers;
  gli_parked *free_parked[GLI_PARKED_CLASSES];
  /* Operations with steps to run, or just finished, as they became so. */
  gloo_operation *runnable, *runnable_last;
  /* Started, but left to whoever polls next, so that many at once neither keep
   * the caller nor fill all links: every poll takes one of them. */
  gloo_operation *put_off, *put_off_last;
  size_t outstanding; /* operations posted or running */
  size_t errands;     /* control messages not sent yet */
  size_t completed;   /* ever; lets a poller see that something ended */
  uint32_t waiters;   /* threads in wait */
  uint32_t sleepers;  /* of those, and the helper: asleep in the transport */
  /* Sleepers that were woken and have not come back. One that is on its way to
   * sleep may miss it when somebody polls at that moment: it is repeated. */
  uint32_t to_wake;
  bool unsettled; /* a context waits for gli_context_settle */

  bool has_helper;
  bool helper_idle;
  bool stop;
  uv_thread_t helper;
  uv_mutex_t helper_lock; /* taken with the other held, to wait and to wake */
  uv_cond_t helper_wake;
};

/* ---- constants ----------------------------------------------------------- */

/* From this many bytes on a receiver tells the sender at once that it has
 * started, so that the sender need not stop at the end of its credit. */
#define GLI_EAGER_BYTES ((uint64_t)64 * 1024)
#define GLI_PARK_BUDGET_MAX ((uint32_t)1 << 20)
#define GLI_PARK_BUDGET_MIN ((uint32_t)128 << 10)
#define GLI_PARK_BUDGET_ALL ((uint32_t)256 << 20)
/* How long a lost connection waits for a peer that knows why. */
#define GLI_SUSPECT_NS UINT64_C(50000000)
#define GLI_WANTS_MAX 1024u
/* Scratch that is kept for later runs; the last one is, however large. */
#define GLI_IDLE_SCRATCH ((uint64_t)64 << 20)
#define GLI_ABORT_MAX (8u + GLOO_ERROR_MESSAGE_BYTES)

/* ---- device.c, wait.c ---------------------------------------------------- */

static inline void gli_device_unlock(gloo_device *device) {
  gli_lock_leave(&device->lock);
}
void gli_device_lock_contended(gloo_device *device);
static inline void gli_device_lock(gloo_device *device) {
  if (!gli_lock_try(&device->lock)) gli_device_lock_contended(device);
}
/* Progress with the lock held. */
int gli_device_poll(gloo_device *device);
/* Fail what is overdue; returns the time to the next deadline. */
int64_t gli_device_check_deadlines(gloo_device *device);
/* After operations were started that nobody waits for. */
void gli_device_kick(gloo_device *device);
void gli_device_kick_locked(gloo_device *device);
/* What they wait for may be over. */
void gli_device_wake_sleepers(gloo_device *device);
/* Until the operation is done. */
void gli_device_wait(gloo_device *device, gloo_operation *operation);
gloo_status gli_device_start_helper(gloo_device *device, gloo_error *error);
void gli_device_stop_helper(gloo_device *device);
gloo_status gli_device_read_wait_mode(gloo_device *device, gloo_error *error);

/* ---- context.c ----------------------------------------------------------- */

/* The link to a rank, made and opened when first asked for; NULL with `error`.
 */
gli_link *gli_context_link(gloo_context *context, uint32_t rank,
                           gloo_error *error);
/* The first error wins. Operations end, and links are closed, when the poll
 * that is under way is over (gli_context_settle), for a transport must not lose
 * a pair from under its feet. */
/* It takes all contexts of the family with it, for a pair cannot be made to
 * forget what one of them has begun. */
void gli_context_poison(gloo_context *context, const gloo_error *cause);
void gli_context_settle(gloo_context *context);
static inline bool gli_context_poisoned(const gloo_context *context) {
  return context->cause.status != GLOO_OK;
}
static inline bool gli_context_is_root(const gloo_context *context) {
  return context->family->root == context;
}
/* Memory for a context of any kind, of `size` ranks, and its end. */
gloo_context *gli_context_new(gloo_device *device, uint32_t size);
void gli_context_free(gloo_context *context);
/* Does it have operations that are under way? */
bool gli_context_is_busy(const gloo_context *context);
/* Operations that the caller still holds outlive it, as mere results. */
void gli_context_detach_operations(gloo_context *context);
/* The counter of operations started with a tag, which stays where it is; NULL
 * when out of memory. */
uint64_t *gli_context_counter(gloo_context *context, uint32_t tag);
/* Operations started so far with a tag. */
uint64_t gli_context_started(const gloo_context *context, uint32_t tag);

/* ---- group.c ------------------------------------------------------------- */

/* The link to a rank of a group, new. */
gli_link *gli_group_open_link(gloo_context *group, uint32_t rank,
                              gloo_error *error);
/* What a message is for that came through this link of a root and speaks of a
 * group; NULL: the group is gone, or never was, or (with `error`) worse. */
gli_link *gli_group_find_link(gli_link *carrier, const gli_header *header,
                              gloo_error *error);
/* The peer speaks of a group that is gone: let it know. */
gloo_status gli_group_is_gone(gli_link *carrier, const gli_header *header,
                              gli_sink *sink, gloo_error *error);
/* LEFT: a rank takes no part in this context any more. Messages on other
 * streams may still come. */
void gli_group_leaves(gli_link *link, const gli_header *header);
void gli_group_check_leaving(gli_link *link);
/* The pair is gone, and the groups' links with it. */
void gli_group_carrier_left(gli_link *carrier);
void gli_group_drop_links(gli_family *family);
/* Destroy a group. */
void gli_group_close(gloo_context *group);
/* Say LEFT to everybody. */
void gli_group_say_left(gloo_context *context);

/* ---- operation.c --------------------------------------------------------- */

gloo_status gli_operation_begin(gloo_operation *op, gloo_error *error);
void gli_operation_step_done(gloo_operation *op, uint32_t step);
/* Run all steps that can run. Every upcall ends with it. */
void gli_device_run_all(gloo_device *device);
/* Leave what has just been begun to later polls; and take the first of it up.
 */
void gli_device_put_off(gloo_device *device);
void gli_device_take_up(gloo_device *device);
static inline void gli_device_run(gloo_device *device) {
  if (device->runnable) gli_device_run_all(device);
}
/* Begin it and wait until it is done. */
gloo_status gli_operation_complete(gloo_operation *op, int *source,
                                   gloo_error *error);
/* Run what is runnable, and end poisoned contexts. The last thing that every
 * entry into the engine does. */
void gli_device_settle_contexts(gloo_device *device);
static inline void gli_device_settle(gloo_device *device) {
  gli_device_run(device);
  if (device->unsettled) gli_device_settle_contexts(device);
}
/* End it with an error (NULL: success). */
void gli_operation_finish(gloo_operation *op, const gloo_error *error);
void gli_operation_release(gloo_operation *op); /* back to the pool, or freed */
void gli_operation_free_pool(void *pool);       /* for the plan cache */
gloo_operation *gli_operation_new(gloo_context *context, gli_plan_ref *ref);
/* Start the steps of an operation whose links are known. */
gloo_status gli_operation_launch(gloo_operation *op, gloo_error *error);
/* Move a message that was parked to where its receive step wants it. False when
 * the step is not done, for the context has failed. */
bool gli_operation_deliver(gloo_operation *op, uint32_t step,
                           const gli_parked *parked);
/* Bytes that arrived elsewhere, to where a receive step wants them. */
void gli_operation_store(gloo_operation *op, const gli_step *step,
                         const uint8_t *data, size_t bytes);
/* Its bytes, and the link of a step's peer. */
uint8_t *gli_operation_at(const gloo_operation *op, uint8_t buffer,
                          uint64_t offset);
bool gli_operation_is_recv(const gloo_operation *op);
bool gli_operation_is_send(const gloo_operation *op);
void gli_operation_list_add(gli_operation_list *list, gloo_operation *op);
void gli_operation_list_remove(gli_operation_list *list, gloo_operation *op);

/* dst = left op right. */
static inline void gli_operation_reduce(const gloo_operation *op, void *dst,
                                        const void *left, const void *right,
                                        size_t count) {
  if (op->custom.op) {
    gli_custom_op_apply(&op->custom, dst, left, right, count);
  } else {
    op->reduce(dst, left, right, count);
  }
}

/* Each of dsts = srcs[0] op srcs[1] op ... */
static inline void gli_operation_combine(const gloo_operation *op,
                                         void *const *dsts, size_t n_dsts,
                                         const void *const *srcs, size_t n_srcs,
                                         size_t count, bool stream) {
  if (op->custom.op) {
    gli_custom_op_combine(&op->custom, dsts, n_dsts, srcs, n_srcs, count);
  } else {
    op->combine(dsts, n_dsts, srcs, n_srcs, count, stream);
  }
}

/* ---- late.c ------------------------------------------------------------- */

/* Set the first alarm of an operation that starts now. */
void gli_late_arm(gloo_operation *op);
/* Its time runs from now at the latest: nobody may look for long. */
void gli_late_start_clock(gloo_operation *op);
/* The alarm went off. */
void gli_late_alarm(gloo_operation *op, uint64_t now_ns);
void gli_late_probed(gli_link *link, const gli_header *header);
void gli_late_answered(gli_link *link, const gli_header *header);

/* ---- describe.c ---------------------------------------------------------- */

/* The operation of a reduction and whether it is ordered share a byte of its
 * signature; of a custom one the upper bits of `root` are a hash. */
#define GLI_OP_ORDERED 0x80u
#define GLI_ROOT_BITS 20
static inline gloo_op gli_signature_op(const gli_header *signature) {
  return (gloo_op)(signature->op & ~GLI_OP_ORDERED);
}

enum { GLI_TEXT_BYTES = 160 };
/* "allreduce #7 (ring, 100 x float32, sum)" */
const char *gli_describe_call(const gli_header *signature,
                              char text[GLI_TEXT_BYTES]);
/* Does the operation still need something from, or of, this peer? */
bool gli_operation_waits_for(const gloo_operation *op, uint32_t peer);
/* Names the ranks it waits for; only those not known to be innocent, if any. */
void gli_describe_timeout(const gloo_operation *op, gloo_error *error);
void gli_describe_mismatch(const gloo_context *context, uint32_t peer,
                           const gli_header *mine, const gli_header *theirs,
                           gloo_error *error);
bool gli_signature_equal(const gli_header *a, const gli_header *b);
/* The same where both ends know all counts. */
static inline bool gli_signature_same(const gli_header *a,
                                      const gli_header *b) {
  return a->collective == b->collective && a->dtype == b->dtype &&
         a->op == b->op && a->algorithm == b->algorithm &&
         a->tuning == b->tuning && a->root == b->root && a->count == b->count &&
         a->tag == b->tag;
}

/* ---- match.c ------------------------------------------------------------- */

/* Where an operation is looked up: collectives by tag and number, messages by
 * direction, rank and number. */
typedef enum gli_kind {
  GLI_KIND_COLLECTIVE,
  GLI_KIND_SEND,
  GLI_KIND_RECV
} gli_kind;
typedef struct gli_key {
  gli_kind kind;
  uint32_t who; /* tag of a collective, the other rank of a message */
  uint64_t operation;
} gli_key;

gli_key gli_match_key_of(const gloo_operation *op);
gli_key gli_match_key(gli_kind kind, uint32_t peer_rank, const gli_header *h);
gloo_operation *gli_match_find(const gloo_context *context, gli_key key);
void gli_match_insert(gloo_operation *op);
void gli_match_remove(gloo_operation *op);
/* Take over what came for it before it was started. */
gloo_status gli_match_adopt(gloo_operation *op, gloo_error *error);
/* A receive step has become ready: use a parked message if there is one.
 * Returns true when the step is done now. */
bool gli_match_ready(gloo_operation *op, uint32_t step);
gloo_status gli_match_data(gli_link *link, const gli_header *header,
                           gli_sink *sink, gloo_error *error);
/* A whole message of bytes. True: it was for a step that is ready, which is
 * done now. False without an error: nothing has changed, but that a receive may
 * have been bound to it. */
bool gli_match_message(gli_link *link, const gli_header *header,
                       const uint8_t *payload, gloo_error *error);
gloo_status gli_match_want(gli_link *link, const gli_header *header,
                           gloo_error *error);
gloo_status gli_match_started(gli_link *link, const gli_header *header,
                              gloo_error *error);

/* ---- park.c -------------------------------------------------------------- */

gli_parked *gli_parked_new(gli_link *link, const gli_header *header,
                           uint64_t bytes);
void gli_parked_free(gli_parked *parked);
/* Where it waits until its operation is known; takes it out again. */
void gli_parked_keep(gli_parked *parked, gli_key key);
gli_parked *gli_parked_take(gloo_context *context, gli_key key);
void gli_parked_add_envelope(gli_parked *parked);
void gli_parked_remove_envelope(gli_parked *parked);
bool gli_parked_has_envelope(const gloo_context *context, gli_key key);
void gli_parked_drop(gloo_context *context);
void gli_parked_free_pools(gloo_device *device);

/* ---- p2p.c --------------------------------------------------------------- */

/* Start a receive: bind it to the oldest message that fits, or post it. */
gloo_status gli_p2p_post(gloo_operation *op, gloo_error *error);
/* The posted receive that a new message belongs to, bound to it; NULL: none. */
gloo_operation *gli_p2p_claim(gli_link *link, const gli_header *header,
                              gloo_error *error);
bool gli_p2p_takes_from(const gloo_operation *op, uint32_t rank);

/* ---- upcalls.c ----------------------------------------------------------- */

extern const gli_upcalls gli_engine_upcalls;
/* A link does not work any more; a better reason may come within a moment. */
void gli_link_suspect(gli_link *link, const gloo_error *cause);
/* A rank is gone for good; does any operation still need it? */
void gli_link_left(gli_link *link);

/* ---- flow.c -------------------------------------------------------------- */

void gli_flow_send_step(gloo_operation *op, uint32_t step);
/* A message is sent: its step is done, unless it was sent by reference. */
void gli_flow_sent(gli_transfer *t);
/* A message without payload. `slot`: of a WANT, the first one that is blocked;
 * of a STARTED, 1 when it answers a WANT; of a PROBE, 1 when time is up. */
void gli_flow_control(gli_link *link, gli_message_type type,
                      const gli_header *about, uint32_t slot);
/* Answer a WANT (STARTED), a PROBE (WAITING) or anything for a group that is
 * gone (LEFT). A peer that goes on asking but does not take its answers gets no
 * more of them; of a WANT, which is an error. */
gloo_status gli_flow_answer(gli_link *link, gli_message_type type,
                            const gli_header *about, gloo_error *error);
/* A WANT of ours was answered. */
void gli_flow_answered(gli_link *link);
/* Took a charged message of this many payload bytes. */
void gli_flow_consumed(gli_link *link, uint64_t length);
gloo_status gli_flow_credit(gli_link *link, uint32_t credit, gloo_error *error);
/* The commonest case: nobody waits for credit. False: it is not so. */
static inline bool gli_flow_credit_now(gli_link *link, uint32_t credit) {
  uint32_t given = credit - link->credited;
  if (link->blocked.first || given > link->charged - link->credited)
    return given == 0;
  link->credited = credit;
  return true;
}
void gli_flow_granted(gloo_operation *op, uint32_t peer);
int gli_flow_retry(gloo_device *device);
void gli_flow_drop(gli_link *link);
/* Take back the blocked messages of an operation that was never announced. */
void gli_flow_withdraw(gli_link *link, const gloo_operation *op);
static inline uint64_t gli_flow_cost(uint64_t length) {
  return length + GLI_HEADER_BYTES;
}

/* ---- reach.c ------------------------------------------------------------- */

/* Messages up to this long always go as bytes. Transports have limits of their
 * own. */
#define GLI_REFER_BYTES ((uint64_t)256)

/* How the message of a send step goes: sets form, length and payload. */
void gli_reach_offer(gli_transfer *t);
/* Can this message be the one that a receive step waits for? */
bool gli_reach_fits(const gloo_operation *op, uint32_t step,
                    const gli_header *header);
/* A message that is not for a plain receive of bytes is here. False when its
 * step is not done, for the context has failed, or will. */
bool gli_reach_arrived(gloo_operation *op, uint32_t step, uint8_t form,
                       const uint8_t *payload);
/* Is it one? */
static inline bool gli_reach_is_plain(const gli_step *s, uint8_t form) {
  return form == GLI_FORM_BYTES && s->role == GLI_ROLE_BYTES;
}
bool gli_reach_reduce_all(gloo_operation *op, uint32_t step);
gloo_status gli_reach_taken(gli_link *link, const gli_header *header,
                            gloo_error *error);
/* The peer has left in order: it needs nothing more of what it was shown. */
void gli_reach_left(gli_link *link);
/* The operation failed: no peer may write to its memory any more. */
void gli_reach_recall(gloo_operation *op);

/* ---- repeat.c ------------------------------------------------------------ */

/* After a call: remember it, or (call NULL) release its operation. */
void gli_repeat_keep(gloo_operation *op, const gli_repeated_call *call);
void gli_repeat_forget_all(gloo_context *context);

/* ---- lists.c ------------------------------------------------------------- */

/* Several inputs and outputs: take over the caller's. */
void gli_lists_set(gloo_operation *op, const gli_call *call);
/* Run a JOIN or a SPREAD. */
void gli_lists_run(gloo_operation *op, const gli_step *step);

/* ---- transfer.c ---------------------------------------------------------- */

void gli_transfer_list_add(gli_transfer_list *list, gli_transfer *t);
void gli_transfer_list_remove(gli_transfer_list *list, gli_transfer *t);
gli_transfer *gli_transfer_new(gli_link *link);
void gli_transfer_free(gli_transfer *t);
void gli_transfer_free_pool(gloo_device *device);

/* ---- self.c -------------------------------------------------------------- */

/* Deliver the messages of ranks to themselves. */
int gli_self_poll(gloo_device *device);

#endif
