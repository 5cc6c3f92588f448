#include "core/fork.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "core/error.h"

#define PATIENCE_NS INT64_C(1000000000)
#define NAP_NS 50000L

struct gli_fork_patience {
  int64_t until_ns;
};

static atomic_ullong generation;
static bool registered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gli_fork_watch *watches[GLI_FORK_ORDERS];
/* True if this thread holds `lock` for a fork; two threads may fork at once. */
static _Thread_local bool holding;
/* True if this thread holds `lock` for an initialisation. */
static _Thread_local bool initialising;

/* ---- owners -------------------------------------------------------------- */

gli_birth gli_birth_here(void) {
  return (gli_birth){atomic_load(&generation), (int64_t)getpid()};
}

bool gli_forked(const gli_birth *birth) {
  return birth->generation != atomic_load(&generation);
}

gloo_status gli_fork_refuse(const gli_birth *birth, const char *what,
                            gloo_error *error) {
  return gli_fail(error, GLOO_ERR_FORKED, -1,
                  "%s was created by process %" PRId64
                  ", and cannot be used in its forked child, process %ld: "
                  "destroy it here and create another",
                  what, birth->pid, (long)getpid());
}

/* ---- patience ------------------------------------------------------------ */

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * INT64_C(1000000000) + (int64_t)now.tv_nsec;
}

bool gli_fork_wait(gli_fork_patience *patience) {
  if (now_ns() >= patience->until_ns) return false;
  (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  return true;
}

bool gli_fork_lock(pthread_mutex_t *mutex, gli_fork_patience *patience) {
  while (pthread_mutex_trylock(mutex) != 0)
    if (!gli_fork_wait(patience)) return false;
  return true;
}

void gli_fork_mutex(pthread_mutex_t *mutex, bool held) {
  if (held) (void)pthread_mutex_unlock(mutex);
  *mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Reinitialises it: destroying a condition with waiters would block. */
void gli_fork_condition(pthread_cond_t *condition) {
  *condition = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* ---- forks --------------------------------------------------------------- */

static void fork_before(void) {
  gli_fork_patience patience = {now_ns() + PATIENCE_NS};
  holding = !initialising && gli_fork_lock(&lock, &patience);
  if (!holding) return;
  for (int i = 0; i < GLI_FORK_ORDERS; i++)
    for (gli_fork_watch *w = watches[i]; w != NULL; w = w->next)
      w->held = w->care->hold(w->object, &patience);
}

static void in_parent(void) {
  if (!holding) return;
  for (int i = GLI_FORK_ORDERS - 1; i >= 0; i--)
    for (gli_fork_watch *w = watches[i]; w != NULL; w = w->next)
      if (w->held) w->care->release(w->object);
  (void)pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  atomic_fetch_add(&generation, 1);
  for (int i = GLI_FORK_ORDERS - 1; i >= 0; i--)
    for (gli_fork_watch *w = watches[i]; w != NULL; w = w->next)
      w->care->child(w->object, holding && w->held);
  gli_fork_mutex(&lock, holding || initialising);
  initialising = false;
}

/* The registration runs before there are threads. */
__attribute__((constructor)) static void fork_enroll(void) {
  registered = pthread_atfork(fork_before, in_parent, in_child) == 0;
}

/* Locks `lock` unless this thread holds it already, in gli_once. Returns true if
 * fork_leave has to unlock it. */
static bool fork_enter(void) {
  return !initialising && pthread_mutex_lock(&lock) == 0;
}

static void fork_leave(bool entered) {
  if (entered) (void)pthread_mutex_unlock(&lock);
}

void gli_once(atomic_bool *done, void (*init)(void)) {
  if (atomic_load_explicit(done, memory_order_acquire)) return;
  bool entered = fork_enter();
  initialising = true;
  if (!atomic_load_explicit(done, memory_order_relaxed)) init();
  atomic_store_explicit(done, true, memory_order_release);
  /* Not in a child that `init` itself was forked into. */
  fork_leave(entered && initialising);
  if (entered) initialising = false;
}

bool gli_fork_watch_begin(gli_fork_watch *watch, gli_fork_order order,
                          const gli_fork_care *care, void *object) {
  watch->link = NULL;
  return gli_fork_watch_once(watch, order, care, object);
}

bool gli_fork_watch_once(gli_fork_watch *watch, gli_fork_order order,
                         const gli_fork_care *care, void *object) {
  if (!registered) return false;
  bool entered = fork_enter();
  if (watch->link == NULL) {
    watch->care = care;
    watch->object = object;
    watch->link = &watches[order];
    watch->next = watches[order];
    if (watch->next != NULL) watch->next->link = &watch->next;
    watches[order] = watch;
  }
  fork_leave(entered);
  return true;
}

void gli_fork_watch_end(gli_fork_watch *watch) {
  bool entered = fork_enter();
  *watch->link = watch->next;
  if (watch->next != NULL) watch->next->link = watch->link;
  fork_leave(entered);
}

/* ---- objects with one mutex ---------------------------------------------- */

static bool hold_mutex(void *object, gli_fork_patience *patience) {
  return gli_fork_lock(((gli_fork_guard *)object)->mutex, patience);
}

static void release_mutex(void *object) {
  (void)pthread_mutex_unlock(((gli_fork_guard *)object)->mutex);
}

static void renew_in_child(void *object, bool held) {
  gli_fork_guard *guard = object;
  guard->torn = guard->torn || !held;
  gli_fork_mutex(guard->mutex, held);
  if (guard->condition != NULL) gli_fork_condition(guard->condition);
}

bool gli_fork_guard_begin(gli_fork_guard *guard, gli_fork_order order,
                          pthread_mutex_t *mutex, pthread_cond_t *condition) {
  static const gli_fork_care care = {hold_mutex, release_mutex, renew_in_child};
  guard->mutex = mutex;
  guard->condition = condition;
  guard->torn = false;
  return gli_fork_watch_begin(&guard->watch, order, &care, guard);
}

void gli_fork_guard_end(gli_fork_guard *guard) {
  gli_fork_watch_end(&guard->watch);
}
