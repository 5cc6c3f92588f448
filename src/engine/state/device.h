/* Devices: a transport, its lock, and the threads that wait for it.
 *
 * A device may serve several contexts. It lists the operations that have steps
 * to run; the thread that holds the lock runs them before it releases the
 * lock. */
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

/* State of the waiting threads, and parameters learnt from earlier waits.
 * Written by wait.c only and, in a forked child, by forked.c. */
typedef struct gli_waiting {
  gli_wait_mode mode; /* forced by GLOO_WAIT */
  uint64_t yield_ns;  /* time to yield before sleeping; learnt */
  unsigned sharing;   /* evidence that others run on this core; learnt */
  uint64_t nap_ns; /* time of the next nap, which may move the thread to another
                      core */
  uint64_t nap_period_ns; /* time between naps; 0 before the first */
  uint64_t ticks; /* recent value of the counter, read by a waiting thread; 0 if
                     it is too old */
  uint32_t waiters;  /* number of waiting threads */
  uint32_t sleepers; /* threads asleep in the transport, the helper included */
  /* Sleepers that were woken and have not returned. A wakeup may miss a thread
   * that is about to sleep while another thread polls, so it is repeated.
   * to_wake <= sleepers <= waiters + 1. */
  uint32_t to_wake;
} gli_waiting;

/* The thread that polls while no caller does (helper.c). `exists`: it was
 * started. `idle`: it has nothing to do until it is woken; the thread itself
 * sets it. `stop`: it must end. */
typedef struct gli_helper {
  bool exists, idle, stop;
  uv_thread_t thread;
  uv_mutex_t lock; /* taken with the device's lock held, to wait and to wake */
  uv_cond_t wake;
} gli_helper;

/* The state of a device after a fork (forked.c; the first lock of it in the
 * child clears `pending`). `locked` is the parent's, during a fork. In the
 * child:
 *
 *   pending  child  torn
 *   yes      no     -     not used yet: the lock of the device is still held
 *   no       yes    no    a copy, whose operations have failed
 *   no       yes    yes   a copy made during a change: must not be read */
typedef struct gli_device_fork {
  gli_fork_watch watch;
  bool locked;
  atomic_bool pending;
  bool child, torn;
} gli_device_fork;

/* The event behind the descriptor of gloo_device_get_fd. */
typedef struct gli_event {
  bool open;
  bool signalled; /* a byte is in the pipe */
  int fds[2];     /* read end to wait on, and write end */
} gli_event;

struct gloo_device {
  const gli_transport_ops *ops;
  gli_transport *transport;
  unsigned tls; /* see gli_device_note_tls */
  gli_lock lock;
  atomic_uint lock_wanted;    /* threads that wait for it; needs no lock */
  atomic_bool oversubscribed; /* needs no lock */
  gli_waiting wait;
  gloo_context *contexts;
  /* Set if pending_links, staged, self_queue or deferred may have entries, or
   * flushes may continue, which polls handle. */
  bool leftovers;
  bool suspects; /* a context has lost a connection, and waits for the cause */
  bool asked;    /* a link has an unanswered question (PROBE) */
  bool beats;    /* a context has a heartbeat */
  gli_link *pending_links;
  gli_operation *staged; /* with copies to begin or end, see gli_staged */
  gli_transfer_list self_queue; /* messages of ranks to themselves */
  gli_transfer_list finished;   /* sent messages with steps to complete */
  gli_transfer *free_transfers;
  gli_early *free_early[GLI_EARLY_CLASSES];
  uint64_t free_long; /* bytes of the long ones */
  /* Operations with steps to run, or just finished, oldest first. */
  gli_operation *runnable, *runnable_last;
  /* Started operations that are left to the thread that polls next: each poll
   * takes one, so that many starts at once neither keep the caller nor fill all
   * links. */
  gli_operation *deferred, *deferred_last;
  gli_operation *unlisted; /* the operation that began last, see run.h */
  size_t outstanding;      /* number of operations posted or running */
  uint64_t timers_ns;      /* no timer is due before this (deadline.h) */
  uint32_t windows;  /* windows, which other ranks may use at any time: poll */
  uint32_t flushes;  /* pending flushes of windows that are requests */
  uint32_t attended; /* attended contexts, which need polling as well */
  uint32_t owners;   /* contexts that own the device; it ends with the last */
  unsigned unpolled; /* number of times without a poll since the last one */
  /* Results of functions of the transport. On the stack of the hottest
   * functions they would cost a stack canary. */
  gli_taken taken;  /* result of take_now */
  uint64_t rkey;    /* result of rkey_pack, where only its success matters */
  size_t completed; /* number of completed operations; never decreases */
  union {
    struct {
      /* Pending output that no operation waits for: control messages, and
       * undelivered data (gli_mark_undelivered). The helper polls while it is
       * not 0. */
      uint32_t owed;
      uint16_t teardowns_pending; /* not 0 if a context waits for
                                     gli_context_finish_teardown */
      uint16_t notices_pending;   /* not 0 if `told` is not empty */
    };
    uint64_t unsettled; /* 0 if nothing above is pending */
  };

  /* Completed requests whose functions must be called (gli_notice). */
  gli_operation *told, *told_last;
  uint32_t closings; /* number of groups that end with their last operation */
  gli_event event;

  gli_birth birth;
  gli_device_fork fork;
  gli_helper helper;
};

/* Waits for the lock. Threads that poll see that one waits. */
static inline void gli_device_wait_lock(gloo_device *device) {
  atomic_fetch_add(&device->lock_wanted, 1);
  gli_lock_wait(&device->lock);
  atomic_fetch_sub(&device->lock_wanted, 1);
}

/* Queues an operation that has steps to run, or is done. The thread that holds
 * the lock runs it. */
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

/* Number of times that something may be done without a poll (counted in
 * `unpolled`). Polls handle everything, so one is needed now and then. */
enum { GLI_UNPOLLED_MAX = 64 };
static inline bool gli_device_may_skip_poll(const gloo_device *device) {
  return device->unpolled < GLI_UNPOLLED_MAX;
}

#endif
