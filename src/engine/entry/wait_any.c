/* Waiting for any or all of several requests, on any devices. */
#include <stdlib.h>

#include "core/cpu.h"
#include "core/error.h"
#include "engine/drive/drive.h"
#include "engine/engine.h"

/* A thread that waits for several devices polls LOOKS times before it sleeps,
 * and then sleeps for at most SLEEP_NS, or for NAP_NS if a device has no helper
 * that would wake it. */
enum { LOOKS = 64 };
#define SLEEP_NS UINT64_C(100000000)
#define NAP_NS UINT64_C(500000)

/* The list of requests of a call. */
typedef struct waited {
  gli_operation *const *ops;
  size_t n;
  gloo_device *device; /* device of all requests; the last one if several, NULL
                          if none */
  bool several;        /* true if requests are of several devices */
  bool naps;           /* true if a device has no helper */
} waited;

static gloo_status waited_check(const char *function, gli_operation *const *ops,
                                size_t n, gloo_error *error) {
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  if (ops != NULL || n == 0) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "%s: a list of %zu requests is NULL", function, n);
}

static waited waited_look(gli_operation *const *ops, size_t n) {
  waited w = {.ops = ops, .n = n};
  for (size_t i = 0; i < n; i++) {
    if (ops[i] == NULL || gli_operation_is_orphaned(ops[i])) continue;
    gloo_device *device = ops[i]->device;
    if (w.device != NULL && w.device != device) w.several = true;
    w.device = device;
    if (!device->helper.exists) w.naps = true;
  }
  return w;
}

static uint64_t waited_now(const waited *w) {
  return w->device->ops->now_ns(w->device->transport);
}

static bool waited_is_empty(const waited *w) {
  size_t i = 0;
  while (i < w->n && w->ops[i] == NULL) i++;
  return i == w->n;
}

/* Makes progress, and returns the first request that has ended, or
 * GLOO_NO_INDEX. */
static size_t waited_find(const waited *w) {
  const gloo_device *polled = NULL;
  for (size_t i = 0; i < w->n; i++) {
    gli_operation *op = w->ops[i];
    if (op == NULL) continue;
    if (gli_operation_is_orphaned(op)) return i;
    gloo_device *device = op->device;
    gli_device_lock(device);
    if (gli_operation_any_running(op) && device != polled) {
      gli_device_poll(device);
      gli_device_check_deadlines(device);
      polled = device;
    }
    bool over = !gli_operation_any_running(op);
    gli_device_notify(device);
    gli_device_unlock(device);
    if (over) return i;
  }
  return GLOO_NO_INDEX;
}

/* ---- one device ---------------------------------------------------------- */

static void waited_on_one(const waited *w, int64_t timeout_ns) {
  gloo_device *device = w->device;
  gli_device_lock(device);
  gli_device_wait_any(device, w->ops, w->n, timeout_ns);
  gli_device_unlock(device);
}

/* ---- several devices ----------------------------------------------------- */

static void waited_watch(const waited *w, gli_bell *bell,
                         gli_watcher *watchers) {
  for (size_t i = 0; i < w->n; i++) {
    gli_operation *op = w->ops[i];
    if (op == NULL || gli_operation_is_orphaned(op)) continue;
    gli_device_lock(op->device);
    watchers[i] = (gli_watcher){bell, op->notice.watchers};
    op->notice.watchers = &watchers[i];
    gli_operation_will_tell(op);
    gli_device_kick_locked(op->device);
    gli_device_unlock(op->device);
  }
}

static void waited_unwatch(const waited *w, const gli_watcher *watchers) {
  for (size_t i = 0; i < w->n; i++) {
    gli_operation *op = w->ops[i];
    if (op == NULL || gli_operation_is_orphaned(op)) continue;
    gli_device_lock(op->device);
    gli_watcher **at = &op->notice.watchers;
    while (*at != NULL && *at != &watchers[i]) at = &(*at)->next;
    if (*at != NULL) *at = watchers[i].next;
    gli_device_unlock(op->device);
  }
}

/* Waits until one request has ended, or the deadline. */
static gloo_status waited_on_several(const waited *w, uint64_t until_ns,
                                     size_t *index, gloo_error *error) {
  for (int i = 0; i < LOOKS; i++) {
    *index = waited_find(w);
    if (*index != GLOO_NO_INDEX || waited_now(w) >= until_ns) return GLOO_OK;
    gli_cpu_yield();
  }
  gli_bell bell;
  gli_watcher *watchers = calloc(w->n, sizeof *watchers);
  if (watchers == NULL || !gli_bell_init(&bell)) {
    free(watchers);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for %zu requests", w->n);
  }
  waited_watch(w, &bell, watchers);
  for (;;) {
    *index = waited_find(w);
    uint64_t now_ns = waited_now(w);
    if (*index != GLOO_NO_INDEX || now_ns >= until_ns) break;
    uint64_t limit_ns = w->naps ? NAP_NS : SLEEP_NS;
    if (limit_ns > until_ns - now_ns) limit_ns = until_ns - now_ns;
    gli_bell_wait(&bell, limit_ns);
  }
  waited_unwatch(w, watchers);
  gli_bell_destroy(&bell);
  free(watchers);
  return GLOO_OK;
}

/* ---- the calls ----------------------------------------------------------- */

static gloo_status waited_any(const char *function, gli_operation *const *ops,
                              size_t n, int64_t timeout_ns, size_t *index,
                              gloo_error *error) {
  if (index == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `index` must not be NULL",
                    function);
  *index = GLOO_NO_INDEX;
  gloo_status status = waited_check(function, ops, n, error);
  waited w = {.n = 0};
  if (status == GLOO_OK) w = waited_look(ops, n);
  if (status != GLOO_OK || waited_is_empty(&w)) return status;
  *index = waited_find(&w);
  if (*index == GLOO_NO_INDEX && timeout_ns != GLOO_TIMEOUT_NOW) {
    if (!w.several) {
      waited_on_one(&w, timeout_ns > 0 ? timeout_ns : -1);
      *index = waited_find(&w);
    } else {
      uint64_t limit_ns = timeout_ns > 0 ? (uint64_t)timeout_ns : UINT64_MAX;
      uint64_t now_ns = waited_now(&w);
      uint64_t until_ns =
          limit_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + limit_ns;
      status = waited_on_several(&w, until_ns, index, error);
    }
  }
  if (status != GLOO_OK) return status;
  if (*index == GLOO_NO_INDEX) return GLOO_IN_PROGRESS;
  return gloo_request_test(ops[*index], error);
}

gloo_status gloo_request_wait_any(gli_operation *const *ops, size_t n,
                                  int64_t timeout_ns, size_t *index,
                                  gloo_error *error) {
  return waited_any("gloo_request_wait_any", ops, n, timeout_ns, index, error);
}

gloo_status gloo_request_test_any(gli_operation *const *ops, size_t n,
                                  size_t *index, gloo_error *error) {
  return waited_any("gloo_request_test_any", ops, n, GLOO_TIMEOUT_NOW, index,
                    error);
}

gloo_status gloo_request_wait_all(gli_operation *const *ops, size_t n,
                                  int64_t timeout_ns, gloo_error *error) {
  gloo_status first = waited_check("gloo_request_wait_all", ops, n, error);
  if (first != GLOO_OK) return first;
  waited w = waited_look(ops, n);
  uint64_t began_ns = w.device != NULL ? waited_now(&w) : 0;
  for (size_t i = 0; i < n; i++) {
    if (ops[i] == NULL) continue;
    int64_t left_ns = timeout_ns;
    if (timeout_ns > 0 && w.device != NULL) {
      uint64_t spent_ns = waited_now(&w) - began_ns;
      left_ns = spent_ns < (uint64_t)timeout_ns ? timeout_ns - (int64_t)spent_ns
                                                : GLOO_TIMEOUT_NOW;
    }
    gloo_error *to = first == GLOO_OK ? error : NULL;
    gloo_status status = gloo_request_wait(ops[i], left_ns, to);
    if (status == GLOO_IN_PROGRESS) return status;
    if (first == GLOO_OK) first = status;
  }
  return first;
}
