/* Devices: a transport, its lock, and the threads that wait for it.
 *
 * A device may serve several contexts. It knows which operations have steps to
 * run; the thread that holds the lock runs them before letting go of it. */
#ifndef GLI_ENGINE_STATE_DEVICE_H
#define GLI_ENGINE_STATE_DEVICE_H

#include <stdatomic.h>
#include <uv.h>

#include "core/fork.h"
#include "engine/state/context.h"
#include "engine/state/early.h"
#include "engine/state/link.h"
#include "engine/state/lock.h"
#include "engine/state/operation.h"

typedef enum gli_wait_mode {
  GLI_WAIT_ADAPT,
  GLI_WAIT_SPIN,
  GLI_WAIT_YIELD,
  GLI_WAIT_SLEEP
} gli_wait_mode;

/* The threads in a wait, and what they have learnt about waiting. wait.c and,
 * in a forked child, forked.c alone write it. */
typedef struct gli_waiting {
  gli_wait_mode mode;     /* forced by GLOO_WAIT */
  uint64_t yield_ns;      /* how long to yield before sleeping: learnt */
  unsigned sharing;       /* signs that others run on this core: learnt */
  uint64_t nap_ns;        /* not before then to another core by a nap */
  uint64_t nap_period_ns; /* from the last nap to the next; 0: none yet */
  uint64_t ticks;         /* that a thread which waits has just looked at; 0:
                             that was too long ago */
  uint32_t waiters;       /* threads */
  uint32_t sleepers; /* of those, and the helper: asleep in the transport */
  /* Sleepers that were woken and have not come back. One that is on its way to
   * sleep may miss it when another thread polls at that moment: it is repeated.
   * to_wake <= sleepers <= waiters + 1. */
  uint32_t to_wake;
} gli_waiting;

/* The thread that polls while no caller does (helper.c). `exists`: it was
 * started; `idle`: it has nothing to do until it is woken, and is the thread's
 * own word; `stop`: it is to end. */
typedef struct gli_helper {
  bool exists, idle, stop;
  uv_thread_t thread;
  uv_mutex_t lock; /* taken with the device's held, to wait and to wake */
  uv_cond_t wake;
} gli_helper;

/* The state of a device after a fork (forked.c; the first lock of it in the
 * child clears `pending`). `locked` is the parent's, during a fork. In the
 * child:
 *
 *   pending  child  torn
 *   yes      no     -     not used yet: the lock of the device is still held
 *   no       yes    no    a copy, whose operations have failed
 *   no       yes    yes   the same, copied during a change: not to be read */
typedef struct gli_device_fork {
  gli_fork_watch watch;
  bool locked;
  atomic_bool pending;
  bool child, torn;
} gli_device_fork;

/* What gloo_device_get_fd gives out. */
typedef struct gli_event {
  bool open;
  bool signalled; /* there is a byte in the pipe */
  int fds[2];     /* of a pipe: to wait on, and to write to */
} gli_event;

struct gloo_device {
  const gli_transport_ops *ops;
  gli_transport *transport;
  unsigned tls; /* see gli_device_note_tls */
  gli_lock lock;
  atomic_uint lock_wanted; /* threads that wait for the lock; no lock needed */
  atomic_bool oversubscribed; /* no lock needed */
  gli_waiting wait;
  gloo_context *contexts;
  /* There may be something in pending_links, staged, self_queue or deferred:
   * polls see to these. */
  bool leftovers;
  bool suspects; /* a context has lost a connection, and waits for the cause */
  bool asked;    /* a link has a question (PROBE) without an answer */
  bool beats;    /* a context has a heartbeat */
  gli_link *pending_links;
  gli_operation *staged; /* with copies to begin or end, see gli_staged */
  gli_transfer_list self_queue; /* messages of ranks to themselves */
  gli_transfer_list finished;   /* sent: their steps are to be told */
  gli_transfer *free_transfers;
  gli_early *free_early[GLI_EARLY_CLASSES];
  uint64_t free_long; /* bytes of the long ones among them */
  /* Operations with steps to run, or just finished, as they became so. */
  gli_operation *runnable, *runnable_last;
  /* Started, but left to the thread that polls next, so that many at once
   * neither keep the caller nor fill all links: every poll takes one of them.
   */
  gli_operation *deferred, *deferred_last;
  gli_operation *unlisted; /* the one that has begun last, see run.h */
  size_t outstanding;      /* operations posted or running */
  uint64_t timers_ns;      /* no timer of these is due before (deadline.h) */
  uint32_t windows;  /* which others may use at any time, so somebody polls */
  uint32_t attended; /* contexts that are, for which the same holds */
  uint32_t owners;   /* contexts that the device is to end with */
  unsigned unpolled; /* times that were done without a poll, since the last */
  /* Results of a transport's functions: not on the stack of the hottest
   * functions, which would get a canary for them. */
  gli_taken taken;  /* of take_now */
  uint64_t rkey;    /* of rkey_pack, where only its success is asked for */
  size_t completed; /* ever; lets a poller see that something ended */
  union {
    struct {
      /* Pending output that no operation waits for: control messages, and what
       * the transport owes (gli_owe). While there is some, the helper polls. */
      uint32_t owed;
      uint16_t teardowns_pending; /* not 0: a context waits for
                                     gli_context_finish_teardown */
      uint16_t tells_pending;     /* not 0: there are some in `told` */
    };
    uint64_t loose_ends; /* 0: none of this */
  };

  /* Completed requests whose functions are to be called (gli_notice). */
  gli_operation *told, *told_last;
  uint32_t closings; /* groups that end with their last operation */
  gli_event event;

  gli_birth birth;
  gli_device_fork fork;
  gli_helper helper;
};

/* An operation has steps to run, or is done: the thread that holds the lock
 * sees to it. */
static inline void gli_operation_make_runnable(gli_operation *op) {
  if (op->runnable) return;
  op->runnable = true;
  op->runnable_next = NULL;
  gloo_device *device = op->device;
  if (device->runnable != NULL) {
    device->runnable_last->runnable_next = op;
  } else {
    device->runnable = op;
  }
  device->runnable_last = op;
}

/* May something be done without a poll once more (and counted in `unpolled`)?
 * Polls see to everything, so there has to be one now and then. */
enum { GLI_UNPOLLED_MAX = 64 };
static inline bool gli_device_may_do_without(const gloo_device *device) {
  return device->unpolled < GLI_UNPOLLED_MAX;
}

#endif
