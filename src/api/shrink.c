/* gloo_context_shrink, but for how it is done. */
#include "core/error.h"
#include "core/log.h"
#include "core/options.h"
#include "engine/engine.h"
#include "observe/trace.h"

/* Has the successor report to the same directory and function as the context
 * that failed. A lack of memory for that is no reason to fail. */
static void shrink_go_on_telling(const gloo_context *failed,
                                 gloo_context *successor) {
  const gloo_context_options options = {
      .struct_size = sizeof options,
      .trace_directory = gli_context_failure_user(failed)};
  gli_trace_settings settings;
  gloo_error error;
  gloo_status status = gli_trace_read(&options, &settings, &error);
  if (status == GLOO_OK) status = gli_trace_begin(successor, &settings, &error);
  if (status != GLOO_OK)
    gli_log(GLOO_LOG_WARN, "rank %d writes no traces any more: %s",
            gloo_context_rank(successor), error.message);
}

gloo_status gloo_context_shrink(gloo_context *context,
                                const gloo_shrink_options *options,
                                gloo_context **successor, gloo_error *error) {
  gloo_shrink_options o;
  gloo_error unread;
  if (error == NULL) error = &unread;
  gloo_status status =
      gli_options_load(&o, sizeof o, options, "gloo_shrink_options", error);
  if (status == GLOO_OK)
    status = gli_context_shrink(context, &o, successor, error);
  if (status == GLOO_OK) shrink_go_on_telling(context, *successor);
  return status;
}
