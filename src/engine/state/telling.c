#include "engine/state/telling.h"

#include "core/fork.h"
#include "engine/state/device.h"

static uv_once_t telling_once = UV_ONCE_INIT;
static bool telling_usable;
static uv_mutex_t telling_mutex;
static uv_cond_t telling_returned;
static gli_telling *telling_first;
static gli_telling_waiter *telling_waiters;

static bool telling_is_here(uv_thread_t thread) {
  uv_thread_t self = uv_thread_self();
  return uv_thread_equal(&thread, &self);
}

/* ---- forks --------------------------------------------------------------- */

static bool telling_hold(void *object, gli_fork_patience *patience) {
  (void)object;
  return gli_fork_lock(&telling_mutex, patience);
}

static void telling_release(void *object) {
  (void)object;
  uv_mutex_unlock(&telling_mutex);
}

/* Keeps the calls of the thread that forked, perhaps in a function: the child
 * has no other thread. */
static void telling_child(void *object, bool held) {
  (void)object;
  gli_telling **at = &telling_first;
  if (!held) telling_first = NULL;
  while (*at != NULL) {
    if (telling_is_here((*at)->thread))
      at = &(*at)->next;
    else
      *at = (*at)->next;
  }
  telling_waiters = NULL;
  gli_fork_mutex(&telling_mutex, held);
  gli_fork_condition(&telling_returned);
}

static void telling_init(void) {
  static const gli_fork_care care = {telling_hold, telling_release,
                                     telling_child};
  static gli_fork_watch watch;
  if (uv_mutex_init(&telling_mutex) != 0) return;
  if (uv_cond_init(&telling_returned) != 0) return;
  telling_usable = gli_fork_watch_begin(&watch, GLI_FORK_TABLES, &care, NULL);
}

bool gli_telling_prepare(void) {
  uv_once(&telling_once, telling_init);
  return telling_usable;
}

/* ---- calls --------------------------------------------------------------- */

static bool telling_is_mixed(const gli_operation *head) {
  const gli_operation *op = head;
  while (op != NULL && op->context == head->context) op = op->also;
  return op != NULL;
}

void gli_telling_begin(gli_telling *telling, gloo_device *device,
                       gli_operation *head) {
  bool here = device != NULL && head->context != NULL;
  *telling = (gli_telling){.thread = uv_thread_self(),
                           .device = device,
                           .head = head,
                           .context = here ? head->context : NULL,
                           .family = here ? head->context->family : NULL,
                           .mixed = here && telling_is_mixed(head)};
  if (here) head->odd |= GLI_ODD_TELLING;
  uv_mutex_lock(&telling_mutex);
  telling->next = telling_first;
  telling_first = telling;
  uv_mutex_unlock(&telling_mutex);
}

/* Returns true if a function of the request runs, perhaps of another run. */
static bool telling_has(const gli_operation *head) {
  const gli_telling *t = telling_first;
  while (t != NULL && t->head != head) t = t->next;
  return t != NULL;
}

void gli_telling_end(gli_telling *telling) {
  uv_mutex_lock(&telling_mutex);
  gli_telling **at = &telling_first;
  while (*at != NULL && *at != telling) at = &(*at)->next;
  if (*at != NULL) *at = telling->next;
  gli_operation *head = telling->device != NULL ? telling->head : NULL;
  /* A request without a context is read without the lock. */
  if (head != NULL && !(head->odd & GLI_ODD_ORPHANED) && !telling_has(head))
    head->odd &= (uint8_t)~GLI_ODD_TELLING;
  for (gli_telling_waiter *w = telling_waiters; w != NULL; w = w->next)
    if (w->awaited == telling) w->awaited = NULL;
  uv_cond_broadcast(&telling_returned);
  uv_mutex_unlock(&telling_mutex);
}

/* ---- waiting ------------------------------------------------------------- */

static const gli_telling *telling_awaited_by(uv_thread_t thread) {
  const gli_telling_waiter *w = telling_waiters;
  while (w != NULL && !uv_thread_equal(&w->thread, &thread)) w = w->next;
  return w != NULL ? w->awaited : NULL;
}

/* Returns true if this thread would wait for itself. */
static bool telling_leads_here(const gli_telling *telling) {
  const gli_telling *t = telling;
  while (t != NULL && !telling_is_here(t->thread))
    t = telling_awaited_by(t->thread);
  return t != NULL;
}

bool gli_telling_runs(gli_telling_match match, const void *what) {
  uv_mutex_lock(&telling_mutex);
  const gli_telling *t = telling_first;
  while (t != NULL && !match(t, what)) t = t->next;
  uv_mutex_unlock(&telling_mutex);
  return t != NULL;
}

bool gli_telling_enlist(gli_telling_waiter *waiter, gli_telling_match match,
                        const void *what) {
  uv_mutex_lock(&telling_mutex);
  const gli_telling *t = telling_first;
  while (t != NULL && (!match(t, what) || telling_leads_here(t))) t = t->next;
  if (t != NULL) {
    *waiter = (gli_telling_waiter){
        .thread = uv_thread_self(), .awaited = t, .next = telling_waiters};
    telling_waiters = waiter;
  }
  uv_mutex_unlock(&telling_mutex);
  return t != NULL;
}

void gli_telling_await(gli_telling_waiter *waiter) {
  uv_mutex_lock(&telling_mutex);
  while (waiter->awaited != NULL)
    uv_cond_wait(&telling_returned, &telling_mutex);
  gli_telling_waiter **at = &telling_waiters;
  while (*at != waiter) at = &(*at)->next;
  *at = waiter->next;
  uv_mutex_unlock(&telling_mutex);
}

/* ---- objects that are destroyed ------------------------------------------ */

void gli_telling_forget(const gli_operation *op) {
  uv_mutex_lock(&telling_mutex);
  for (gli_telling *t = telling_first; t != NULL; t = t->next)
    if (t->head == op) t->head = NULL;
  uv_mutex_unlock(&telling_mutex);
}

void gli_telling_forget_context(const gloo_context *context) {
  uv_mutex_lock(&telling_mutex);
  for (gli_telling *t = telling_first; t != NULL; t = t->next) {
    if (t->context != context) continue;
    t->context = NULL;
    t->family = NULL;
  }
  uv_mutex_unlock(&telling_mutex);
}
