#include "observe/observe_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "core/descriptor.h"
#include "observe/metrics.h"
#include "observe/trace.h"

enum { DRAIN_BYTES = 4096, REQUEST_BYTES = 512, SLICE_MS = 20 };
#define CLIENT_NS UINT64_C(500000000)

gli_observe_client gli_observe_client_of(int fd, const atomic_bool *ends) {
  return (gli_observe_client){
      .fd = fd, .until_ns = uv_hrtime() + CLIENT_NS, .ends = ends};
}

/* Waits in slices, because the thread may have to end meanwhile. Returns false
 * on timeout. */
static bool client_wait(const gli_observe_client *client, short events) {
  struct pollfd fd = {.fd = client->fd, .events = events};
  while (uv_hrtime() < client->until_ns && !atomic_load(client->ends)) {
    int n = poll(&fd, 1, SLICE_MS);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
  return false;
}

/* Returns the number of bytes received; 0 at the end or on timeout. */
static size_t client_receive(const gli_observe_client *client, char *to,
                             size_t room) {
  while (client_wait(client, POLLIN)) {
    ssize_t got = gli_socket_receive(client->fd, to, room);
    if (got >= 0) return (size_t)got;
    if (!gli_would_block(errno)) return 0;
  }
  return 0;
}

bool gli_observe_client_asks(const gli_observe_client *client, char *path,
                             size_t room) {
  static const char method[] = "GET ";
  char line[REQUEST_BYTES];
  size_t used = 0, got = 1;
  const char *end = NULL;
  while (got > 0 && end == NULL) {
    got = client_receive(client, line + used, sizeof line - 1 - used);
    used += got;
    end = memchr(line, '\n', used);
  }
  line[used] = '\0';
  if (end == NULL || strncmp(line, method, sizeof method - 1) != 0)
    return false;
  const char *at = line + sizeof method - 1;
  size_t length = strcspn(at, " \r\n");
  if (length >= room) return false;
  memcpy(path, at, length);
  path[length] = '\0';
  return true;
}

void gli_observe_client_head(FILE *to, const char *status, const char *type) {
  fprintf(to, "HTTP/1.0 %s\r\nContent-Type: %s\r\nConnection: close\r\n\r\n",
          status, type);
}

/* Reads and ignores the rest of the request: closing a socket with unread data
 * would be an error for the reader. */
static void client_drain(const gli_observe_client *client) {
  char unread[512];
  size_t most = DRAIN_BYTES, got = 1;
  (void)shutdown(client->fd, SHUT_WR);
  while (most > 0 && got > 0) {
    got = client_receive(client, unread, sizeof unread);
    most = got < most ? most - got : 0;
  }
}

void gli_observe_client_serve(const gli_observe_client *client,
                              const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t sent = gli_socket_send(client->fd, text, bytes);
    if (sent > 0) {
      text += sent;
      bytes -= (size_t)sent;
    } else if (!gli_would_block(errno) || !client_wait(client, POLLOUT)) {
      break;
    }
  }
  if (bytes == 0) client_drain(client);
  gli_fd_close(client->fd);
}

/* ---- answers ------------------------------------------------------------- */

/* Size of an answer from which later contexts are answered like
 * GLI_OBSERVE_NOW. */
#define ANSWER_BYTES_MOST (64L << 20)

gli_observe_question gli_observe_question_read(const char *path) {
  static const char *const paths[] = {"/metrics", "/trace", "/now"};
  int i = 0;
  while (i < GLI_OBSERVE_NONE && strcmp(path, paths[i]) != 0) i++;
  return (gli_observe_question)i;
}

void gli_observe_answer_begin(FILE *to, gli_observe_question question) {
  if (question == GLI_OBSERVE_NONE) {
    gli_observe_client_head(to, "404 Not Found", "text/plain");
    fputs("not found; available: /metrics, /trace, /now\n", to);
    return;
  }
  gli_observe_client_head(
      to, "200 OK",
      question == GLI_OBSERVE_METRICS ? GLI_METRICS_TYPE : "application/json");
}

bool gli_observe_answer(FILE *to, gli_observe_question question,
                        gloo_context *context) {
  if (question == GLI_OBSERVE_NONE) return true;
  if (question == GLI_OBSERVE_METRICS) return gli_metrics_print(to, context);
  gli_snapshot *snapshot = gli_context_snapshot(context);
  if (snapshot == NULL) return false;
  if (question == GLI_OBSERVE_NOW || ftell(to) > ANSWER_BYTES_MOST)
    gli_snapshot_forget_ended(snapshot);
  gli_trace_print(to, snapshot, GLI_TRACE_OF_READER);
  gli_snapshot_free(snapshot);
  return true;
}
