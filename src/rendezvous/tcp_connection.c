#include "rendezvous/tcp_connection.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/signals.h"

/* A failing libuv call leaves its code in `failure`; what is not a libuv error
 * has a code of its own. */
enum { FINE = 0, OUT_OF_TIME = 1, BROKEN_REPLY = 2 };

struct gli_tcp_connection {
  gli_tcp_connection *next;
  uv_loop_t loop;
  uv_tcp_t tcp;
  uv_timer_t timer;
  struct sockaddr_storage address;
  int failure;
  int steps_left; /* what the thread that runs the loop still waits for */
  size_t got;     /* bytes of the reply's head, then of head and body */
  uint8_t head[GLI_TCP_HEAD_BYTES];
  uint8_t *body;
  size_t body_bytes;
};

static void fail_with(gli_tcp_connection *self, int code) {
  if (self->failure == FINE) self->failure = code;
}

static void on_timer(uv_timer_t *timer) {
  fail_with(timer->data, OUT_OF_TIME);
}

/* Run the loop until everything awaited has happened, or something failed. */
static void run(gli_tcp_connection *self, uint64_t deadline_ns) {
  int64_t left = gli_deadline_left(deadline_ns);
  if (left >= 0) {
    uv_update_time(&self->loop);
    uv_timer_start(&self->timer, on_timer, (uint64_t)left / 1000000 + 1, 0);
  }
  while (self->failure == FINE && self->steps_left > 0)
    uv_run(&self->loop, UV_RUN_ONCE);
  uv_timer_stop(&self->timer);
}

static gloo_status explain(const gli_tcp_connection *self, gloo_error *error) {
  gli_tcp_name name = gli_tcp_address_name(&self->address);
  switch (self->failure) {
    case FINE:
      return GLOO_OK;
    case OUT_OF_TIME:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s did not answer in time",
                      name.text);
    case BROKEN_REPLY:
      return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "what answers at %s is not a server of the TCP store: "
                      "check host and port",
                      name.text);
    case UV_ENOMEM:
      return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "no memory for a reply of the TCP store's server at %s",
                      name.text);
    case UV_EOF:
    case UV_ECONNRESET:
    case UV_EPIPE:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s closed the connection: "
                      "the process that serves it has ended, or destroyed it",
                      name.text);
    default:
      return gli_fail(error, GLOO_ERR_PEER, -1,
                      "the TCP store's server at %s cannot be reached: %s",
                      name.text, uv_strerror(self->failure));
  }
}

/* ---- open and close ----------------------------------------------------- */

static void on_connected(uv_connect_t *request, int rc) {
  gli_tcp_connection *self = request->data;
  self->steps_left--;
  if (rc != 0) fail_with(self, rc);
}

static int connect_to(gli_tcp_connection *self, uint64_t deadline_ns) {
  uv_connect_t request;
  request.data = self;
  self->steps_left = 1;
  int rc =
      uv_tcp_connect(&request, &self->tcp,
                     (const struct sockaddr *)&self->address, on_connected);
  if (rc != 0) {
    fail_with(self, rc);
    return rc;
  }
  run(self, deadline_ns);
  if (self->failure == FINE) return 0;
  /* The request lives on this stack: have it called back before leaving. */
  int steps = self->steps_left;
  if (steps > 0) uv_close((uv_handle_t *)&self->tcp, NULL);
  while (self->steps_left > 0) uv_run(&self->loop, UV_RUN_ONCE);
  return -1;
}

gloo_status gli_tcp_connection_open(const struct sockaddr_storage *address,
                                    uint64_t deadline_ns,
                                    gli_tcp_connection **connection,
                                    gloo_error *error) {
  gli_tcp_connection *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a connection to the TCP store");
  int rc = uv_loop_init(&self->loop);
  if (rc != 0) {
    free(self);
    return gli_fail(error, GLOO_ERR_IO, -1,
                    "cannot make an event loop for the TCP store: %s",
                    uv_strerror(rc));
  }
  self->address = *address;
  self->tcp.data = self->timer.data = self;
  uv_timer_init(&self->loop, &self->timer);
  uv_tcp_init(&self->loop, &self->tcp);
  rc = connect_to(self, deadline_ns);
  if (rc == 0) rc = uv_tcp_nodelay(&self->tcp, 1);
  if (rc == 0) rc = uv_tcp_keepalive(&self->tcp, 1, 10);
  if (rc == 0) {
    *connection = self;
    return GLOO_OK;
  }
  fail_with(self, rc);
  gloo_status status = explain(self, error);
  gli_tcp_connection_close(self);
  return status;
}

static void end(gli_tcp_connection *self) {
  if (!uv_is_closing((uv_handle_t *)&self->tcp))
    uv_close((uv_handle_t *)&self->tcp, NULL);
  uv_close((uv_handle_t *)&self->timer, NULL);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  uv_loop_close(&self->loop);
  free(self->body);
  free(self);
}

void gli_tcp_connection_close(gli_tcp_connection *self) {
  gli_tcp_hang_up(&self->tcp);
  end(self);
}

/* Its loop gets a poll set of its own; where there is none to be had, all is
 * left as it is. */
void gli_tcp_connection_abandon(gli_tcp_connection *self) {
  if (uv_loop_fork(&self->loop) == 0) end(self);
}

gli_tcp_connection **gli_tcp_connection_next(gli_tcp_connection *self) {
  return &self->next;
}

/* ---- request and reply -------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  gli_tcp_connection *self = handle->data;
  (void)suggested;
  if (self->body == NULL) {
    *buffer = uv_buf_init((char *)self->head + self->got,
                          (unsigned)(GLI_TCP_HEAD_BYTES - self->got));
  } else {
    size_t have = self->got - GLI_TCP_HEAD_BYTES;
    *buffer = uv_buf_init((char *)self->body + have,
                          (unsigned)(self->body_bytes - have));
  }
}

static void on_head(gli_tcp_connection *self) {
  self->body_bytes = gli_get_u32(self->head);
  if (self->body_bytes > GLI_TCP_FRAME_MAX ||
      gli_get_u32(self->head + 4) > (uint32_t)-GLOO_ERR_INTERNAL) {
    fail_with(self, BROKEN_REPLY);
    return;
  }
  self->body = malloc(self->body_bytes > 0 ? self->body_bytes : 1);
  if (self->body == NULL) fail_with(self, UV_ENOMEM);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  gli_tcp_connection *self = stream->data;
  (void)buffer;
  if (n < 0) fail_with(self, (int)n);
  if (n > 0) self->got += (size_t)n;
  if (self->failure == FINE && self->got == GLI_TCP_HEAD_BYTES &&
      self->body == NULL)
    on_head(self);
  bool complete =
      self->body != NULL && self->got == GLI_TCP_HEAD_BYTES + self->body_bytes;
  if (self->failure == FINE && !complete) return;
  uv_read_stop(stream);
  self->steps_left--;
}

static void on_written(uv_write_t *request, int rc) {
  gli_tcp_connection *self = request->data;
  self->steps_left--;
  /* A server that closes may have sent its reason: read that first. */
  if (rc != 0 && rc != UV_EPIPE && rc != UV_ECONNRESET) fail_with(self, rc);
}

gloo_status gli_tcp_connection_call(gli_tcp_connection *self,
                                    const gli_frame *request,
                                    uint64_t deadline_ns, gli_tcp_reply *reply,
                                    gloo_error *error) {
  uv_stream_t *stream = (uv_stream_t *)&self->tcp;
  uv_write_t write;
  uv_buf_t buffer =
      uv_buf_init((char *)request->data, (unsigned)request->bytes);
  gli_signal_guard guard;
  write.data = self;
  self->got = 0;
  self->steps_left = 2;
  gli_signal_guard_enter(&guard);
  int rc = uv_write(&write, stream, &buffer, 1, on_written);
  if (rc != 0) self->steps_left--;
  if (rc == 0) rc = uv_read_start(stream, on_alloc, on_read);
  if (rc != 0) fail_with(self, rc);
  run(self, deadline_ns);
  gli_signal_guard_leave(&guard);
  if (self->failure != FINE) {
    /* The write request lives on this stack: have it called back first. */
    uv_close((uv_handle_t *)stream, NULL);
    uv_timer_stop(&self->timer);
    uv_run(&self->loop, UV_RUN_DEFAULT);
    return explain(self, error);
  }
  reply->status = -(gloo_status)gli_get_u32(self->head + 4);
  reply->data = self->body;
  reply->body = (gli_body){self->body, self->body_bytes};
  self->body = NULL;
  return GLOO_OK;
}
