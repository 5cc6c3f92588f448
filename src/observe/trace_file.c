/* Trace files: always new ones, which only the user can read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/log.h"
#include "core/signals.h"
#include "observe/text_out.h"
#include "observe/trace.h"

/* Limit on files: a process that fails more often needs no more traces. */
enum { FILES_MAX = 1000, NAME_BYTES = 100 };

gloo_status gli_trace_find_directory(const char *directory,
                                     char absolute[GLI_PATH_BYTES],
                                     gloo_error *error) {
  struct stat is;
  const char *why = NULL;
  if (stat(directory, &is) != 0 || access(directory, W_OK | X_OK) != 0)
    why = strerror(errno);
  else if (!S_ISDIR(is.st_mode))
    why = "it is not a directory";
  else if (!gli_path_absolute(directory, absolute, GLI_PATH_BYTES - NAME_BYTES))
    why = strerror(errno);
  if (why == NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot write traces to \"%.200s\" (GLOO_TRACE_DIR, or "
                  "trace_directory): %s",
                  directory, why);
}

/* Makes a file under a new name. Returns -1 with errno. */
static int make_file(char path[GLI_PATH_BYTES], const char *directory,
                     uint32_t rank) {
  for (int i = 1; i <= FILES_MAX; i++) {
    char again[16] = "";
    if (i > 1) snprintf(again, sizeof again, "-%d", i);
    int n = snprintf(path, GLI_PATH_BYTES, "%s/gloo-trace-rank%u-pid%ld%s.json",
                     directory, (unsigned)rank, (long)getpid(), again);
    if (n < 0 || n >= GLI_PATH_BYTES) errno = ENAMETOOLONG;
    if (n < 0 || n >= GLI_PATH_BYTES) return -1;
    int fd = gli_fd_keep(
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

struct to_print {
  const gli_snapshot *snapshot;
  const char *reason;
};

static bool print_it(FILE *to, void *of) {
  const struct to_print *p = of;
  gli_trace_print(to, p->snapshot, p->reason);
  return true;
}

/* Writes a trace. Returns 0 or errno. It uses no FILE on the descriptor,
 * because a child forked meanwhile would flush its buffer, too, at its end. */
static int write_file(int fd, const gli_snapshot *snapshot,
                      const char *reason) {
  struct to_print p = {snapshot, reason};
  size_t bytes = 0;
  char *text = gli_text_print(print_it, &p, &bytes);
  int code = text != NULL ? 0 : ENOMEM;
  if (text != NULL && gli_fd_write_all(fd, text, bytes) != 0) code = errno;
  free(text);
  if (close(fd) != 0 && code == 0 && errno != EINTR) code = errno;
  return code;
}

void gli_trace_save(const char *directory, gli_snapshot *snapshot,
                    const char *reason) {
  if (snapshot == NULL) {
    gli_log(GLOO_LOG_WARN, "out of memory for a trace of the last operations");
    return;
  }
  char path[GLI_PATH_BYTES];
  gli_signal_guard guard;
  gli_signal_guard_enter(&guard);
  int fd = make_file(path, directory, snapshot->rank);
  int code = fd >= 0 ? write_file(fd, snapshot, reason) : errno;
  if (fd >= 0 && code != 0) (void)unlink(path);
  gli_signal_guard_leave(&guard);
  if (code == 0)
    gli_log(GLOO_LOG_WARN,
            "rank %u: wrote a trace of its last operations to %s (read it with "
            "'gloo trace %s')",
            snapshot->rank, path, path);
  else
    gli_log(GLOO_LOG_WARN,
            "rank %u: cannot write a trace of its last operations to %s: %s",
            snapshot->rank, path, strerror(code));
  gli_snapshot_free(snapshot);
}

gli_trace_copy *gli_trace_copy_take(gloo_context *context,
                                    const char *directory) {
  size_t bytes = strlen(directory) + 1;
  gli_trace_copy *t = malloc(sizeof *t + bytes);
  if (t == NULL) {
    gli_trace_save(directory, NULL, GLI_TRACE_OF_SIGNAL); /* logs it */
    return NULL;
  }
  t->next = NULL;
  t->snapshot = gli_context_snapshot(context);
  memcpy(t->directory, directory, bytes);
  return t;
}

void gli_trace_copies_save(gli_trace_copy *first, const char *reason) {
  while (first != NULL) {
    gli_trace_copy *t = first;
    first = t->next;
    gli_trace_save(t->directory, t->snapshot, reason);
    free(t);
  }
}
