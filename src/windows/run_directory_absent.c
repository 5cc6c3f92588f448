/* Windows has no private directories with Unix sockets: callers go on without
 * one, as on a system where no directory is private. */
#include "core/run_directory.h"

#include "windows/posix.h"

bool gli_run_directory_path(gli_run_directory which, char *path, size_t room) {
  (void)which;
  (void)path;
  (void)room;
  return false;
}

bool gli_run_directory_make(gli_run_directory which, const char *path) {
  (void)which;
  (void)path;
  errno = EAFNOSUPPORT;
  return false;
}

bool gli_run_directory_is_private(const char *path) {
  (void)path;
  return false;
}

bool gli_run_directory_stays(const char *path) {
  (void)path;
  return false;
}

bool gli_run_socket_directory(gli_run_directory which, bool create,
                              char *path) {
  (void)which;
  (void)create;
  (void)path;
  errno = EAFNOSUPPORT;
  return false;
}

bool gli_run_socket_listen(int fd, const char *path, int backlog) {
  (void)fd;
  (void)path;
  (void)backlog;
  errno = EAFNOSUPPORT;
  return false;
}

void gli_run_socket_sweep(void) {}

bool gli_path_absolute(const char *path, char *absolute, size_t room) {
  wchar_t *wide = gli_windows_path(AT_FDCWD, path);
  wchar_t *whole = wide != NULL ? _wfullpath(NULL, wide, 0) : NULL;
  char *text = whole != NULL ? gli_windows_narrow(whole) : NULL;
  free(whole);
  free(wide);
  if (text == NULL) return false;
  bool fits = strlen(text) < room;
  if (fits) memcpy(absolute, text, strlen(text) + 1);
  free(text);
  errno = ENAMETOOLONG;
  return fits;
}
