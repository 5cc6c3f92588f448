
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/run_directory.h"
#include "observe/metrics.h"
#include "observe/observe_client.h"
#include "observe/text_out.h"

enum { SOCKETS_MAX = 100, BACKLOG = 8 };

/* ---- listening ----------------------------------------------------------- */

static gloo_status socket_refuse(const char *directory, const char *why,
                                 gloo_error *error) {
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot create a socket in \"%.100s\" (GLOO_METRICS): %s",
                  directory, why);
}

/* Listens under a new name. Returns false with errno. */
static bool socket_name(int fd, const char *directory, int rank,
                        gli_metrics_socket *made) {
  for (int i = 1; i <= SOCKETS_MAX; i++) {
    char again[16] = "";
    if (i > 1) snprintf(again, sizeof again, "-%d", i);
    int n = snprintf(made->path, sizeof made->path,
                     "%s/gloo-metrics-rank%d-pid%ld%s.sock", directory, rank,
                     (long)getpid(), again);
    errno = ENAMETOOLONG;
    if (n < 0 || (size_t)n >= sizeof made->path) return false;
    if (gli_socket_listen_at(fd, made->path, BACKLOG)) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

gloo_status gli_metrics_listen(const char *directory, gloo_context *context,
                               gli_metrics_socket *made, gloo_error *error) {
  int rank = gloo_context_rank(context);
  char absolute[GLI_PATH_BYTES];
  made->fd = gli_socket_open(AF_UNIX, SOCK_STREAM);
  if (made->fd < 0) return socket_refuse(directory, strerror(errno), error);
  /* An absolute path remains valid when the program changes its directory. */
  if (gli_path_absolute(directory, absolute, sizeof absolute) &&
      socket_name(made->fd, absolute, rank, made))
    return GLOO_OK;
  if (errno == ENAMETOOLONG && socket_name(made->fd, directory, rank, made))
    return GLOO_OK;
  gloo_status status = socket_refuse(directory, strerror(errno), error);
  gli_fd_close(made->fd);
  made->fd = -1;
  return status;
}

void gli_metrics_close(gli_metrics_socket *made) {
  if (made->fd < 0) return;
  (void)unlink(made->path);
  gli_fd_close(made->fd);
  made->fd = -1;
}

/* ---- answers ------------------------------------------------------------- */

static bool print_answer(FILE *to, void *context) {
  gli_observe_client_head(to, "200 OK", GLI_METRICS_TYPE);
  return gli_metrics_print(to, context);
}

char *gli_metrics_answer(gloo_context *context, size_t *bytes) {
  return gli_text_print(print_answer, context, bytes);
}
