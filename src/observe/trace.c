/* Triggers and destinations of traces. */
#include "observe/trace.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"
#include "core/error.h"
#include "gloo_c/trace.h"
#include "kernels/custom_op.h"
#include "observe/observe.h"
#include "observe/text_out.h"

/* ---- settings ------------------------------------------------------------ */

static gloo_status trace_read_kept(uint64_t *kept, gloo_error *error) {
  const char *said = gli_environment_read("GLOO_TRACE_OPERATIONS");
  *kept = GLI_TRACE_USUAL;
  if (said == NULL) return GLOO_OK;
  char *end = NULL;
  unsigned long n = strtoul(said, &end, 10);
  bool digits = strspn(said, "0123456789") == strlen(said);
  *kept = n;
  if (digits && n <= GLI_TRACE_MOST) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "GLOO_TRACE_OPERATIONS is \"%.40s\"; it must be a number of "
                  "operations, 0 to %d",
                  said, GLI_TRACE_MOST);
}

static gloo_status trace_read_signal(const gli_trace_settings *s, int *number,
                                     gloo_error *error) {
  static const struct {
    const char *name;
    int number;
  } signals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
  const char *said = gli_environment_read("GLOO_TRACE_SIGNAL");
  *number = 0;
  if (said == NULL) return GLOO_OK;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    if (strcmp(said, signals[i].name) == 0) *number = signals[i].number;
  }
  if (*number == 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "GLOO_TRACE_SIGNAL is \"%.40s\"; it must be USR1 or USR2",
                    said);
  if (s->directory[0] != '\0') return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "GLOO_TRACE_SIGNAL is %s, but GLOO_TRACE_DIR is not set: set "
                  "it to the directory for trace files",
                  said);
}

gloo_status gli_trace_read(const gloo_context_options *options,
                           gli_trace_settings *settings, gloo_error *error) {
  const char *directory = options->trace_directory;
  if (directory == NULL) directory = gli_environment_read("GLOO_TRACE_DIR");
  settings->directory[0] = '\0';
  settings->metrics = gli_environment_read("GLOO_METRICS");
  gloo_status status =
      gli_switch_read(0, "GLOO_OBSERVE", true, &settings->listed, error);
  if (status == GLOO_OK) status = trace_read_kept(&settings->kept, error);
  if (status == GLOO_OK && directory != NULL)
    status = gli_trace_find_directory(directory, settings->directory, error);
  if (status == GLOO_OK)
    status = trace_read_signal(settings, &settings->signal, error);
  return status;
}

/* ---- failures ------------------------------------------------------------ */

static void trace_failed(void *user, gli_snapshot *snapshot) {
  const char *directory = user;
  gli_trace_save(directory, snapshot, GLI_TRACE_OF_ERROR);
}

static gloo_status trace_on_failure(gloo_context *context,
                                    const char *directory, gloo_error *error) {
  size_t bytes = strlen(directory) + 1;
  char *copy = malloc(bytes);
  if (copy == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the name of a directory");
  memcpy(copy, directory, bytes);
  gli_context_on_failure(context, trace_failed, copy);
  return GLOO_OK;
}

gloo_status gli_trace_begin(gloo_context *context,
                            const gli_trace_settings *settings,
                            gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (settings->kept != GLI_TRACE_USUAL)
    status = gli_context_keep_traces(context, settings->kept, error);
  if (status == GLOO_OK && settings->directory[0] != '\0')
    status = trace_on_failure(context, settings->directory, error);
  const gli_observe_settings observed = {
      .signal = settings->signal,
      .trace_directory = settings->directory,
      .metrics = settings->metrics,
      .listed = settings->listed,
  };
  if (status == GLOO_OK) status = gli_observe_begin(context, &observed, error);
  return status;
}

void gli_trace_end(gloo_context *context) {
  gli_observe_end(context);
}

/* ---- calls --------------------------------------------------------------- */

static bool print_asked(FILE *to, void *snapshot) {
  gli_trace_print(to, snapshot, GLI_TRACE_OF_CALL);
  return true;
}

gloo_status gloo_context_trace(gloo_context *context, gloo_trace_fn write,
                               void *user, gloo_error *error) {
  static const char name[] = "gloo_context_trace";
  gloo_error unread;
  if (error == NULL) error = &unread;
  if (context == NULL || write == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: `%s` must not be NULL",
                    name, context == NULL ? "context" : "write");
  if (gli_custom_op_inside()) return gli_custom_op_refuse(name, error);
  gloo_status status = gli_context_usable(context, error);
  if (status == GLOO_ERR_FORKED) return status;
  gli_snapshot *snapshot = gli_context_snapshot(context);
  if (snapshot == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a copy of the last operations");
  size_t bytes = 0;
  char *text = gli_text_print(print_asked, snapshot, &bytes);
  gli_snapshot_free(snapshot);
  return gli_text_hand_over(name, "the text of a trace", text, bytes, write,
                            user, error);
}
