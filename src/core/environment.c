#include "core/environment.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

const char *gli_environment_read(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

gloo_status gli_switch_read(int option, const char *name, bool by_default,
                            bool *wanted, gloo_error *error) {
  const char *said = gli_environment_read(name);
  if (option != 0) {
    *wanted = option > 0;
  } else if (said == NULL) {
    *wanted = by_default;
  } else if (strcmp(said, "0") == 0 || strcmp(said, "1") == 0) {
    *wanted = said[0] == '1';
  } else {
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s is '%.40s'; it may be 0 or 1", name, said);
  }
  return GLOO_OK;
}
