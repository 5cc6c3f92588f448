#include "observe/text_out.h"

#include <stdlib.h>

#include "core/error.h"

gloo_status gli_text_hand_over(const char *function, const char *what,
                               char *text, size_t bytes, gloo_trace_fn write,
                               void *user, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (text == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for %s",
                    what);
  if (write(user, text, bytes) != 0)
    status = gli_fail(error, GLOO_ERR_IO, -1, "%s: the write function failed",
                      function);
  free(text);
  return status;
}
