/* The begin and the end of the calls of windows. */
#ifndef GLI_ENGINE_ENTRY_WINDOWS_H
#define GLI_ENGINE_ENTRY_WINDOWS_H

#include <stdint.h>

#include "gloo_c/window.h"

/* The polling interval for events that a transport does not announce. */
#define GLI_WINDOW_UNTOLD_NS UINT64_C(100000)

/* Returns the time, and the deadline of a wait that begins now. */
uint64_t gli_window_now(const gloo_window *window);
uint64_t gli_window_deadline(const gloo_window *window);

/* Checks the arguments of a window call. Takes the lock on GLOO_OK alone; the
 * window is not freed until the call ends. */
gloo_status gli_window_enter(const char *function, gloo_window *window,
                             int rank, gloo_error *error);
/* Checks the alignment of a word of `bytes` bytes. */
gloo_status gli_window_check_aligned(const char *function, uint64_t offset,
                                     unsigned bytes, gloo_error *error);
/* Ends a call: fails the context unless `status` is GLOO_OK, and releases the
 * lock. Returns `status`. */
gloo_status gli_window_leave(gloo_window *window, gloo_status status,
                             gloo_error *error);
/* Ends a call that is refused with `error`, and releases the lock. */
gloo_status gli_window_refuse(gloo_window *window, gloo_error *error);
/* Flushes one rank, or all (GLI_NO_RANK). The lock is held, and released while
 * waiting. */
gloo_status gli_window_flush_now(gloo_window *window, uint32_t rank,
                                 gloo_error *error);

#endif
