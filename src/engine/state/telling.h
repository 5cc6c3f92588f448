/* Functions of requests that are over (gli_notice) while they run, in any
 * thread, and the threads that wait for one of them to return.
 *
 * One table is for the whole process: such a function may destroy a request of
 * another device, whose function runs in another thread, and waits for that.
 * Each thread waits for one function at a time. A thread does not wait where
 * that function is its own, or its thread waits, itself or through others, for
 * one of this thread: they would wait for ever.
 *
 * The table has a mutex of its own, which is taken with a device's lock held or
 * without one, and under which nothing else is taken. */
#ifndef GLI_ENGINE_STATE_TELLING_H
#define GLI_ENGINE_STATE_TELLING_H

#include <stdbool.h>
#include <uv.h>

#include "engine/state/context.h"
#include "engine/state/operation.h"

/* One call of a function. Written with the mutex held, by the thread that calls
 * it and by those that destroy what it is about. */
typedef struct gli_telling {
  uv_thread_t thread;
  const gloo_device *device;   /* NULL: the request had no context any more */
  gli_operation *head;         /* of the request; NULL: that is destroyed */
  const gloo_context *context; /* of its first operation; NULL: that is gone */
  const gli_family *family;    /* of `context`, and NULL with it */
  bool mixed; /* the request is joined of operations of several contexts */
  struct gli_telling *next;
} gli_telling;

/* Is it a function that matters to `what`? Called with the mutex held. */
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
