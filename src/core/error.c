#include "core/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "gloo_c/status.h"

/* Copies from a separate buffer, because the arguments may point into the
 * message itself. They may also contain text from untrusted peers. */
static void set_message(gloo_error *error, char *text) {
  gli_make_printable(text);
  size_t length = strlen(text);
  if (length >= sizeof error->message) length = sizeof error->message - 1;
  memcpy(error->message, text, length);
  error->message[length] = '\0';
}

gloo_status gli_fail(gloo_error *error, gloo_status status, int rank,
                     const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)gli_vfail(error, status, rank, format, arguments);
  va_end(arguments);
  return status;
}

gloo_status gli_vfail(gloo_error *error, gloo_status status, int rank,
                      const char *format, va_list arguments) {
  char text[GLOO_ERROR_MESSAGE_BYTES];
  if (error == NULL) return status;
  if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
  memset(error, 0, offsetof(gloo_error, message));
  error->struct_size = sizeof *error;
  error->status = status;
  error->cause = status;
  error->rank = error->root_rank = rank;
  set_message(error, text);
  return status;
}

void gli_error_prefix(gloo_error *error, const char *format, ...) {
  char text[2 * GLOO_ERROR_MESSAGE_BYTES];
  va_list arguments;
  if (error == NULL) return;
  va_start(arguments, format);
  int written = vsnprintf(text, GLOO_ERROR_MESSAGE_BYTES, format, arguments);
  va_end(arguments);
  if (written < 0) return;
  size_t length = strlen(text);
  snprintf(text + length, sizeof text - length, "%s", error->message);
  set_message(error, text);
}

const char *gloo_status_string(gloo_status status) {
  switch (status) {
#define STATUS_TEXT(name, value, text) \
  case name:                           \
    return text;
    GLOO_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
  }
  return "unknown status";
}
