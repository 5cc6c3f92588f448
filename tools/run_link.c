#include "tools/run_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"

enum { QUEUE_LONG = 1 << 20, QUEUE_SHORT = 1 << 18 };

void gli_run_link_init(gli_run_link *link, uv_loop_t *loop, bool from_agent,
                       const gli_run_link_events *events, void *user) {
  memset(link, 0, sizeof *link);
  link->events = events;
  link->user = user;
  link->frames.from_agent = from_agent;
  uv_pipe_init(loop, &link->in, 0);
  uv_pipe_init(loop, &link->out, 0);
  link->in.data = link;
  link->out.data = link;
  link->open = 2;
  link->heard = uv_now(loop);
}

/* ---- the end ------------------------------------------------------------- */

static void on_link_closed(uv_handle_t *handle) {
  gli_run_link *link = handle->data;
  if (--link->open > 0) return;
  gli_run_frames_free(&link->frames);
  link->events->closed(link->user);
}

static void close_handle(uv_pipe_t *pipe) {
  if (!uv_is_closing((uv_handle_t *)pipe))
    uv_close((uv_handle_t *)pipe, on_link_closed);
}

void gli_run_link_close(gli_run_link *link) {
  link->ended = true;
  close_handle(&link->in);
  close_handle(&link->out);
}

static void link_end(gli_run_link *link, const char *why) {
  if (link->ended) return;
  link->ended = true;
  uv_read_stop((uv_stream_t *)&link->in);
  link->events->ended(link->user, why);
}

static void on_shutdown(uv_shutdown_t *request, int status) {
  (void)status;
  gli_run_link *link = request->handle->data;
  close_handle(&link->out);
}

void gli_run_link_finish(gli_run_link *link) {
  if (link->finishing || uv_is_closing((uv_handle_t *)&link->out)) return;
  link->finishing = true;
  if (uv_shutdown(&link->shutdown, (uv_stream_t *)&link->out, on_shutdown) != 0)
    close_handle(&link->out);
}

/* ---- sending ------------------------------------------------------------- */

typedef struct link_write {
  uv_write_t request;
  gli_run_link *link;
  size_t bytes;
  uint8_t data[];
} link_write;

static void on_link_written(uv_write_t *request, int status) {
  link_write *w = request->data;
  gli_run_link *link = w->link;
  gli_wipe(w->data, w->bytes);
  free(w);
  if (status != 0) {
    if (status != UV_ECANCELED) link_end(link, "");
    return;
  }
  if (!link->long_queue || gli_run_link_queued(link) > QUEUE_SHORT) return;
  link->long_queue = false;
  if (!link->ended && link->events->drained != NULL)
    link->events->drained(link->user);
}

/* Sends a head, unless it is NULL, and data. */
static void link_send(gli_run_link *link, const uint8_t *head, const void *data,
                      size_t bytes) {
  if (link->ended || link->finishing) return;
  size_t before = head == NULL ? 0 : GLI_RUN_FRAME_HEAD;
  link_write *w = malloc(sizeof *w + before + bytes);
  if (w == NULL) {
    link_end(link, "out of memory");
    return;
  }
  w->request.data = w;
  w->link = link;
  w->bytes = before + bytes;
  if (head != NULL) memcpy(w->data, head, before);
  if (bytes > 0) memcpy(w->data + before, data, bytes);
  uv_buf_t buffer = uv_buf_init((char *)w->data, (unsigned)w->bytes);
  int result = uv_write(&w->request, (uv_stream_t *)&link->out, &buffer, 1,
                        on_link_written);
  if (result != 0) {
    free(w);
    link_end(link, "");
    return;
  }
  if (gli_run_link_queued(link) > QUEUE_LONG) link->long_queue = true;
}

void gli_run_link_send(gli_run_link *link, gli_run_type type, uint32_t index,
                       const void *data, size_t bytes) {
  uint8_t head[GLI_RUN_FRAME_HEAD];
  gli_run_frame_head(head, type, index, bytes);
  link_send(link, head, data, bytes);
}

void gli_run_link_send_raw(gli_run_link *link, const void *data, size_t bytes) {
  link_send(link, NULL, data, bytes);
}

size_t gli_run_link_queued(const gli_run_link *link) {
  return uv_stream_get_write_queue_size((const uv_stream_t *)&link->out);
}

/* ---- reading ------------------------------------------------------------- */

static void take_frames(gli_run_link *link) {
  gli_run_frame frame;
  gloo_error error;
  while (!link->paused && !link->ended) {
    int got = gli_run_frames_next(&link->frames, &frame, &error);
    if (got < 0) link_end(link, error.message);
    if (got <= 0) return;
    link->events->frame(link->user, &frame);
  }
}

static void on_link_alloc(uv_handle_t *handle, size_t suggested,
                          uv_buf_t *buffer) {
  gli_run_link *link = handle->data;
  uint8_t *room = gli_run_frames_room(&link->frames, suggested);
  *buffer = uv_buf_init((char *)room, room == NULL ? 0 : (unsigned)suggested);
}

static void on_link_read(uv_stream_t *pipe, ssize_t bytes,
                         const uv_buf_t *buffer) {
  (void)buffer;
  gli_run_link *link = pipe->data;
  if (bytes < 0) {
    link_end(link, bytes == UV_ENOBUFS ? "out of memory" : "");
    return;
  }
  if (bytes == 0) return;
  link->heard = uv_now(pipe->loop);
  link->frames.used += (size_t)bytes;
  take_frames(link);
}

void gli_run_link_start(gli_run_link *link) {
  int result =
      uv_read_start((uv_stream_t *)&link->in, on_link_alloc, on_link_read);
  if (result != 0) link_end(link, uv_strerror(result));
}

void gli_run_link_pause(gli_run_link *link, bool pause) {
  if (link->paused == pause) return;
  link->paused = pause;
  if (link->ended) return;
  if (pause) {
    uv_read_stop((uv_stream_t *)&link->in);
    return;
  }
  link->heard = uv_now(link->in.loop);
  take_frames(link);
  if (!link->ended && !link->paused) gli_run_link_start(link);
}
