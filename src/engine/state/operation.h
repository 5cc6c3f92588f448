/* Operations: one run of a plan at a time, and the object behind a handle of
 * the caller.
 *
 * A step runs when no step before it is pending, and its completion makes the
 * steps ready that wait for it (run/). life/ makes operations of calls,
 * entry/handle.c has the functions of callers. */
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
  GLI_OPERATION_POSTED, /* a receive that waits for any message */
  GLI_OPERATION_RUNNING
} gli_operation_state;

/* The kind of messages of an operation: those of a collective, or one that it
 * sends or receives. */
typedef enum gli_operation_side {
  GLI_COLLECTIVE,
  GLI_SEND_SIDE,
  GLI_RECV_SIDE
} gli_operation_side;

/* How far the search for the rank at fault has come: see probe.c. */
/* Is another rank to blame? */
typedef enum gli_cleared {
  GLI_SILENT,
  GLI_CROSSED,   /* it waits in another call, for this rank: neither goes on */
  GLI_ELSEWHERE, /* it waits in another call: perhaps for the one to blame */
  GLI_WITH_US    /* it waits in the same */
} gli_cleared;

typedef enum gli_blame_phase {
  GLI_ON_TIME,
  GLI_PROBING,
  GLI_LISTENING
} gli_blame_phase;

typedef enum gli_recv_state {
  GLI_RECV_UNREADY, /* waits for other steps */
  GLI_RECV_READY,   /* may be written to */
  GLI_RECV_ARRIVING,
  GLI_RECV_SHARED, /* and the sender stores some of it where it belongs */
  GLI_RECV_DONE
} gli_recv_state;

/* Per plan peer of an operation. */
typedef struct gli_op_peer {
  gli_link *link;
  bool granted;          /* the peer has started: send without credit */
  bool rts_sent;         /* RTS was sent */
  bool told;             /* CTS was sent */
  uint8_t cleared;       /* gli_cleared: what it answered to PROBE */
  uint32_t exposed_puts; /* ranges that it may write to now */
  /* Messages of this run in link->blocked, oldest first. */
  gli_transfer *blocked_first, *blocked_last;
} gli_op_peer;

/* A get or a put of a plan. */
typedef struct gli_op_window {
  gli_link *link;
  uint8_t *memory; /* NULL: a get to be read; a put not mapped */
  uint64_t rkey;   /* of a get */
  bool exposed;    /* a get of the peer's memory, not of bytes it sent */
  bool put;        /* a put: the result is there */
} gli_op_window;

/* Memory of this rank or a peer. */
typedef struct gli_source {
  gli_pair *pair;
  const uint8_t *memory; /* NULL: fetch it */
  uint64_t rkey;
} gli_source;

/* Room for the operands of one step. */
typedef struct gli_operands {
  size_t n, n_to;
  size_t n_windowed; /* so many of `to`, the first, are other ranks' */
  bool gets;
  gli_source *from;
  uint8_t **room; /* to fetch to; NULL where mapped */
  uint8_t **to;
  const void **srcs; /* for the kernel */
  void **dsts;
} gli_operands;

enum { GLI_NO_SHIFT = 0xff };

/* The message of a step that is taken in order, as far as it is the same in all
 * runs. */
typedef struct gli_message {
  gli_header header; /* the operation's number is the run's */
  const gli_step *step;
  gli_op_peer *peer; /* NULL: it is a local step, and the rest is not used */
  gli_link *link;    /* the peer's */
  gli_pair *pair;    /* and its, for send_now or take_now; NULL: not so */
  size_t elems;
} gli_message;

/* The first phase of a run (run/in_order.c).
 *
 *   active  at       what it means
 *   no      -        steps are counted (pending, ready), or it does not run
 *   yes     n_steps  at its end; only within in_order.c
 *   yes     a send or local step    about to go on; it is runnable
 *   yes     a receive, UNREADY      about to go on; it is runnable
 *   yes     a receive, READY        its link `awaits` the operation
 *
 * Written by in_order.c, but for `suits` (life/pool.c), and what a new call
 * resets: `allowed`, `prepared`, `fallbacks` (life/prepare.c, call_cache.c). */
typedef struct gli_in_order {
  bool suits;    /* the plan does */
  bool allowed;  /* and so does the call */
  bool prepared; /* links, counter and messages are known: runs can begin with
                    nothing but a number */
  bool active;
  uint8_t fallbacks;     /* how often in a row a send was not to be */
  uint32_t at;           /* the step that it has come to */
  gli_message *messages; /* of all steps */
} gli_in_order;

/* When an operation is late (failure/probe.c). */
typedef struct gli_deadline {
  int64_t timeout_ns; /* of the call; 0 or less: none */
  uint64_t at_ns;
  uint64_t timer_ns; /* when to look after it next; 0: the clock does not run
                        yet; UINT64_MAX: never. See deadline.h, which sets it */
  gli_blame_phase blame_phase;
  bool suspected; /* the time of a rank that waits for us is up */
} gli_deadline;

/* Holds the peers of a message. */
typedef struct gli_p2p {
  int64_t peer;    /* the one rank; -1: one of `candidates` */
  int *candidates; /* NULL: any */
  size_t n_candidates;
  int source; /* the rank that it came from; -1 */
} gli_p2p;

/* Holds the factor of GLOO_SCALED_SUM. */
typedef struct gli_scaling {
  double factor;    /* of what is joined, or, when it is not NULL, of `from` */
  const void *from; /* what it is multiplied with, */
  uint8_t *to;      /* where to, */
  uint8_t *own;     /* and memory for that */
  size_t count;
  bool joined;
} gli_scaling;

typedef struct gli_wide gli_wide;
typedef struct gli_staging gli_staging;
typedef struct gli_staged gli_staged;

/* Flags of the work after all steps. */
enum {
  GLI_ENDS_DIVIDED = 1,  /* the outputs, by the number of ranks */
  GLI_ENDS_NARROWED = 2, /* see gli_call.wide */
  GLI_ENDS_TOLD = 4,     /* its end may have to be told, see gli_notice */
  GLI_ENDS_STAGED = 8,   /* see gli_staging */
  GLI_ENDS_COPIED = 16   /* see gli_staged */
};

/* Requests that are started and tested with more ado than others: flags. */
enum {
  GLI_ODD_JOINED = 1,   /* others to it */
  GLI_ODD_NOTHING = 2,  /* a message that goes nowhere */
  GLI_ODD_QUEUED = 4,   /* its last run is yet to be told of */
  GLI_ODD_ORPHANED = 8, /* its context is gone */
  GLI_ODD_TELLING = 16, /* its function runs (state/telling.h); without a
                           context it may be set although that has returned */
  GLI_ODD_ENDING = 32   /* it is being destroyed */
};

/* One of the requests that it waits for; the thread's, as the bell is. */
typedef struct gli_watcher {
  gli_bell *bell;
  struct gli_watcher *next;
} gli_watcher;

/* The report that a request has ended (run/told.c, drive/tell.c).
 *
 *   queued  told  meaning
 *   no      no    it is pending, or was never started
 *   yes     no    it has ended: in device->told until its function is called,
 *                 or it is freed because it was released
 *   no      yes   it has ended, and its function was called for this run, or
 *                 there was none to call
 *
 * For a joined request, its first operation holds it. */
typedef struct gli_notice {
  gloo_request_fn function; /* NULL: none */
  void *user;
  gli_watcher *watchers;
  gli_operation *before, *next; /* in device->told */
  bool queued, told;
  bool released; /* no handle: it is freed when it is over */
} gli_notice;

struct gloo_request {
  gloo_context *context; /* NULL once the context is destroyed */
  atomic_bool orphaned;  /* the same, for a thread without the lock: a group
                            that was destroyed ends with its last operation */
  gloo_device *device;   /* lives until the operation is detached */
  gli_plan_ref *ref;
  const gli_plan *plan;

  atomic_uchar state;    /* gli_operation_state, see gli_operation_becomes */
  uint8_t odd;           /* GLI_ODD_...: what keeps it from the short ways */
  gli_operation **owner; /* if held: where its holder has it; else NULL */
  gli_operation *also; /* the next one that was joined to this; has no handle */
  gli_operation *head; /* of those, the one that has it; NULL: this one */
  gloo_error error;    /* of the last run; status GLOO_OK when none */
  gloo_status orphaned_by; /* why it cannot be started once `context` is NULL:
                              what the context had failed of, or CANCELLED */

  gli_header signature;  /* what every message of it carries */
  uint8_t side;          /* gli_operation_side */
  gli_trace_about about; /* for the record of a run */
  uint64_t started;      /* the last run, in ticks */
  uint64_t runs, ticks;  /* that went well, and how long they took; those that
                            are not in the family's totals yet */
  uint64_t *counter;     /* what numbers its runs, of its tag: the context's, or
                            for messages its link's; NULL: not looked for yet, or
                            there is none */
  bool pairwise;         /* gli_collective_pairwise of it */
  uint8_t elem_shift;    /* log2 of the size of elements, or GLI_NO_SHIFT */
  bool cts_unasked; /* it expects much from some peer, and says CTS unasked */
  uint32_t receives_until; /* no step from this one on is a receive */
  uint32_t last_sends;     /* how many of those are sends */
  gli_reduce_fn reduce;
  gli_combine_fn combine; /* plans with n_operands only */
  gli_custom_call custom; /* instead of both, when its op is not NULL */
  gloo_custom_op *held_custom;
  gli_scaling scaling;
  uint8_t ending; /* GLI_ENDS_... */
  gli_notice notice;
  gli_wide *wide;       /* NULL: not wide; else scaling.from is only not NULL */
  gli_staging *staging; /* NULL: none; else scaling.from is not NULL: this one,
                           unless it is something that is to be scaled */
  gli_staged *staged;   /* the same */
  uint8_t *base[GLI_BUFFERS];
  const void **ins; /* of several inputs, outputs; plan->params says how many */
  void **outs;
  uint8_t *scratch;
  bool nontemporal; /* outputs are stored non-temporally */
  gli_deadline deadline;
  gli_p2p p2p;
  gli_in_order in_order;

  uint32_t steps_todo;
  uint32_t ready_head, ready_tail;
  bool runnable; /* in device->runnable or device->deferred */
  bool deferred; /* in the latter */
  gli_operation *runnable_next;
  gli_operation *deferred_before; /* in device->deferred */
  gli_early *early;

  bool noted; /* something of peers, by gli_operation_note */

  /* Arrays of the plan's sizes, in the same allocation. */
  gli_op_peer *peers;
  uint32_t *pending; /* steps that each step still waits for */
  uint32_t *ready;   /* queue of steps that may run */
  uint8_t *recv_state;
  gli_op_window *windows;
  gli_operands operands;

  gli_operation *active_prev, *active_next; /* in ->active, posted or idle */
  gli_keyed keyed;                          /* in context->operations */
  gli_operation *all_prev, *all_next;       /* context->all */
  gli_operation *pool_next;
  bool marked; /* seen, in a call that looks through a list of requests */
  uint32_t pool_depth; /* in a pool: how many there are from here on */
  size_t bytes;        /* of this allocation, without scratch */
};

typedef struct gli_operation_list {
  gli_operation *first, *last;
} gli_operation_list;

/* ---- its peers ----------------------------------------------------------- */

/* To note something of this run. */
static inline gli_op_peer *gli_operation_note(gli_operation *op,
                                              uint32_t peer) {
  op->noted = true;
  return &op->peers[peer];
}

/* ---- its buffers --------------------------------------------------------- */

/* Its bytes. The base of TOKEN, and of a buffer that this rank does not have,
 * is NULL: the result is never dereferenced then, but C does not define adding
 * to a null pointer, so integers are added. */
static inline uint8_t *gli_operation_at(const gli_operation *op, uint8_t buffer,
                                        uint64_t offset) {
  return (uint8_t *)((uintptr_t)op->base[buffer] + (uintptr_t)offset);
}
/* How many elements they are; what is not a power of two is divided by, which
 * takes as long as all the rest of adding a few numbers. */
static inline size_t gli_operation_elems(const gli_operation *op,
                                         size_t bytes) {
  if (op->elem_shift != GLI_NO_SHIFT) return bytes >> op->elem_shift;
  return bytes / (size_t)op->plan->params.elem_bytes;
}
/* Does this step store non-temporally? Not what a later one needs. */
static inline bool gli_operation_is_nontemporal(const gli_operation *op,
                                                uint32_t step) {
  const uint32_t *first = &op->plan->next_first[step];
  return op->nontemporal && first[0] == first[1];
}
static inline bool gli_operation_is_message(const gli_operation *op) {
  return op->side != GLI_COLLECTIVE;
}

/* ---- its state ----------------------------------------------------------- */

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
/* Is it, or what was joined to it? */
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

/* The cursor is of no use any more, and no message is for it. */
static inline void gli_in_order_stop(gli_operation *op) {
  uint32_t at = op->in_order.at;
  op->in_order.active = false;
  if (at == op->plan->n_steps || op->recv_state[at] == GLI_RECV_UNREADY) return;
  gli_link *link = op->in_order.messages[at].link;
  if (link->awaits == op) link->awaits = NULL;
}

#endif
