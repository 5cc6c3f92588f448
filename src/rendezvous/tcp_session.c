/* A session's bytes: reading requests, writing replies, closing. */
#include "rendezvous/tcp_session.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/log.h"

#define HELLO_DEADLINE_MS 5000
#define SESSIONS_MAX 65536

static void on_closed(uv_handle_t *handle) {
  gli_session *session = handle->data;
  if (--session->open_handles > 0) return;
  if (session->link != NULL) {
    *session->link = session->next;
    if (session->next != NULL) session->next->link = session->link;
    session->service->n_sessions--;
  }
  free(session->fetch.keys);
  free(session->body);
  free(session->out);
  free(session);
}

void gli_session_close(gli_session *session) {
  if (session->state == GLI_SESSION_CLOSED) return;
  gli_tcp_hang_up(&session->tcp);
  gli_session_abandon(session);
}

void gli_session_abandon(gli_session *session) {
  if (session->state == GLI_SESSION_CLOSED) return;
  gli_session_unpark(session);
  session->state = GLI_SESSION_CLOSED;
  uv_close((uv_handle_t *)&session->tcp, on_closed);
  uv_close((uv_handle_t *)&session->timer, on_closed);
}

void gli_session_drop(gli_session *session, const char *why) {
  gli_log(GLOO_LOG_WARN, "the TCP store at %s dropped the client at %s: %s",
          session->service->address, session->peer, why);
  gli_session_close(session);
}

/* ---- reading ------------------------------------------------------------ */

/* The head is complete: make room for the body, if it is a sane one. */
static void on_head(gli_session *session) {
  bool hello = session->state == GLI_SESSION_HELLO;
  size_t max = hello ? GLI_TCP_HELLO_MAX : GLI_TCP_FRAME_MAX;
  session->body_bytes = gli_get_u32(session->head);
  session->op = gli_get_u32(session->head + 4);
  if ((session->op == GLI_TCP_HELLO) != hello || session->body_bytes > max) {
    gli_session_drop(session, hello ? "it does not speak the store's protocol"
                                    : "it sent a broken request");
    return;
  }
  session->body = malloc(session->body_bytes > 0 ? session->body_bytes : 1);
  if (session->body == NULL)
    gli_session_drop(session, "no memory for a request");
}

/* libuv reads just what is missing of the head or of the body; a client that
 * is waiting has nothing to say. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  gli_session *session = handle->data;
  (void)suggested;
  if (session->state == GLI_SESSION_PARKED) {
    *buffer = uv_buf_init((char *)session->head, 1);
  } else if (session->body == NULL) {
    *buffer = uv_buf_init((char *)session->head + session->got,
                          (unsigned)(GLI_TCP_HEAD_BYTES - session->got));
  } else {
    size_t have = session->got - GLI_TCP_HEAD_BYTES;
    *buffer = uv_buf_init((char *)session->body + have,
                          (unsigned)(session->body_bytes - have));
  }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
  gli_session *session = stream->data;
  (void)buffer;
  if (n == 0) return;
  if (n < 0) {
    if (session->state == GLI_SESSION_HELLO)
      gli_session_drop(session, "it left without saying hello");
    gli_session_close(session);
    return;
  }
  if (session->state == GLI_SESSION_PARKED) {
    gli_session_drop(session, "it sent a request before the reply to the last");
    return;
  }
  session->got += (size_t)n;
  if (session->got == GLI_TCP_HEAD_BYTES && session->body == NULL)
    on_head(session);
  if (session->state == GLI_SESSION_CLOSED) return;
  if (session->got == GLI_TCP_HEAD_BYTES + session->body_bytes &&
      session->body != NULL)
    gli_session_serve(session);
}

/* ---- writing ------------------------------------------------------------ */

/* Forget the request that was served, and await the next. */
static void next_request(gli_session *session) {
  free(session->fetch.keys);
  free(session->body);
  free(session->out);
  session->fetch = (gli_tcp_fetch){0};
  session->body = NULL;
  session->out = NULL;
  session->got = 0;
  session->state = GLI_SESSION_READY;
}

static void on_written(uv_write_t *request, int rc) {
  gli_session *session = request->data;
  if (session->state == GLI_SESSION_CLOSED) return;
  if (rc == 0) {
    next_request(session);
    rc = uv_read_start((uv_stream_t *)&session->tcp, on_alloc, on_read);
  }
  if (rc != 0) gli_session_close(session);
}

/* Most replies leave at once; the rest of a long one follows by itself, and no
 * request is read meanwhile. */
static int write_out(gli_session *session, size_t bytes) {
  uv_stream_t *stream = (uv_stream_t *)&session->tcp;
  uv_buf_t buffer = uv_buf_init((char *)session->out, (unsigned)bytes);
  int n = uv_try_write(stream, &buffer, 1);
  if (n == UV_EAGAIN) n = 0;
  if (n < 0) return n;
  if ((size_t)n == bytes) {
    next_request(session);
    return 0;
  }
  session->state = GLI_SESSION_WRITING;
  uv_read_stop(stream);
  buffer = uv_buf_init((char *)session->out + n, (unsigned)(bytes - (size_t)n));
  session->write.data = session;
  return uv_write(&session->write, stream, &buffer, 1, on_written);
}

void gli_session_reply(gli_session *session, gli_frame *reply,
                       gloo_status status) {
  gli_frame_end(reply, (uint32_t)-status);
  session->out = reply->data;
  if (reply->failed) {
    gli_session_drop(session, "no memory for the reply");
    return;
  }
  if (write_out(session, reply->bytes) != 0) gli_session_close(session);
}

void gli_session_reply_status(gli_session *session, gloo_status status,
                              const gloo_error *error) {
  gli_frame reply;
  const char *text = status == GLOO_OK ? "" : error->message;
  gli_frame_begin(&reply, strlen(text));
  gli_frame_put_bytes(&reply, text, strlen(text));
  gli_session_reply(session, &reply, status);
}

/* ---- accepting ---------------------------------------------------------- */

static void on_timer(uv_timer_t *timer) {
  gli_session *session = timer->data;
  if (session->state == GLI_SESSION_HELLO)
    gli_session_drop(session, "it did not say hello in time");
  if (session->state == GLI_SESSION_PARKED) gli_session_expire(session);
}

void gli_session_set_timer(gli_session *session, uint64_t ms) {
  uv_update_time(session->timer.loop);
  uv_timer_start(&session->timer, on_timer, ms, 0);
}

static void name_peer(gli_session *session) {
  struct sockaddr_storage address;
  int bytes = (int)sizeof(address);
  memset(&address, 0, sizeof(address));
  if (uv_tcp_getpeername(&session->tcp, (struct sockaddr *)&address, &bytes) !=
      0)
    address.ss_family = AF_INET;
  memcpy(session->peer, gli_tcp_address_name(&address).text,
         sizeof(session->peer));
}

static void enlist(gli_session *session) {
  gli_tcp_service *service = session->service;
  session->next = service->sessions;
  session->link = &service->sessions;
  if (session->next != NULL) session->next->link = &session->next;
  service->sessions = session;
  service->n_sessions++;
}

void gli_session_accept(gli_tcp_service *service, uv_stream_t *listener) {
  gli_session *session = calloc(1, sizeof(*session));
  if (session == NULL) {
    gli_log(GLOO_LOG_ERROR, "the TCP store at %s has no memory for a client",
            service->address);
    return;
  }
  session->service = service;
  session->tcp.data = session->timer.data = session;
  session->open_handles = 2;
  uv_timer_init(listener->loop, &session->timer);
  uv_tcp_init(listener->loop, &session->tcp);
  enlist(session);
  int rc = uv_accept(listener, (uv_stream_t *)&session->tcp);
  name_peer(session);
  if (service->n_sessions > SESSIONS_MAX) {
    gli_session_drop(session, "there are too many clients");
    return;
  }
  if (rc == 0) rc = uv_tcp_nodelay(&session->tcp, 1);
  if (rc == 0) rc = uv_tcp_keepalive(&session->tcp, 1, 10);
  gli_session_set_timer(session, HELLO_DEADLINE_MS);
  if (rc == 0)
    rc = uv_read_start((uv_stream_t *)&session->tcp, on_alloc, on_read);
  if (rc != 0) gli_session_drop(session, uv_strerror(rc));
}
