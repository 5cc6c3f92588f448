#define _XOPEN_SOURCE 700 /* S_ISVTX */
#include "core/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/descriptor.h"
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

/* ---- sockets ------------------------------------------------------------- */

bool gli_run_socket_directory(gli_run_directory which, bool create,
                              char *path) {
  errno = ENOENT;
  if (!gli_run_directory_path(which, path, GLI_RUN_SOCKET_BYTES) ||
      !gli_run_directory_stays(path))
    return false;
  if (create && !gli_run_directory_make(which, path)) return false;
  errno = EPERM;
  return gli_run_directory_is_private(path);
}

/* Renames last, because a bound socket that does not listen yet looks like that
 * of an ended process. */
bool gli_run_socket_listen(int fd, const char *path, int backlog) {
  static const char prefix[] = "new";
  char first[GLI_RUN_SOCKET_BYTES];
  errno = ENAMETOOLONG;
  if (strlen(path) >= sizeof first) return false;
  memcpy(first, path, strlen(path) + 1);
  memcpy(strrchr(first, '/') + 1, prefix, sizeof prefix - 1);
  (void)unlink(first); /* an earlier process may have had this number */
  if (!gli_socket_listen_at(fd, first, backlog)) return false;
  if (rename(first, path) == 0) return true;
  int code = errno;
  (void)unlink(first);
  errno = code;
  return false;
}

/* Returns the process in the name of a socket's file, or 0 for other files. */
static int64_t run_socket_process(const char *file) {
  const char *mark = strstr(file, "-pid");
  int64_t process;
  int used = 0;
  if (mark == NULL || strchr(file, '-') != file + 3 ||
      sscanf(mark, "-pid%18" SCNd64 ".sock%n", &process, &used) != 1 ||
      used == 0 || mark[used] != '\0')
    return 0;
  return process > 0 && process <= INT32_MAX ? process : 0;
}

static void run_socket_sweep_in(const char *directory) {
  DIR *from = opendir(directory);
  if (from == NULL) return;
  for (const struct dirent *e; (e = readdir(from)) != NULL;) {
    char path[GLI_RUN_SOCKET_BYTES];
    int64_t process = run_socket_process(e->d_name);
    /* A process that exists is left alone, which costs its socket nothing. */
    if (process == 0 || kill((pid_t)process, 0) == 0 || errno != ESRCH)
      continue;
    int n = snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
    if (n > 0 && n < (int)sizeof path && gli_socket_is_left(path))
      (void)unlink(path);
  }
  closedir(from);
}

void gli_run_socket_sweep(void) {
  char directory[GLI_RUN_SOCKET_BYTES];
  for (int i = 0; i < GLI_RUN_DIRECTORIES; i++)
    if (i != GLI_RUN_DIRECTORY_HOME &&
        gli_run_socket_directory((gli_run_directory)i, false, directory))
      run_socket_sweep_in(directory);
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
