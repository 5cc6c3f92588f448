#include "observe/observe_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "core/run_directory.h"

/* ---- file names ---------------------------------------------------------- */

bool gli_observe_name_print(const char *directory, const gli_observe_name *name,
                            char path[GLI_OBSERVE_PATH_BYTES]) {
  int n = snprintf(path, GLI_OBSERVE_PATH_BYTES,
                   "%s/job-%012" PRIx64 "-rank%" PRId64 "-pid%" PRId64 ".sock",
                   directory, name->job, name->rank, name->process);
  return n > 0 && n < GLI_OBSERVE_PATH_BYTES;
}

bool gli_observe_name_parse(const char *file, gli_observe_name *name) {
  int used = 0;
  if (sscanf(file, "job-%12" SCNx64 "-rank%9" SCNd64 "-pid%18" SCNd64 ".sock%n",
             &name->job, &name->rank, &name->process, &used) != 3)
    return false;
  return used > 0 && file[used] == '\0' && name->rank >= 0 && name->process > 0;
}

bool gli_observe_directory(int n, bool create,
                           char directory[GLI_OBSERVE_PATH_BYTES]) {
  /* HOME is not used: hosts may share it, and a socket of another host would
   * look like that of an ended process. */
  static const gli_run_directory order[GLI_OBSERVE_DIRECTORIES] = {
      GLI_RUN_DIRECTORY_XDG, GLI_RUN_DIRECTORY_USER, GLI_RUN_DIRECTORY_TMP};
  return gli_run_socket_directory(order[n], create, directory);
}

/* ---- listening ----------------------------------------------------------- */

/* A reader that left without an answer counts until it is accepted. */
enum { BACKLOG = 16 };

static bool socket_listen(gli_observe_socket *s, const gli_observe_name *name) {
  errno = ENAMETOOLONG;
  return gli_observe_name_print(s->directory, name, s->path) &&
         gli_run_socket_listen(s->fd, s->path, BACKLOG);
}

static gloo_status socket_fail(const char *path, int code, gloo_error *error) {
  return gli_fail(error, gli_exhaustion_status(code), -1,
                  "cannot create a socket in %s: %s", path,
                  gli_exhaustion_text(code));
}

gloo_status gli_observe_socket_open(gli_observe_socket *made,
                                    const gli_observe_name *name,
                                    gloo_error *error) {
  gli_observe_socket s = {.fd = gli_socket_open(AF_UNIX, SOCK_STREAM),
                          .user = gli_user_here()};
  int code = errno;
  if (s.fd < 0) return socket_fail("the file system", code, error);
  if (gli_fd_is_scarce(s.fd)) {
    gli_fd_close(s.fd);
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "more than half of this process's file descriptors are in "
                    "use (ulimit -n)");
  }
  code = ENOENT;
  for (int n = 0; n < GLI_OBSERVE_DIRECTORIES; n++) {
    if (gli_observe_directory(n, true, s.directory) &&
        socket_listen(&s, name)) {
      *made = s;
      return GLOO_OK;
    }
    code = errno;
  }
  gli_fd_close(s.fd);
  return socket_fail(s.directory, code, error);
}

void gli_observe_socket_rename(gli_observe_socket *made,
                               const gli_observe_name *name) {
  char path[GLI_OBSERVE_PATH_BYTES];
  if (made->fd < 0 || !gli_observe_name_print(made->directory, name, path))
    return;
  if (rename(made->path, path) == 0) memcpy(made->path, path, sizeof path);
}

void gli_observe_socket_close(gli_observe_socket *made) {
  if (made->fd < 0) return;
  (void)unlink(made->path);
  gli_fd_close(made->fd);
  made->fd = -1;
}

/* ---- readers ------------------------------------------------------------- */

int gli_observe_socket_accept(const gli_observe_socket *made) {
  int64_t process;
  uint32_t user;
  int fd = gli_socket_accept(made->fd);
  if (fd < 0) return -1;
  int code = gli_socket_peer(fd, &process, &user);
  if (code == 0 && gli_user_is_own(&made->user, user)) return fd;
  gli_fd_close(fd);
  errno = EAGAIN;
  return -1;
}
