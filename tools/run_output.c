#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run.h"
#include "tools/tools.h"

/* Longer lines are cut. */
#define LINE_MAX_BYTES ((size_t)1 << 20)
#define READ_BYTES ((size_t)16 << 10)

_Static_assert(LINE_MAX_BYTES + READ_BYTES <= GLI_RUN_OUTPUT_MAX,
               "a frame holds a stream");

int gli_run_stream_init(gli_run_stream *stream, uv_loop_t *loop, int rank,
                        int fd) {
  memset(stream, 0, sizeof *stream);
  stream->rank = rank;
  stream->fd = fd;
  return uv_pipe_init(loop, &stream->pipe, 0);
}

/* ---- lines --------------------------------------------------------------- */

bool gli_run_write_all(int fd, const char *data, size_t bytes) {
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

int gli_run_output_status(int code, int status) {
  if (code == 0 || code == EPIPE) return status;
  fprintf(stderr, "gloo run: cannot write standard output: %s\n",
          strerror(code));
  return status == GLI_EXIT_OK ? GLI_EXIT_FAILED : status;
}

char *gli_run_prefixed(const char *prefix, const char *data, size_t bytes,
                       size_t *made) {
  size_t lines = 1, length = strlen(prefix), used = 0;
  for (size_t i = 0; i < bytes; i++) lines += data[i] == '\n';
  char *text = malloc(bytes + lines * (length + 1));
  if (text == NULL) return NULL;
  for (size_t at = 0; at < bytes;) {
    const char *end = memchr(data + at, '\n', bytes - at);
    size_t line = end == NULL ? bytes - at : (size_t)(end - data) - at;
    memcpy(text + used, prefix, length);
    memcpy(text + used + length, data + at, line);
    used += length + line;
    text[used++] = '\n';
    at += line + 1;
  }
  *made = used;
  return text;
}

/* ---- one stream ---------------------------------------------------------- */

/* Passes on the first bytes of the data. */
static bool pass_on(gli_run_stream *stream, size_t bytes) {
  if (bytes == 0) return true;
  bool good = stream->write(stream->user, stream->rank, stream->fd,
                            stream->data, bytes);
  stream->used -= bytes;
  memmove(stream->data, stream->data + bytes, stream->used);
  return good;
}

/* Passes on complete lines, or a piece of a line that is too long. `fresh` is
 * the start of the data not yet searched. */
static bool pass_lines(gli_run_stream *stream, size_t fresh) {
  size_t end = stream->used;
  while (end > fresh && stream->data[end - 1] != '\n') end--;
  if (end == fresh) end = stream->used >= LINE_MAX_BYTES ? stream->used : 0;
  return pass_on(stream, end);
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
  (void)pass_on(stream, stream->used);
  uv_close((uv_handle_t *)&stream->pipe, on_closed);
}

void gli_run_stream_flush(gli_run_stream *stream) {
  if (stream->open && !pass_on(stream, stream->used))
    gli_run_stream_stop(stream);
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
  if (pass_lines(stream, fresh)) return;
  /* The reader is gone: let the rank notice that as well. */
  stream->used = 0;
  gli_run_stream_stop(stream);
}

void gli_run_stream_pause(gli_run_stream *stream, bool pause) {
  if (!stream->open) return;
  if (pause)
    uv_read_stop((uv_stream_t *)&stream->pipe);
  else
    uv_read_start((uv_stream_t *)&stream->pipe, on_alloc, on_read);
}

void gli_run_stream_start(gli_run_stream *stream) {
  stream->pipe.data = stream;
  stream->open = true;
  int result = uv_read_start((uv_stream_t *)&stream->pipe, on_alloc, on_read);
  if (result != 0) gli_run_stream_stop(stream);
}
