#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run.h"

/* Longer lines are cut. */
#define LINE_MAX_BYTES ((size_t)1 << 20)
#define READ_BYTES ((size_t)16 << 10)

int gli_run_stream_init(gli_run_stream *stream, uv_loop_t *loop, int rank,
                        int fd) {
  memset(stream, 0, sizeof *stream);
  stream->rank = rank;
  stream->fd = fd;
  return uv_pipe_init(loop, &stream->pipe, 0);
}

/* Writes everything, even if the descriptor takes only a part at a time. */
static bool write_all(int fd, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t wrote = write(fd, data, bytes);
    if (wrote >= 0) {
      data += wrote;
      bytes -= (size_t)wrote;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    poll(&wait, 1, -1);
  }
  return true;
}

/* Writes one line without its newline. Prefix, line and newline are one write,
 * so that lines of other writers to the same file stay whole, too. */
static bool write_line(gli_run_stream *stream, const char *line, size_t bytes) {
  char small[1024];
  size_t room = bytes + 16;
  char *text = room <= sizeof small ? small : malloc(room);
  if (text == NULL) return false;
  size_t used = (size_t)snprintf(text, room, "[%d] ", stream->rank);
  memcpy(text + used, line, bytes);
  text[used + bytes] = '\n';
  bool good = write_all(stream->fd, text, used + bytes + 1);
  if (text != small) free(text);
  return good;
}

/* Writes complete lines, and a piece of a line that is too long. `fresh` is the
 * start of the data not yet searched. */
static bool write_lines(gli_run_stream *stream, size_t fresh) {
  size_t start = 0;
  bool good = true;
  for (size_t at = fresh; at < stream->used && good; at++) {
    bool too_long = at - start + 1 >= LINE_MAX_BYTES;
    bool complete = stream->data[at] == '\n';
    if (!complete && !too_long) continue;
    good = write_line(stream, stream->data + start,
                      at - start + (complete ? 0 : 1));
    start = at + 1;
  }
  stream->used -= start;
  memmove(stream->data, stream->data + start, stream->used);
  return good;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  (void)suggested;
  gli_run_stream *stream = handle->data;
  if (stream->capacity - stream->used < READ_BYTES) {
    size_t capacity = 2 * stream->capacity + READ_BYTES;
    char *data = realloc(stream->data, capacity);
    if (data != NULL) stream->data = data;
    if (data != NULL) stream->capacity = capacity;
  }
  size_t room = stream->capacity - stream->used;
  if (room > READ_BYTES) room = READ_BYTES;
  *buffer = room == 0
                ? uv_buf_init(NULL, 0)
                : uv_buf_init(stream->data + stream->used, (unsigned)room);
}

static void on_closed(uv_handle_t *handle) {
  gli_run_stream *stream = handle->data;
  free(stream->data);
  stream->data = NULL;
  stream->on_close(stream->user);
}

void gli_run_stream_stop(gli_run_stream *stream) {
  if (!stream->open) return;
  stream->open = false;
  if (stream->used > 0) write_line(stream, stream->data, stream->used);
  uv_close((uv_handle_t *)&stream->pipe, on_closed);
}

static void on_read(uv_stream_t *pipe, ssize_t bytes, const uv_buf_t *buffer) {
  (void)buffer;
  gli_run_stream *stream = pipe->data;
  if (bytes < 0) {
    gli_run_stream_stop(stream);
    return;
  }
  size_t fresh = stream->used;
  stream->used += (size_t)bytes;
  if (write_lines(stream, fresh)) return;
  /* The reader is gone: let the rank notice that as well. */
  stream->used = 0;
  gli_run_stream_stop(stream);
}

void gli_run_stream_start(gli_run_stream *stream, void (*on_close)(void *user),
                          void *user) {
  stream->pipe.data = stream;
  stream->on_close = on_close;
  stream->user = user;
  stream->open = true;
  int result = uv_read_start((uv_stream_t *)&stream->pipe, on_alloc, on_read);
  if (result != 0) gli_run_stream_stop(stream);
}
