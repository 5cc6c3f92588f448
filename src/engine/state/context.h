/* Contexts: the ranks that make calls together, and their pending
 * operations. */
#ifndef GLI_ENGINE_STATE_CONTEXT_H
#define GLI_ENGINE_STATE_CONTEXT_H

#include "engine/state/call.h"
#include "engine/state/link.h"
#include "engine/state/lock.h"
#include "engine/state/operation.h"
#include "engine/state/trace_buffer.h"
#include "kernels/store_policy.h"
#include "plan/tuning.h"

typedef struct gli_family gli_family;

/* A rank of a context. */
typedef struct gli_peer {
  gli_link *link; /* made on first use */
  uint32_t rank;  /* rank in the root context */
  uint32_t group; /* its number for the context; 0 for a root context */
} gli_peer;

/* The contact data of a rank: where it listens, and its key. */
typedef struct gli_contact {
  gli_address address;
  uint64_t key;
  bool beats; /* sends heartbeats, and answers while it makes no calls */
} gli_contact;

/* State of the heartbeat (heartbeat.c), of a root; zeros in groups. */
typedef struct gli_heartbeat {
  uint64_t due_ns;    /* time of the next turn; 0 or UINT64_MAX for never */
  uint64_t turned_ns; /* time of the last turn, or of the start */
  uint64_t own_ns;    /* GLOO_HEARTBEAT */
  uint64_t limit_ns;  /* silence after which `before` is missed: own_ns, or more
                        if that rank sends more slowly */
  bool watches;       /* `before` is watched */
  /* The nearest remaining ranks: heartbeats go to `next` and come from
   * `before`. The own rank if no other is left. */
  uint32_t next, before;
  /* A link to `next` for heartbeats alone that has not answered yet: not in
   * `peers`, and its failure is ignored. NULL if none. */
  gli_link *trial;
  bool met;   /* silence counts: all ranks have begun, or `before` was heard */
  bool beats; /* this rank sends heartbeats */
  bool said;  /* `next` was sent an ALIVE */
  uint64_t pause_ns; /* time between turns, at the start */
  uint32_t busy;     /* remaining turns at twice the rate */
  /* The last sign of `before` came between these two times. */
  uint64_t heard_ns, found_ns;
  uint64_t heard;      /* last count of `heard`, see gli_transport_ops */
  uint64_t doubted_ns; /* time at which the limit was exceeded; 0: it is not */
  uint64_t away_ns;    /* last turn so late that others miss this rank, or 0 */
  bool was_away;       /* away shortly before the context failed */
} gli_heartbeat;

/* A dispute: two ranks made different calls at one position. It counts the
 * calls of other ranks there, to find out which of the two is wrong
 * (dispute.c). */
typedef struct gli_dispute {
  gli_header mine, theirs;
  uint32_t peer;  /* rank that called `theirs`, in the root context */
  uint32_t asked; /* number of other ranks that were asked */
  /* Number of ranks that called `mine`, `theirs` (those two ranks included),
   * and something else. */
  uint32_t with_us, with_them, elsewhere;
  /* `heard_ns`: until then a majority of all ranks is needed, and later one of
   * the ranks heard. `again_ns`: time of the next question to the others;
   * `pause_ns`: time between questions, 0 before the first. */
  uint64_t heard_ns, again_ns, pause_ns;
} gli_dispute;

/* The uses of stores into the memory of other ranks, and classes of lengths:
 * each begins at twice the length of the class before. */
typedef enum gli_store_use {
  GLI_STORE_COPIES,
  GLI_STORE_SUMS,
  GLI_STORE_USES
} gli_store_use;
#define GLI_STORE_CLASS_MIN ((size_t)16 * 1024)
#define GLI_STORE_CLASSES 11

typedef struct gli_shrink gli_shrink;

/* A context whose ranks met through a store is a root. Groups that are made of
 * it, or of its groups, are contexts that use its pairs. Together they are a
 * family, which fails as one. See group_context.c. */
struct gloo_context {
  gloo_device *device;
  bool owns_device;
  uint32_t rank, size; /* size: 0 while a group is being made */
  uint64_t key;
  int64_t timeout_ns;
  uint32_t budget;       /* limit of early bytes from one peer */
  gli_peer *peers;       /* [size] */
  gli_contact *contacts; /* [size] of a root; NULL in groups */
  gli_link *links;       /* all links of the context */
  gli_hosts *hosts;      /* NULL if all ranks share a host */
  gli_tuning *tuning;
  uint8_t choices; /* hash of `tuning` for signatures; 0 if none */
  gli_subscription oversubscribed;
  bool maps;             /* ranks of a host can access each other's memory */
  bool buffers_promised; /* all ranks promise buffers from gloo_alloc */

  gli_family *family;
  uint32_t root_rank; /* this rank in the root of the family */
  uint32_t id;        /* number of the context in messages to this rank */
  bool is_control;    /* the ranks of another context make groups of it here */
  gloo_context *control; /* its control context, made on first use */

  gloo_error cause; /* cause of the failure; status GLOO_OK if it has not
                       failed */
  gli_posted news;  /* the cause, or else the last refused call, for threads
                       without the lock */
  /* Reason why this rank gives up (gloo_context_abort_async), in a root; NULL
   * if it does not. Needs no lock: signal handlers write it. */
  _Atomic(const char *) gives_up;
  /* Agreements of a root context, see failure/council.h. */
  gli_shrink *shrink;  /* the agreement that this context serves alone; NULL
                          if none */
  gli_shrink *shrinks; /* agreements that it keeps until end_shrinks */
  void (*end_shrinks)(gloo_context *root); /* NULL if it never kept any */
  bool shrunk;         /* a successor was requested, or there can be none */
  bool forsaken;       /* the others may have continued without this rank */
  bool attended;       /* ranks that want to shrink it need an answer soon */
  uint64_t origin_key; /* key of the context whose successor it is */
  uint32_t *origin;    /* [size], ranks in that context; NULL if it is no
                          successor */
  /* A lost connection, in a root. It becomes the cause at suspect_ns. */
  gloo_error suspect;
  uint64_t suspect_ns;
  gloo_context *suspected; /* context of the loss: the root or a group; NULL
                              once that is destroyed */
  bool disputes;           /* `suspect` is about the dispute there */
  bool misses; /* `suspect` is about a rank that left (failure/missed.c) */
  gli_dispute dispute;
  gli_heartbeat heartbeat;
  bool teardown_pending; /* a root that is poisoned while operations and links
                            still live */
  struct gloo_window *window; /* window that the group was made for */
  bool closing; /* a group that was destroyed with pending operations: it ends
                   with the last of them */

  gli_store_policy policies[GLI_STORE_USES][GLI_STORE_CLASSES];

  gli_plan_cache *cache;
  gli_repeat *repeats;   /* NULL before the first */
  gli_operation *all;    /* every operation with a handle or running */
  gli_operation *newest; /* newest operation that messages can find; the others
                            are in the table */
  gli_key_table operations;
  gli_key_table early;   /* gli_early, for operations not started here */
  size_t n_early;        /* number of entries in `early`, and of CTSs that links
                            keep */
  gli_key_table blocked; /* gli_transfer, of messages that wait on links */
  gli_early *envelopes_first, *envelopes_last; /* unmatched p2p messages, in
                                                  order of arrival */

  gli_trace *trace; /* the family's */
  /* The name of the context, equal on all its ranks: the number that its first
   * rank gave it, and that rank in the root. */
  uint32_t group_number;
  uint16_t group_first;
  gli_counters counters;  /* number of collectives started, per tag */
  gli_counters init_runs; /* run numbers of requests that are matched by init
                             order */
  uint32_t inits;         /* number of requests matched by init order */

  bool asks; /* a root whose peers must prove that they know job_key */
  uint8_t job_key[GLI_JOB_KEY_BYTES];

  gloo_context *next; /* next root, or next group of this family */
};

/* State that the contexts of a family share. */
struct gli_family {
  gloo_context *root;
  gli_trace *trace;           /* records of the operations of all contexts */
  gli_totals *totals;         /* totals of all contexts */
  gli_snapshot_fn on_failure; /* NULL if none, or already called; snapshot.h */
  void *on_failure_user;      /* freed with the family */
  bool orphaned; /* the root is destroyed; its pairs serve the groups */
  gli_operation_list active; /* running, oldest first */
  /* Receives from any of several ranks without a message yet, and receives from
   * one rank that must wait behind them. */
  gli_operation_list posted;
  gli_operation_list idle; /* operations in pools of plans, with scratch */
  uint64_t idle_bytes;     /* bytes of their scratch */
  gloo_context *groups;    /* all groups, control contexts included */
  uint32_t last_id;
  gli_link *draining; /* links of destroyed groups that still send or receive */
  gli_link **routes;  /* links of groups, for messages that arrive */
  size_t n_routes, route_slots;
};

static inline bool gli_context_poisoned(const gloo_context *context) {
  return context->cause.status != GLOO_OK;
}
static inline bool gli_context_is_root(const gloo_context *context) {
  return context->family->root == context;
}

/* ---- how to store -------------------------------------------------------- */

/* Returns the store policy for a length. Bytes stored into the memory of
 * another rank are in its caches if it used that memory, and if they fit. A
 * rank that reads streamed bytes at once still gains with these limits. */
static inline gli_store_policy *gli_context_store_policy(gloo_context *context,
                                                         gli_store_use use,
                                                         size_t bytes) {
  unsigned length = 0;
  for (size_t n = bytes; n >= 2 * GLI_STORE_CLASS_MIN; n /= 2) length++;
  if (length >= GLI_STORE_CLASSES) length = GLI_STORE_CLASSES - 1;
  return &context->policies[use][length];
}
static const gli_store_bars gli_store_bars_elsewhere = {.to_nontemporal = 3,
                                                        .to_cache = 2};

#endif
