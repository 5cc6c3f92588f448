#define _XOPEN_SOURCE 700 /* S_ISVTX */
#include "core/run_directory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/environment.h"

/* Returns the result of snprintf, or 0 if `base` is not an absolute path. */
static int run_directory_below(const char *base, const char *name, char *path,
                               size_t room) {
  if (base == NULL || base[0] != '/') return 0;
  return snprintf(path, room, "%s/%s", base, name);
}

bool gli_run_directory_path(gli_run_directory which, char *path, size_t room) {
  unsigned long user = (unsigned long)geteuid();
  int n = 0;
  switch (which) {
    case GLI_RUN_DIRECTORY_XDG:
      n = run_directory_below(gli_environment_read("XDG_RUNTIME_DIR"), "gloo_c",
                              path, room);
      break;
    case GLI_RUN_DIRECTORY_USER:
      n = snprintf(path, room, "/run/user/%lu/gloo_c", user);
      break;
    case GLI_RUN_DIRECTORY_HOME:
      n = run_directory_below(gli_environment_read("HOME"), ".cache/gloo_c",
                              path, room);
      break;
    case GLI_RUN_DIRECTORY_TMP:
      n = snprintf(path, room, "/tmp/gloo_c-%lu", user);
      break;
    case GLI_RUN_DIRECTORIES:
      break;
  }
  return n > 0 && (size_t)n < room;
}

/* Makes .cache in a home directory that lacks it. Root does not do so in the
 * home of another user, because that user could not write there. */
static void run_directory_make_parent(const char *path) {
  char parent[256];
  struct stat home;
  size_t bytes = strlen(path);
  if (bytes >= sizeof parent) return;
  memcpy(parent, path, bytes + 1);
  *strrchr(parent, '/') = '\0';
  char *name = strrchr(parent, '/');
  *name = '\0';
  if (stat(parent, &home) != 0 || home.st_uid != geteuid()) return;
  *name = '/';
  (void)mkdir(parent, S_IRWXU);
}

bool gli_run_directory_make(gli_run_directory which, const char *path) {
  if (which == GLI_RUN_DIRECTORY_HOME) run_directory_make_parent(path);
  return mkdir(path, S_IRWXU) == 0 || errno == EEXIST;
}

bool gli_run_directory_is_private(const char *path) {
  struct stat is;
  return lstat(path, &is) == 0 && S_ISDIR(is.st_mode) &&
         is.st_uid == geteuid() && (is.st_mode & 077) == 0;
}

bool gli_run_directory_stays(const char *path) {
  char parent[256];
  struct stat is;
  const char *slash = strrchr(path, '/');
  if (slash == NULL || slash == path || (size_t)(slash - path) >= sizeof parent)
    return false;
  memcpy(parent, path, (size_t)(slash - path));
  parent[slash - path] = '\0';
  if (stat(parent, &is) != 0 || !S_ISDIR(is.st_mode)) return false;
  return (is.st_uid == geteuid() || is.st_uid == 0) &&
         ((is.st_mode & 022) == 0 || (is.st_mode & S_ISVTX) != 0);
}

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
