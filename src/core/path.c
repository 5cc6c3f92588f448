#include "core/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool gli_path_absolute(const char *path, char *absolute, size_t room) {
  size_t used = 0;
  if (path[0] != '/') {
    if (getcwd(absolute, room) == NULL) {
      if (errno == ERANGE) errno = ENAMETOOLONG;
      return false;
    }
    used = strlen(absolute);
  }
  int n =
      snprintf(absolute + used, room - used, "%s%s", used > 1 ? "/" : "", path);
  if (n >= 0 && (size_t)n < room - used) return true;
  errno = ENAMETOOLONG;
  return false;
}
