/* A table of running completion functions (gli_notice), and of threads that
 * wait for one of them to return.
 *
 * The table is one for the process: a completion function may destroy a request
 * of another device, whose function runs in another thread, and then waits for
 * that thread. A thread waits for one function at a time. It does not wait for
 * a function that it runs itself, nor for one whose thread waits, directly or
 * through others, for this thread: that is a deadlock.
 *
 * The table's own mutex is taken with or without a device's lock held, and no
 * other lock is taken under it. */
#ifndef GLI_ENGINE_STATE_TELLING_H
#define GLI_ENGINE_STATE_TELLING_H

#include <stdbool.h>
#include <uv.h>

#include "engine/state/context.h"
#include "engine/state/operation.h"

/* One call of a completion function. Fields are written with the mutex held, by
 * the calling thread and by threads that destroy the request or the context. */
typedef struct gli_telling {
  uv_thread_t thread;
  const gloo_device *device;   /* NULL: the request's context is destroyed */
  gli_operation *head;         /* NULL: the request is destroyed */
  const gloo_context *context; /* of `head`; NULL: it is destroyed */
  const gli_family *family;    /* of `context`, and NULL with it */
  bool mixed; /* the request joins operations of several contexts */
  struct gli_telling *next;
} gli_telling;

/* A predicate: whether a call concerns `what`. The mutex is held. */
typedef bool (*gli_telling_match)(const gli_telling *telling, const void *what);

/* A thread that waits. */
typedef struct gli_telling_waiter {
  uv_thread_t thread;
  const gli_telling *awaited; /* NULL: it has returned */
  struct gli_telling_waiter *next;
} gli_telling_waiter;

/* Makes the table, once. False: out of memory or locks. */
bool gli_telling_prepare(void);

/* Around a call of the function of `head`; with the lock of `device` held,
 * where it is not NULL. */
void gli_telling_begin(gli_telling *telling, gloo_device *device,
                       gli_operation *head);
void gli_telling_end(gli_telling *telling);

bool gli_telling_runs(gli_telling_match match, const void *what);
/* Is there a function that this thread can wait for? gli_telling_await does,
 * once the device's lock is left. */
bool gli_telling_enlist(gli_telling_waiter *waiter, gli_telling_match match,
                        const void *what);
void gli_telling_await(gli_telling_waiter *waiter);

/* An operation, or a context, goes while functions run that it does not wait
 * for. */
void gli_telling_forget(const gli_operation *op);
void gli_telling_forget_context(const gloo_context *context);

#endif
