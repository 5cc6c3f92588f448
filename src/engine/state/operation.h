/* Operations: each runs a plan, one run at a time, and is the object behind a
 * handle of the caller.
 *
 * A step runs when no step before it is pending, and its completion makes the
 * steps ready that wait for it (run/). life/ makes operations from calls,
 * entry/handle.c has the functions for callers. */
#ifndef GLI_ENGINE_STATE_OPERATION_H
#define GLI_ENGINE_STATE_OPERATION_H

#include <stdatomic.h>
#include <string.h>

#include "engine/state/early.h"
#include "engine/state/link.h"
#include "engine/state/lock.h"
#include "engine/state/trace_buffer.h"
#include "kernels/custom_op.h"
#include "plan/cache.h"

typedef enum gli_operation_state {
  GLI_OPERATION_IDLE,
  GLI_OPERATION_DONE,
  GLI_OPERATION_POSTED, /* a receive that no message is
                           bound to yet */
  GLI_OPERATION_RUNNING
} gli_operation_state;

/* The kind of messages of an operation: those of a collective, or one message
 * that it sends or receives. */
typedef enum gli_operation_side {
  GLI_COLLECTIVE,
  GLI_SEND_SIDE,
  GLI_RECV_SIDE
} gli_operation_side;

/* State of the search for the rank at fault (probe.c): gli_cleared is the
 * answer of a peer, gli_blame_phase the progress of an operation. */
typedef enum gli_cleared {
  GLI_SILENT,
  GLI_CROSSED,   /* it waits in another call, for this rank: a
                    deadlock */
  GLI_ELSEWHERE, /* it waits in another call, perhaps for the rank at fault */
  GLI_WITH_US    /* it waits in the same call */
} gli_cleared;

typedef enum gli_blame_phase {
  GLI_ON_TIME,
  GLI_PROBING,
  GLI_LISTENING
} gli_blame_phase;

typedef enum gli_recv_state {
  GLI_RECV_UNREADY, /* earlier steps are pending */
  GLI_RECV_READY,   /* the destination may be written */
  GLI_RECV_ARRIVING,
  GLI_RECV_SHARED, /* arriving, and the sender stores part
                      of it in place */
  GLI_RECV_DONE
} gli_recv_state;

/* State of a peer of the plan. */
typedef struct gli_op_peer {
  gli_link *link;
  bool granted;          /* the peer has started: send without credit */
  bool rts_sent;         /* RTS was sent */
  bool told;             /* CTS was sent */
  uint8_t cleared;       /* gli_cleared: its answer to PROBE */
  uint32_t exposed_puts; /* number of ranges that the peer may write to now */
  /* Messages of this run in link->blocked, oldest first. */
  gli_transfer *blocked_first, *blocked_last;
} gli_op_peer;

/* A get or a put of a plan. */
typedef struct gli_op_window {
  gli_link *link;
  uint8_t *memory; /* NULL if the get must be read, or the put is not mapped */
  uint64_t rkey;   /* rkey of a get */
  bool exposed; /* true if a get reads memory of the peer, not bytes it sent */
  bool put;     /* true once a put has stored the result */
} gli_op_window;

/* A source of bytes, in memory of this rank or of a peer. */
typedef struct gli_source {
  gli_pair *pair;
  const uint8_t *memory; /* NULL if it must be fetched */
  uint64_t rkey;
} gli_source;

/* Working arrays for the operands of one step. */
typedef struct gli_operands {
  size_t n, n_to;
  size_t n_windowed; /* number of entries of `to`, from the first, in memory of
                        other ranks */
  bool gets;
  gli_source *from;
  uint8_t **room; /* buffers to fetch into; NULL where mapped */
  uint8_t **to;
  const void **srcs; /* arguments of the kernel */
  void **dsts;
} gli_operands;

enum { GLI_NO_SHIFT = 0xff };

/* The message of a step that runs in order, as far as it is equal in all
 * runs. */
typedef struct gli_message {
  gli_header header; /* each run sets the operation number */
  const gli_step *step;
  gli_op_peer *peer; /* NULL for a local step, which uses nothing below */
  gli_link *link;    /* link to the peer */
  gli_pair *pair;    /* pair of the peer for send_now or take_now; NULL if not
                        usable */
  size_t elems;
} gli_message;

/* First phase of a run (run/in_order.c).
 *
 *   active  at       meaning
 *   no      -        steps are counted (pending, ready), or it does not run
 *   yes     n_steps  at its end; only within in_order.c
 *   yes     a send or local step    about to continue; it is runnable
 *   yes     a receive, UNREADY      about to continue; it is runnable
 *   yes     a receive, READY        its link `awaits` the operation
 *
 * Written by in_order.c, except `suits` (life/pool.c), and what a new call
 * resets: `allowed`, `prepared`, `fallbacks` (life/prepare.c, call_cache.c). */
typedef struct gli_in_order {
  bool suits;    /* the plan can run in order */
  bool allowed;  /* the call can, too */
  bool prepared; /* links, counter and messages are known: a run needs only a
                    number to begin */
  bool active;
  uint8_t fallbacks; /* number of consecutive runs that fell back at a send */
  uint32_t at;       /* current step */
  gli_message *messages; /* one per step */
} gli_in_order;

/* The deadline of an operation (failure/probe.c). */
typedef struct gli_deadline {
  int64_t timeout_ns; /* timeout of the call; none if 0 or less */
  uint64_t at_ns;
  uint64_t timer_ns; /* time of the next check; 0 while the clock is stopped,
                        UINT64_MAX for never. Set by deadline.h */
  gli_blame_phase blame_phase;
  bool suspected; /* a rank that waits for this one has passed its deadline */
} gli_deadline;

/* The peers of a message. */
typedef struct gli_p2p {
  int64_t peer;    /* the rank if there is one; -1 for any of `candidates` */
  int *candidates; /* NULL for any rank */
  size_t n_candidates;
  int source; /* rank that the message came from; -1 if none yet */
} gli_p2p;

/* The factor of GLOO_SCALED_SUM. */
typedef struct gli_scaling {
  double factor;    /* factor of the joined inputs, or of `from` if it is set */
  const void *from; /* input to multiply */
  uint8_t *to;      /* destination of the product */
  uint8_t *own;     /* memory of the operation for it; NULL if in place */
  size_t count;
  bool joined;
} gli_scaling;

typedef struct gli_wide gli_wide;
typedef struct gli_staging gli_staging;
typedef struct gli_staged gli_staged;

/* Flags of the work after all steps. */
enum {
  GLI_ENDS_DIVIDED = 1,  /* divide the outputs by the number of ranks */
  GLI_ENDS_NARROWED = 2, /* round the outputs, see gli_call.wide */
  GLI_ENDS_TOLD = 4,     /* report the end, see gli_notice */
  GLI_ENDS_STAGED = 8,   /* copy staged buffers back, see gli_staging */
  GLI_ENDS_COPIED = 16   /* end the copies of GPU memory, see gli_staged */
};

/* Flags of requests that start and test on the slow path. */
enum {
  GLI_ODD_JOINED = 1,   /* other requests are joined to it */
  GLI_ODD_NOTHING = 2,  /* its plan has no steps */
  GLI_ODD_QUEUED = 4,   /* the end of its last run is not reported yet */
  GLI_ODD_ORPHANED = 8, /* its context is destroyed */
  GLI_ODD_TELLING = 16, /* its function runs (state/callback.h); without a
                           context it may stay set after the return */
  GLI_ODD_ENDING = 32,  /* it is being destroyed */
  GLI_ODD_FLUSH = 64    /* it is a flush of a window (engine/rma) */
};

/* Entry of a waiting thread in the list of a request. The thread owns the entry
 * and its bell. */
typedef struct gli_watcher {
  gli_bell *bell;
  struct gli_watcher *next;
} gli_watcher;

/* The notice that a request has ended (run/completion.c, drive/notify.c).
 *
 *   queued  told  meaning
 *   no      no    it is pending, or was never started
 *   yes     no    it has ended: in device->told until its function is called,
 *                 or it is freed because it was released
 *   no      yes   it has ended, and its function was called for this run, or
 *                 it has no function
 *
 * The first operation of a joined request holds it. */
typedef struct gli_notice {
  gloo_request_fn function; /* NULL if none */
  void *user;
  gli_watcher *watchers;
  gli_operation *before, *next; /* in device->told */
  bool queued, told;
  bool released; /* no handle: freed at its end */
} gli_notice;

struct gloo_request {
  gloo_context *context; /* NULL once the context is destroyed */
  atomic_bool orphaned;  /* true once `context` is NULL; read by threads without
                            the lock; a destroyed group ends with its last
                            operation */
  gloo_device *device;   /* valid until the operation is detached */
  gli_plan_ref *ref;
  const gli_plan *plan;

  atomic_uchar state;    /* gli_operation_state, see gli_operation_becomes */
  uint8_t odd;           /* GLI_ODD_...: reasons for the slow path */
  gli_operation **owner; /* the pointer of its holder to it; NULL if not held */
  gli_operation *also;   /* next operation joined to this one; has no handle */
  gli_operation *head; /* first of the joined operations, which has the handle;
                          NULL if this one */
  gloo_error error;    /* error of the last run; status GLOO_OK if none */
  gloo_status orphaned_by; /* why it cannot start once `context` is NULL: status
                              of the failed context, or CANCELLED */

  gli_header signature;  /* fields that all its messages carry */
  uint8_t side;          /* gli_operation_side */
  gli_trace_about about; /* description in the record of a run */
  uint64_t started;      /* start of the last run, in ticks */
  uint64_t runs, ticks;  /* number and duration of successful runs that are not
                            in the family's totals yet */
  uint64_t *counter;     /* counter that numbers its runs, of its tag: the
                            context's, or for messages the link's; NULL if not
                            looked up yet, or none */
  bool pairwise;         /* gli_collective_pairwise of its collective */
  uint8_t elem_shift;    /* log2 of the size of elements, or GLI_NO_SHIFT */
  bool cts_unasked; /* it expects much from some peer, and sends CTS unasked */
  uint32_t receives_until; /* index behind the last receive step */
  uint32_t last_sends;     /* number of sends from that step on */
  gli_reduce_fn reduce;
  gli_combine_fn combine; /* plans with n_operands only */
  gli_custom_call custom; /* replaces both if its op is not NULL */
  gloo_custom_op *held_custom;
  gli_scaling scaling;
  uint8_t ending; /* GLI_ENDS_... */
  gli_notice notice;
  gli_wide *wide; /* NULL if not wide; otherwise scaling.from only marks that
                     input must be made */
  gli_staging *staging; /* NULL if none; otherwise scaling.from is not NULL:
                           this one, unless an input must be scaled */
  gli_staged *staged;   /* as for `staging` */
  uint8_t *base[GLI_BUFFERS];
  const void **ins; /* lists of several inputs and outputs; sizes in
                       plan->params */
  void **outs;
  uint8_t *scratch;
  bool nontemporal; /* outputs are stored non-temporally */
  gli_deadline deadline;
  gli_p2p p2p;
  gli_in_order in_order;

  uint32_t steps_todo;
  uint32_t ready_head, ready_tail;
  bool runnable; /* member of device->runnable or device->deferred */
  bool deferred; /* member of device->deferred */
  gli_operation *runnable_next;
  gli_operation *deferred_before; /* in device->deferred */
  gli_early *early;

  bool noted; /* `peers` has state of this run (gli_operation_note) */

  /* Arrays sized by the plan, in the same allocation. */
  gli_op_peer *peers;
  uint32_t *pending; /* number of pending steps that each step waits for */
  uint32_t *ready;   /* queue of steps that may run */
  uint8_t *recv_state;
  gli_op_window *windows;
  gli_operands operands;

  gli_operation *active_prev, *active_next; /* in a list of the family:
                                               active, posted or idle */
  gli_keyed keyed;                          /* in context->operations */
  gli_operation *all_prev, *all_next;       /* context->all */
  gli_operation *pool_next;
  bool marked;         /* visited by a call that walks a list of requests */
  uint32_t pool_depth; /* length of the pool from here on */
  size_t bytes;        /* size of this allocation, without scratch */
};

typedef struct gli_operation_list {
  gli_operation *first, *last;
} gli_operation_list;

/* ---- peers --------------------------------------------------------------- */

/* Returns a peer whose state of this run is about to change. */
static inline gli_op_peer *gli_operation_note(gli_operation *op,
                                              uint32_t peer) {
  op->noted = true;
  return &op->peers[peer];
}

/* ---- buffers ------------------------------------------------------------- */

/* Returns the address of an offset in a buffer. The base of TOKEN, and of a
 * buffer that this rank does not have, is NULL: the result is never
 * dereferenced then, but C does not define adding to a null pointer, so
 * integers are added. */
static inline uint8_t *gli_operation_at(const gli_operation *op, uint8_t buffer,
                                        uint64_t offset) {
  return (uint8_t *)((uintptr_t)op->base[buffer] + (uintptr_t)offset);
}
/* Returns the number of elements in `bytes`. A size that is not a power of two
 * needs a division, which takes as long as the rest of adding a few numbers. */
static inline size_t gli_operation_elems(const gli_operation *op,
                                         size_t bytes) {
  if (op->elem_shift != GLI_NO_SHIFT) return bytes >> op->elem_shift;
  return bytes / (size_t)op->plan->params.elem_bytes;
}
/* Returns true if the step stores non-temporally: never what a later step
 * needs. */
static inline bool gli_operation_is_nontemporal(const gli_operation *op,
                                                uint32_t step) {
  const uint32_t *first = &op->plan->next_first[step];
  return op->nontemporal && first[0] == first[1];
}
static inline bool gli_operation_is_message(const gli_operation *op) {
  return op->side != GLI_COLLECTIVE;
}

/* ---- state --------------------------------------------------------------- */

static inline bool gli_operation_is_orphaned(const gli_operation *op) {
  return atomic_load_explicit(&op->orphaned, memory_order_acquire);
}
/* Sets the state, with the lock of the device held. Other threads read the end
 * of an operation without the lock: a thread that sees it sees all writes
 * before it. */
static inline void gli_operation_becomes(gli_operation *op,
                                         gli_operation_state state) {
  atomic_store_explicit(&op->state, (unsigned char)state, memory_order_release);
}
static inline bool gli_operation_is(const gli_operation *op,
                                    gli_operation_state state) {
  return atomic_load_explicit(&op->state, memory_order_acquire) == state;
}
static inline bool gli_operation_is_running(const gli_operation *op) {
  return atomic_load_explicit(&op->state, memory_order_acquire) >=
         GLI_OPERATION_POSTED;
}
/* Returns true if the operation or any joined operation runs. */
static inline bool gli_operation_any_running(const gli_operation *head) {
  const gli_operation *op = head;
  while (op != NULL && !gli_operation_is_running(op)) op = op->also;
  return op != NULL;
}

/* ---- lists --------------------------------------------------------------- */

static inline void gli_operation_list_add(gli_operation_list *list,
                                          gli_operation *op) {
  op->active_next = NULL;
  op->active_prev = list->last;
  if (list->last != NULL) {
    list->last->active_next = op;
  } else {
    list->first = op;
  }
  list->last = op;
}

static inline void gli_operation_list_remove(gli_operation_list *list,
                                             gli_operation *op) {
  if (op->active_prev != NULL) {
    op->active_prev->active_next = op->active_next;
  } else {
    list->first = op->active_next;
  }
  if (op->active_next != NULL) {
    op->active_next->active_prev = op->active_prev;
  } else {
    list->last = op->active_prev;
  }
}

/* ---- in order ------------------------------------------------------------ */

/* Ends the phase in order: the cursor is no longer used, and no message is for
 * it. */
static inline void gli_in_order_stop(gli_operation *op) {
  uint32_t at = op->in_order.at;
  op->in_order.active = false;
  if (at == op->plan->n_steps || op->recv_state[at] == GLI_RECV_UNREADY) return;
  gli_link *link = op->in_order.messages[at].link;
  if (link->awaits == op) link->awaits = NULL;
}

#endif
