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
#ifndef GLI_ENGINE_STATE_CALLBACK_H
#define GLI_ENGINE_STATE_CALLBACK_H

#include <stdbool.h>
#include <uv.h>

#include "engine/state/context.h"
#include "engine/state/operation.h"

/* One call of a completion function. Fields are written with the mutex held, by
 * the calling thread and by threads that destroy the request or the context. */
typedef struct gli_callback {
  uv_thread_t thread;
  const gloo_device *device;   /* NULL once the context of the request is
                                  destroyed */
  gli_operation *head;         /* NULL once the request is destroyed */
  const gloo_context *context; /* context of `head`; NULL once destroyed */
  const gli_family *family;    /* family of `context`; NULL if that is NULL */
  bool mixed; /* the request joins operations of several contexts */
  struct gli_callback *next;
} gli_callback;

/* A predicate: returns true if a call concerns `what`. The mutex is held. */
typedef bool (*gli_callback_match)(const gli_callback *callback,
                                   const void *what);

/* A waiting thread. */
typedef struct gli_callback_waiter {
  uv_thread_t thread;
  const gli_callback *awaited; /* NULL once that has returned */
  struct gli_callback_waiter *next;
} gli_callback_waiter;

/* Makes the table, once. Returns false if out of memory or locks. */
bool gli_callback_prepare(void);

/* Enter and leave a call of the function of `head`, with the lock of `device`
 * held if it is not NULL. */
void gli_callback_begin(gli_callback *callback, gloo_device *device,
                        gli_operation *head);
void gli_callback_end(gli_callback *callback);

bool gli_callback_runs(gli_callback_match match, const void *what);
/* Enlists this thread and returns true if it can wait for a matching function;
 * gli_callback_await waits once the device's lock is released. */
bool gli_callback_enlist(gli_callback_waiter *waiter, gli_callback_match match,
                         const void *what);
void gli_callback_await(gli_callback_waiter *waiter);

/* Forget an operation or a context that is destroyed while functions run that
 * it does not wait for. */
void gli_callback_forget(const gli_operation *op);
void gli_callback_forget_context(const gloo_context *context);

#endif
