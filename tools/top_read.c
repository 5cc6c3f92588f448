#include "tools/top_read.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

#include "core/descriptor.h"

#define ANSWER_MAX ((size_t)4 << 20)
#define PATIENCE_NS UINT64_C(2000000000)

/* ---- text ---------------------------------------------------------------- */

/* The value of a label in a line; -1: it has none, or no number. */
static int64_t top_label(const char *line, size_t length, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i + n < length; i++) {
    if (strncmp(line + i, name, n) != 0) continue;
    char *end;
    errno = 0;
    long long value = strtoll(line + i + n, &end, 10);
    bool good = errno == 0 && end > line + i + n && *end == '"' && value >= 0;
    return good && value < INT32_MAX ? value : -1;
  }
  return -1;
}

/* Is the line about this? Then its value, which is at its end. */
static bool top_value(const char *line, size_t length, const char *name,
                      double *value) {
  size_t n = strlen(name);
  if (length < n || strncmp(line, name, n) != 0 || line[n] != '{') return false;
  const char *at = line + length;
  while (at > line && at[-1] != ' ') at--;
  char *end;
  *value = strtod(at, &end);
  return end > at && *value >= 0 && *value < 1e30;
}

static void top_line(const char *line, size_t length, gli_top_rank *r) {
  double v;
  if (top_value(line, length, "gloo_rank_info", &v)) {
    r->rank = top_label(line, length, "{rank=\"");
    r->process = top_label(line, length, "process=\"");
  }
  if (top_value(line, length, "gloo_calls_total", &v)) r->calls += v;
  if (top_value(line, length, "gloo_call_seconds_total", &v))
    r->call_seconds += v;
  if (top_value(line, length, "gloo_bytes_sent_total", &v)) r->bytes_sent += v;
  if (top_value(line, length, "gloo_bytes_received_total", &v))
    r->bytes_received += v;
  if (top_value(line, length, "gloo_running", &v)) r->running = v;
  if (top_value(line, length, "gloo_context_failed", &v)) r->failed = v > 0;
  if (!top_value(line, length, "gloo_late_seconds_total", &v)) return;
  int64_t peer = top_label(line, length, "peer=\"");
  if (peer < 0 || r->n_late == GLI_TOP_PEERS) return;
  r->late_rank[r->n_late] = peer;
  r->late_seconds[r->n_late++] = v;
}

bool gli_top_parse(const char *text, gli_top_rank *rank) {
  *rank = (gli_top_rank){.rank = -1, .process = -1};
  while (*text != '\0') {
    size_t length = strcspn(text, "\n");
    top_line(text, length, rank);
    text += length + (text[length] != '\0');
  }
  return rank->rank >= 0;
}

/* ---- the socket ---------------------------------------------------------- */

static int top_connect(const char *path) {
  struct sockaddr_un address;
  size_t length = strlen(path);
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (length >= sizeof address.sun_path) return -1;
  memcpy(address.sun_path, path, length);
  int fd = gli_socket_open(AF_UNIX, SOCK_STREAM); /* which does not block */
  if (fd >= 0 &&
      connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  gli_fd_close(fd);
  return -1;
}

/* What there is until the end, or until that takes too long; NULL: nothing. */
static char *top_receive(int fd) {
  size_t room = 1 << 16, used = 0;
  uint64_t until_ns = uv_hrtime() + PATIENCE_NS;
  char *text = malloc(room);
  while (text != NULL && used + 1 < room) {
    ssize_t got = gli_socket_receive(fd, text + used, room - 1 - used);
    if (got == 0) break;
    if (got < 0) {
      uint64_t now_ns = uv_hrtime();
      struct pollfd p = {.fd = fd, .events = POLLIN};
      if (!gli_would_block(errno) || now_ns >= until_ns) break;
      (void)poll(&p, 1, (int)((until_ns - now_ns) / 1000000) + 1);
      continue;
    }
    used += (size_t)got;
    if (used + 1 < room || room >= ANSWER_MAX) continue;
    room *= 2;
    char *more = realloc(text, room);
    if (more == NULL) free(text);
    text = more;
  }
  if (text != NULL) text[used] = '\0';
  return text;
}

bool gli_top_read(const char *path, gli_top_rank *rank) {
  int fd = top_connect(path);
  if (fd < 0) return false;
  char *text = top_receive(fd);
  gli_fd_close(fd);
  bool read = text != NULL && gli_top_parse(text, rank);
  rank->read_s = (double)uv_hrtime() / 1e9;
  free(text);
  return read;
}
