#include "engine/state/callback.h"

#include "core/fork.h"
#include "engine/state/device.h"

static atomic_bool callback_once;
static bool callback_usable;
static uv_mutex_t callback_mutex;
static uv_cond_t callback_returned;
static gli_callback *callback_first;
static gli_callback_waiter *callback_waiters;

static bool callback_is_here(uv_thread_t thread) {
  uv_thread_t self = uv_thread_self();
  return uv_thread_equal(&thread, &self);
}

/* ---- forks --------------------------------------------------------------- */

static bool callback_hold(void *object, gli_fork_patience *patience) {
  (void)object;
  return gli_fork_lock(&callback_mutex, patience);
}

static void callback_release(void *object) {
  (void)object;
  uv_mutex_unlock(&callback_mutex);
}

/* Keeps the calls of the thread that forked, perhaps in a function: the child
 * has no other thread. */
static void callback_child(void *object, bool held) {
  (void)object;
  gli_callback **at = &callback_first;
  if (!held) callback_first = NULL;
  while (*at != NULL) {
    if (callback_is_here((*at)->thread))
      at = &(*at)->next;
    else
      *at = (*at)->next;
  }
  callback_waiters = NULL;
  gli_fork_mutex(&callback_mutex, held);
  gli_fork_condition(&callback_returned);
}

static void callback_init(void) {
  static const gli_fork_care care = {callback_hold, callback_release,
                                     callback_child};
  static gli_fork_watch watch;
  if (uv_mutex_init(&callback_mutex) != 0) return;
  if (uv_cond_init(&callback_returned) != 0) return;
  callback_usable = gli_fork_watch_begin(&watch, GLI_FORK_TABLES, &care, NULL);
}

bool gli_callback_prepare(void) {
  gli_once(&callback_once, callback_init);
  return callback_usable;
}

/* ---- calls --------------------------------------------------------------- */

static bool callback_is_mixed(const gli_operation *head) {
  const gli_operation *op = head;
  while (op != NULL && op->context == head->context) op = op->also;
  return op != NULL;
}

void gli_callback_begin(gli_callback *callback, gloo_device *device,
                        gli_operation *head) {
  bool here = device != NULL && head->context != NULL;
  *callback = (gli_callback){.thread = uv_thread_self(),
                             .device = device,
                             .head = head,
                             .context = here ? head->context : NULL,
                             .family = here ? head->context->family : NULL,
                             .mixed = here && callback_is_mixed(head)};
  if (here) head->odd |= GLI_ODD_TELLING;
  uv_mutex_lock(&callback_mutex);
  callback->next = callback_first;
  callback_first = callback;
  uv_mutex_unlock(&callback_mutex);
}

/* Returns true if a function of the request runs, perhaps of another run. */
static bool callback_has(const gli_operation *head) {
  const gli_callback *t = callback_first;
  while (t != NULL && t->head != head) t = t->next;
  return t != NULL;
}

void gli_callback_end(gli_callback *callback) {
  uv_mutex_lock(&callback_mutex);
  gli_callback **at = &callback_first;
  while (*at != NULL && *at != callback) at = &(*at)->next;
  if (*at != NULL) *at = callback->next;
  gli_operation *head = callback->device != NULL ? callback->head : NULL;
  /* A request without a context is read without the lock. */
  if (head != NULL && !(head->odd & GLI_ODD_ORPHANED) && !callback_has(head))
    head->odd &= (uint8_t)~GLI_ODD_TELLING;
  for (gli_callback_waiter *w = callback_waiters; w != NULL; w = w->next)
    if (w->awaited == callback) w->awaited = NULL;
  uv_cond_broadcast(&callback_returned);
  uv_mutex_unlock(&callback_mutex);
}

/* ---- waiting ------------------------------------------------------------- */

static const gli_callback *callback_awaited_by(uv_thread_t thread) {
  const gli_callback_waiter *w = callback_waiters;
  while (w != NULL && !uv_thread_equal(&w->thread, &thread)) w = w->next;
  return w != NULL ? w->awaited : NULL;
}

/* Returns true if this thread would wait for itself. */
static bool callback_leads_here(const gli_callback *callback) {
  const gli_callback *t = callback;
  while (t != NULL && !callback_is_here(t->thread))
    t = callback_awaited_by(t->thread);
  return t != NULL;
}

bool gli_callback_runs(gli_callback_match match, const void *what) {
  uv_mutex_lock(&callback_mutex);
  const gli_callback *t = callback_first;
  while (t != NULL && !match(t, what)) t = t->next;
  uv_mutex_unlock(&callback_mutex);
  return t != NULL;
}

bool gli_callback_enlist(gli_callback_waiter *waiter, gli_callback_match match,
                         const void *what) {
  uv_mutex_lock(&callback_mutex);
  const gli_callback *t = callback_first;
  while (t != NULL && (!match(t, what) || callback_leads_here(t))) t = t->next;
  if (t != NULL) {
    *waiter = (gli_callback_waiter){
        .thread = uv_thread_self(), .awaited = t, .next = callback_waiters};
    callback_waiters = waiter;
  }
  uv_mutex_unlock(&callback_mutex);
  return t != NULL;
}

void gli_callback_await(gli_callback_waiter *waiter) {
  uv_mutex_lock(&callback_mutex);
  while (waiter->awaited != NULL)
    uv_cond_wait(&callback_returned, &callback_mutex);
  gli_callback_waiter **at = &callback_waiters;
  while (*at != waiter) at = &(*at)->next;
  *at = waiter->next;
  uv_mutex_unlock(&callback_mutex);
}

/* ---- objects that are destroyed ------------------------------------------ */

void gli_callback_forget(const gli_operation *op) {
  uv_mutex_lock(&callback_mutex);
  for (gli_callback *t = callback_first; t != NULL; t = t->next)
    if (t->head == op) t->head = NULL;
  uv_mutex_unlock(&callback_mutex);
}

void gli_callback_forget_context(const gloo_context *context) {
  uv_mutex_lock(&callback_mutex);
  for (gli_callback *t = callback_first; t != NULL; t = t->next) {
    if (t->context != context) continue;
    t->context = NULL;
    t->family = NULL;
  }
  uv_mutex_unlock(&callback_mutex);
}
