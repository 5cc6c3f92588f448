/* Windows: creation, and collective functions. */
#include <stdlib.h>

#include "core/bytes.h"
#include "core/error.h"
#include "core/options.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"
#include "gloo_c/memory.h"
#include "gloo_c/window.h"
#include "kernels/custom_op.h"
#include "memory/gpu.h"

enum { RECORD_BYTES = 16 }; /* key, bytes */

/* Exchanges the keys and lengths of all ranks. A rank that has the key of
 * another can access its window, which is open by then. */
static gloo_status window_meet(gloo_window *window, size_t bytes,
                               gloo_error *error) {
  gloo_context *group = gli_window_context(window);
  size_t ranks = (size_t)gloo_context_size(group);
  uint8_t own[RECORD_BYTES], *all = malloc(ranks * RECORD_BYTES);
  if (all == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "gloo_window_create: out of memory for %zu ranks", ranks);
  gli_put_u64(own, gli_window_key(window));
  gli_put_u64(own + 8, bytes);
  gloo_status status =
      gloo_allgather(group, own, all, RECORD_BYTES, GLOO_UINT8, NULL, error);
  for (size_t i = 0; status == GLOO_OK && i < ranks; i++) {
    const uint8_t *record = all + i * RECORD_BYTES;
    gli_window_learn(window, (uint32_t)i, gli_get_u64(record),
                     gli_get_u64(record + 8));
  }
  free(all);
  return status;
}

/* Creates the window. A failure from here on fails it on all ranks, because
 * they depend on this one. */
static gloo_status window_make(gloo_context *group, void *memory, size_t bytes,
                               gloo_window **window, gloo_error *error) {
  void *ours = NULL;
  gloo_window *made = NULL;
  gloo_status status = GLOO_OK;
  if (memory == NULL) status = gloo_alloc(bytes, &ours, error);
  if (memory == NULL) memory = ours;
  if (status == GLOO_OK)
    status = gli_window_open(group, memory, bytes, ours, &made, error);
  if (status == GLOO_OK) status = window_meet(made, bytes, error);
  if (status == GLOO_OK) {
    *window = made;
    return GLOO_OK;
  }
  (void)gli_context_fail(group, error);
  if (made != NULL) gli_window_close(made);
  gloo_free(ours);
  return status;
}

static gloo_status window_check(gloo_context *context, const void *memory,
                                gloo_window *const *window, gloo_error *error) {
  static const char name[] = "gloo_window_create";
  if (context == NULL || window == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    name, context == NULL ? "context" : "window");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  if (gli_gpu_refuse(name, memory, error) != GLOO_OK)
    return gli_context_refuse(context, error);
  if ((uintptr_t)memory % 8 == 0) return GLOO_OK;
  gli_fail(error, GLOO_ERR_INVALID, -1,
           "%s: the memory starts at %p, which is not a multiple of 8", name,
           memory);
  return gli_context_refuse(context, error);
}

gloo_status gloo_window_create(gloo_context *context, void *memory,
                               size_t bytes, const gloo_window_options *options,
                               gloo_window **window, gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status = window_check(context, memory, window, error);
  if (status != GLOO_OK) return status;
  gloo_window_options o;
  status =
      gli_options_load(&o, sizeof o, options, "gloo_window_options", error);
  if (status != GLOO_OK) return gli_context_refuse(context, error);
  gloo_group_options g = GLOO_GROUP_OPTIONS_INIT;
  g.timeout_ns = o.timeout_ns;
  g.tag = o.tag;
  gloo_context *group;
  status = gloo_context_split(context, 0, gloo_context_rank(context), &g,
                              &group, error);
  if (status != GLOO_OK) return gli_context_refuse(context, error);
  status = window_make(group, memory, bytes, window, error);
  if (status != GLOO_OK) gloo_context_destroy(group);
  return status;
}

/* ---- flushes ------------------------------------------------------------- */

static gloo_status window_flush_start(const char *function, gloo_window *window,
                                      int64_t rank, gloo_request **request,
                                      gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (window == NULL || request == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    function, window == NULL ? "window" : "request");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  gloo_context *group = gli_window_context(window);
  gloo_request *made = NULL;
  gloo_status status =
      gloo_sendrecv_init(group, NULL, 0, GLOO_NO_RANK, NULL, 0, GLOO_NO_RANK,
                         GLOO_UINT8, NULL, &made, error);
  if (status != GLOO_OK) {
    (void)gli_context_fail(group, error);
    return status;
  }
  status = gli_window_flush(function, window, rank, made, error);
  if (status == GLOO_OK)
    *request = made;
  else
    gloo_request_destroy(made);
  return status;
}

gloo_status gloo_window_flush_start(gloo_window *window, int rank,
                                    gloo_request **request, gloo_error *error) {
  return window_flush_start("gloo_window_flush_start", window, rank, request,
                            error);
}

gloo_status gloo_window_flush_all_start(gloo_window *window,
                                        gloo_request **request,
                                        gloo_error *error) {
  return window_flush_start("gloo_window_flush_all_start", window,
                            GLI_WINDOW_ALL, request, error);
}

/* ---- the end ------------------------------------------------------------- */

/* Checks that other ranks still write to this memory. A failure elsewhere in
 * the process may have made it private, so that their data is not here. */
static gloo_status window_check_shared(gloo_window *window, gloo_error *error) {
  if (gli_window_is_shared(window)) return GLOO_OK;
  gli_fail(
      error, GLOO_ERR_PEER, -1,
      "other ranks can no longer access this rank's part of the window: it was "
      "also a buffer of an operation that failed in another context");
  return error->status;
}

gloo_status gloo_window_fence(gloo_window *window, gloo_error *error) {
  static const char name[] = "gloo_window_fence";
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (window == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: the window is NULL",
                    name);
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  gloo_status status = gloo_window_flush_all(window, error);
  if (status == GLOO_OK)
    status = gloo_barrier(gli_window_context(window), NULL, error);
  if (status == GLOO_OK) status = window_check_shared(window, error);
  /* Other ranks wait for a rank that failed before the barrier. */
  if (status != GLOO_OK)
    (void)gli_context_fail(gli_window_context(window), error);
  return status;
}

gloo_status gloo_window_destroy(gloo_window *window, gloo_error *error) {
  if (window == NULL) return GLOO_OK;
  if (gli_custom_op_inside())
    return gli_custom_op_refuse("gloo_window_destroy", error);
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_context *group = gli_window_context(window);
  gloo_status status = gloo_window_fence(window, error);
  void *ours = gli_window_close(window);
  gloo_context_destroy(group);
  gloo_free(ours);
  return status;
}
