#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/environment.h"
#include "tools/run.h"
#include "tools/tools.h"

/* Returns 0 if `path` can be executed, otherwise the reason. */
static int check_executable(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return access(path, X_OK) == 0 ? 0 : errno;
}

/* Searches each directory of PATH. Returns 0, or the most specific reason. */
static int search_path(const char *program, char path[GLI_RUN_PATH_MAX]) {
  int reason = ENOENT;
  const char *list = gli_environment_read("PATH");
  if (list == NULL) list = "/usr/local/bin:/usr/bin:/bin";
  for (const char *at = list;;) {
    size_t length = strcspn(at, ":");
    const char *directory = length == 0 ? "." : at;
    int width = length == 0 ? 1 : (int)length;
    int used =
        snprintf(path, GLI_RUN_PATH_MAX, "%.*s/%s", width, directory, program);
    if (used > 0 && used < GLI_RUN_PATH_MAX) {
      int result = check_executable(path);
      if (result == 0) return 0;
      if (result == EACCES) reason = EACCES;
    }
    if (at[length] == 0) return reason;
    at += length + 1;
  }
}

bool gli_run_find(const char *program, char path[GLI_RUN_PATH_MAX],
                  int *exit_status, gloo_error *error) {
  size_t size = GLI_RUN_PATH_MAX;
  if (strcmp(program, "gloo") == 0 && uv_exepath(path, &size) == 0) return true;
  bool has_slash = strchr(program, '/') != NULL;
  int reason;
  if (has_slash) {
    int used = snprintf(path, GLI_RUN_PATH_MAX, "%s", program);
    reason = used < GLI_RUN_PATH_MAX ? check_executable(path) : ENAMETOOLONG;
  } else {
    reason = *program != 0 ? search_path(program, path) : ENOENT;
  }
  if (reason == 0) return true;
  bool absent = reason == ENOENT || reason == ENOTDIR;
  *exit_status = absent ? GLI_EXIT_NOT_FOUND : GLI_EXIT_CANNOT_RUN;
  gli_fail(error, GLOO_ERR_NOT_FOUND, -1, "cannot run '%s': %s", program,
           absent && !has_slash ? "not found in PATH" : strerror(reason));
  return false;
}
