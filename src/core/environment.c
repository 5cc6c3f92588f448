#include "core/environment.h"

#include <stdlib.h>

const char *gli_environment_read(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}
