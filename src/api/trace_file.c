/* Files with what a context remembers: new ones, that the user alone can read.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/trace.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/log.h"
#include "core/signals.h"

/* A process that writes more has something else to tell. */
enum { FILES_MAX = 1000, PATH_BYTES = 4096 };

gloo_status gli_trace_check_directory(const char *directory,
                                      gloo_error *error) {
  struct stat is;
  const char *why = NULL;
  if (strlen(directory) > PATH_BYTES - 100)
    why = "its name is too long";
  else if (stat(directory, &is) != 0 || access(directory, W_OK | X_OK) != 0)
    why = strerror(errno);
  else if (!S_ISDIR(is.st_mode))
    why = "it is no directory";
  if (why == NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "no traces can be written to \"%.200s\" (GLOO_TRACE_DIR, or "
                  "trace_directory): %s",
                  directory, why);
}

/* Under a name that no file has. -1 with errno. */
static int make_file(char path[PATH_BYTES], const char *directory,
                     uint32_t rank) {
  for (int i = 1; i <= FILES_MAX; i++) {
    char again[16] = "";
    if (i > 1) snprintf(again, sizeof again, "-%d", i);
    int n = snprintf(path, PATH_BYTES, "%s/gloo-trace-rank%u-pid%ld%s.json",
                     directory, (unsigned)rank, (long)getpid(), again);
    if (n < 0 || n >= PATH_BYTES) errno = ENAMETOOLONG;
    if (n < 0 || n >= PATH_BYTES) return -1;
    int fd = gli_fd_keep(
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* Returns what went wrong, as errno says; 0: nothing. */
static int write_file(int fd, const gli_snapshot *snapshot,
                      const char *reason) {
  FILE *to = fdopen(fd, "w");
  if (to == NULL) {
    int code = errno;
    gli_fd_close(fd);
    return code;
  }
  errno = 0;
  gli_trace_print(to, snapshot, reason);
  int code = ferror(to) ? errno : 0;
  if (ferror(to) && code == 0) code = EIO;
  if (fclose(to) != 0 && code == 0) code = errno;
  return code;
}

void gli_trace_save(const char *directory, gli_snapshot *snapshot,
                    const char *reason) {
  if (snapshot == NULL) {
    gli_log(GLOO_LOG_WARN, "out of memory for what the last operations were");
    return;
  }
  char path[PATH_BYTES];
  gli_signal_guard guard;
  gli_signal_guard_enter(&guard);
  int fd = make_file(path, directory, snapshot->rank);
  int code = fd >= 0 ? write_file(fd, snapshot, reason) : errno;
  if (fd >= 0 && code != 0) (void)unlink(path);
  gli_signal_guard_leave(&guard);
  if (code == 0)
    gli_log(GLOO_LOG_WARN,
            "rank %u: what its last operations were is in %s (gloo trace reads "
            "such files)",
            snapshot->rank, path);
  else
    gli_log(GLOO_LOG_WARN,
            "rank %u: cannot write what its last operations were to %s: %s",
            snapshot->rank, path, strerror(code));
  gli_snapshot_free(snapshot);
}
