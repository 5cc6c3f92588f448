/* Waiting for a word of this rank's part of a window.
 *
 * Messages that change words stir the thread. Ranks that access the memory
 * directly send none, except for signals: then the thread also looks at the
 * word now and then. */
#include <inttypes.h>

#include "core/error.h"
#include "engine/drive/drive.h"
#include "engine/entry/windows.h"
#include "engine/rma/rma.h"
#include "engine/state/device.h"

/* The longest interval between looks. */
#define LOOK_NS UINT64_C(1000000)

static void window_unlist(gloo_window *window, const gli_rma_watch *watch) {
  gli_rma_watch **at = &window->watches;
  while (*at != NULL && *at != watch) at = &(*at)->next;
  if (*at != NULL) *at = watch->next;
}

/* Waits until the word is as wanted, the context fails, or the time has come.
 * Returns true if the word is as wanted. */
static bool window_watch(gloo_window *window, gli_rma_watch *watch,
                         uint64_t until_ns) {
  gloo_device *device = window->context->device;
  uint64_t pause_ns = GLI_WINDOW_UNTOLD_NS, now_ns = gli_window_now(window);
  bool ended = gli_rma_watch_ends(watch);
  if (!ended) (void)gli_device_poll(device); /* whatever the limit is */
  watch->next = window->watches;
  window->watches = watch;
  ended = ended || gli_rma_watch_ends(watch);
  while (!ended && !gli_context_poisoned(window->context) &&
         now_ns < until_ns) {
    uint64_t next_ns = until_ns;
    if (gli_rma_is_exposed(window) && until_ns - now_ns > pause_ns) {
      next_ns = now_ns + pause_ns;
      pause_ns = 2 * pause_ns < LOOK_NS ? 2 * pause_ns : LOOK_NS;
    }
    watch->stirred = false;
    gli_device_wait_flag(device, &watch->stirred, next_ns);
    gli_device_check_deadlines(device);
    gli_device_settle(device);
    ended = gli_rma_watch_ends(watch);
    now_ns = gli_window_now(window);
  }
  window_unlist(window, watch);
  return ended;
}

static gloo_status window_wait(const char *function, gloo_window *window,
                               gli_rma_watch *watch, int64_t timeout_ns,
                               uint64_t offset, gloo_error *error) {
  const gloo_context *context = window->context;
  uint64_t until_ns = gli_window_deadline(window);
  uint64_t now_ns = gli_window_now(window);
  bool limited = timeout_ns > 0 && (uint64_t)timeout_ns < until_ns - now_ns;
  if (timeout_ns < 0) until_ns = UINT64_MAX;
  if (limited) until_ns = now_ns + (uint64_t)timeout_ns;
  bool ended = window_watch(window, watch, until_ns);
  if (gli_context_poisoned(context)) {
    *error = context->cause;
    return error->status;
  }
  if (ended) return GLOO_OK;
  if (limited) return GLOO_IN_PROGRESS;
  return gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                  "%s: no rank changed the word at offset %" PRIu64
                  " of rank %" PRIu32
                  " as wanted within %.3g s; it is %" PRIu64,
                  function, offset, context->root_rank,
                  (double)context->timeout_ns / 1e9, watch->found);
}

static gloo_status window_check_word(const char *function,
                                     const gloo_window *window, uint64_t offset,
                                     gloo_compare compare, gloo_error *error) {
  if ((unsigned)compare > GLOO_COMPARE_LE)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: %d is not a gloo_compare",
                    function, (int)compare);
  if (!gli_in_bounds(offset, 8, window->bytes))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s: 8 bytes at offset %" PRIu64 " exceed the %" PRIu64
                    " bytes of this rank in the window",
                    function, offset, window->bytes);
  return gli_window_check_aligned(function, offset, 8, error);
}

gloo_status gloo_window_wait_until(gloo_window *window, uint64_t offset,
                                   gloo_compare compare, uint64_t value,
                                   int64_t timeout_ns, uint64_t *found,
                                   gloo_error *error) {
  static const char name[] = "gloo_window_wait_until";
  gloo_error unread;
  if (error == NULL) error = &unread;
  int rank = window != NULL ? (int)window->context->rank : 0;
  gloo_status status = gli_window_enter(name, window, rank, error);
  if (status != GLOO_OK) return status;
  status = window_check_word(name, window, offset, compare, error);
  if (status != GLOO_OK) return gli_window_refuse(window, error);
  gli_rma_watch watch = {
      .word = window->memory + offset, .compare = compare, .value = value};
  status = window_wait(name, window, &watch, timeout_ns, offset, error);
  if (status == GLOO_OK && found != NULL) *found = watch.found;
  bool goes_on = status == GLOO_OK || status == GLOO_IN_PROGRESS;
  (void)gli_window_leave(window, goes_on ? GLOO_OK : status, error);
  return status;
}
