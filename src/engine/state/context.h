/* Contexts: the ranks that make calls together, and what they have under way.
 */
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
  gli_link *link; /* made when first needed */
  uint32_t rank;  /* in the root context */
  uint32_t group; /* what it calls the context; 0: a root context */
} gli_peer;

/* Where a rank listens. */
typedef struct gli_contact {
  gli_address address;
  uint64_t key;
  bool beats; /* it gives signs of life, and answers when it makes no calls */
} gli_contact;

/* Signs of life, see heartbeat.c. A root's, and zeros in others. */
typedef struct gli_heartbeat {
  uint64_t due_ns;   /* something is to be done; 0, UINT64_MAX: nothing ever */
  uint64_t own_ns;   /* GLOO_HEARTBEAT; */
  uint64_t limit_ns; /* the same, or more where the rank before beats slowly:
                        the silence of that one after which it is missed */
  bool watches;      /* is that looked for? */
  /* The nearest ranks that are left: signs go to the one, and come from the
   * other. The own rank: there is none. */
  uint32_t next, before;
  /* To `next`, for signs alone, which has not answered yet: not in `peers`.
   * Nobody misses it if it fails. NULL: there is none. */
  gli_link *trial;
  bool met;            /* has it said so once? */
  bool beats;          /* does this rank give signs? */
  bool said;           /* has it said so once? */
  uint64_t pause_ns;   /* from turn to turn, at the start */
  uint32_t busy;       /* so many turns come twice as often */
  uint64_t heard_ns;   /* when there was one of theirs */
  uint64_t heard;      /* see gli_transport_ops */
  uint64_t doubted_ns; /* time was up; 0: it is not */
  uint64_t away_ns;    /* when this rank found that it had not run for so long
                          that others miss it; 0: it never has */
  bool was_away;       /* shortly before the context failed */
} gli_heartbeat;

/* Two ranks have called different things in one place: what others have called
 * there, which one is wrong (dispute.c). */
typedef struct gli_dispute {
  gli_header mine, theirs;
  uint32_t peer;  /* who called that, in the root context */
  uint32_t asked; /* other ranks */
  /* Ranks that called the one and the other, those two included, and a third
   * thing. */
  uint32_t with_us, with_them, elsewhere;
  /* Until then it takes a majority of all ranks; others are asked again, after
   * so long. 0: nobody was asked yet. */
  uint64_t heard_ns, again_ns, pause_ns;
} gli_dispute;

/* The uses of stores into the memory of other ranks, and classes of lengths:
 * each begins at twice the length of the one before. */
typedef enum gli_store_use {
  GLI_STORE_COPIES,
  GLI_STORE_SUMS,
  GLI_STORE_USES
} gli_store_use;
#define GLI_STORE_CLASS_MIN ((size_t)16 * 1024)
#define GLI_STORE_CLASSES 11

typedef struct gli_shrink gli_shrink;

/* A context that met its ranks is a root. Groups that are made of it, or of its
 * groups, are contexts that use its pairs; all together are a family, which
 * fails as one. See group_context.c. */
struct gloo_context {
  gloo_device *device;
  bool owns_device;
  uint32_t rank, size; /* size 0: a group in the making */
  uint64_t key;
  int64_t timeout_ns;
  uint32_t budget;       /* bytes that one peer may have here early */
  gli_peer *peers;       /* [size] */
  gli_contact *contacts; /* [size] of a root; NULL in groups */
  gli_link *links;       /* all of them */
  gli_hosts *hosts;      /* NULL: all ranks share one */
  gli_tuning *tuning;
  uint8_t choices; /* its hash, for signatures; 0: it has none */
  gli_subscription oversubscribed;
  bool maps;             /* ranks of a host reach each other's memory */
  bool buffers_promised; /* to be from gloo_alloc */

  gli_family *family;
  uint32_t root_rank; /* this rank, in the root of the family */
  uint32_t id;        /* what other ranks call it when they speak to this one */
  bool is_control;    /* where the ranks of another context make groups of it */
  gloo_context *control; /* of this one; made when first needed */

  gloo_error cause; /* why it is poisoned; status GLOO_OK: it is not */
  gli_posted news;  /* the same, or else the last refused call: for threads
                       without the lock */
  /* Of a root: why this rank gives up (gloo_context_abort_async); NULL: it does
   * not. No lock: signal handlers write it. */
  _Atomic(const char *) gives_up;
  /* Agreements of a root context, see failure/council.h. */
  gli_shrink *shrink;  /* it serves this agreement alone; NULL: it does not */
  gli_shrink *shrinks; /* those that it keeps; end_shrinks ends them */
  void (*end_shrinks)(gloo_context *root); /* NULL: it never kept any */
  bool shrunk;   /* a successor was asked for, or it has none: */
  bool forsaken; /* the others may have gone on without this rank */
  bool attended; /* ranks that want to shrink it are to be answered soon */
  uint64_t origin_key; /* of the context whose successor it is; */
  uint32_t *origin;    /* [size], the ranks there; NULL: of none */
  /* Of a root: a lost connection, to become the cause at suspect_ns. */
  gloo_error suspect;
  uint64_t suspect_ns;
  gloo_context *suspected; /* where: the root, or a group; NULL: that is gone */
  bool disputes;           /* it is what the dispute there is about */
  bool misses;             /* or a rank that left (failure/missed.c) */
  gli_dispute dispute;
  gli_heartbeat heartbeat;
  bool teardown_pending; /* a root: poisoned, but operations and links still
                            live */
  struct gloo_window *window; /* of a group that was made for one */
  bool closing; /* a group that was destroyed with operations under way: it ends
                   with the last of them */

  gli_store_policy policies[GLI_STORE_USES][GLI_STORE_CLASSES];

  gli_plan_cache *cache;
  gli_repeat *repeats;   /* NULL: none yet */
  gli_operation *all;    /* every operation with a handle or running */
  gli_operation *newest; /* to be found; the others are in the table */
  gli_key_table operations;
  gli_key_table early;   /* gli_early, for operations not started here */
  size_t n_early;        /* in that, and CTSs that its links keep */
  gli_key_table blocked; /* gli_transfer, of messages that wait on its links */
  gli_early *envelopes_first, *envelopes_last; /* unmatched p2p, as arrived */

  gli_trace *trace; /* the family's */
  /* What all its ranks call it: what its first rank calls it, and which that is
   * in the root. */
  uint32_t group_number;
  uint16_t group_first;
  gli_counters counters;  /* collectives started, per tag */
  gli_counters init_runs; /* of those that are matched by their making */
  uint32_t inits;         /* how many of these were made */

  bool asks; /* a root: its peers have to prove that they know job_key */
  uint8_t job_key[GLI_JOB_KEY_BYTES];

  gloo_context *next; /* root, or group of this family */
};

/* Holds the state that the contexts of a family share. */
struct gli_family {
  gloo_context *root;
  gli_trace *trace;           /* of what all of them did */
  gli_totals *totals;         /* the same, in figures */
  gli_snapshot_fn on_failure; /* NULL: none, or it was told; snapshot.h */
  void *on_failure_user;      /* freed with the family */
  bool orphaned;              /* it is destroyed; its pairs serve the groups */
  gli_operation_list active;  /* running, oldest first */
  /* Receives from any of several ranks that no message has met yet, and those
   * from one rank that have to wait behind them. */
  gli_operation_list posted;
  gli_operation_list idle; /* in a plan's pool, with scratch */
  uint64_t idle_bytes;     /* scratch of those */
  gloo_context *groups;    /* control contexts too */
  uint32_t last_id;
  gli_link *draining; /* of groups that are gone: they still have to send */
  gli_link **routes;  /* links of groups, by what arrives for them */
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
