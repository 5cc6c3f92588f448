#include "tools/metrics_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  CLIENTS_MOST = 64,
  REQUEST_MS = 5000,
  ANSWER_MS = 30000,
  LAST_MS = 1000
};

void gli_metrics_release(gli_metrics_shared *shared) {
  if (shared == NULL || --shared->holders > 0) return;
  gli_metrics_text_free(&shared->text);
  free(shared);
}

/* ---- closing ------------------------------------------------------------- */

static void client_closed(uv_handle_t *handle) {
  gli_client *c = handle->data;
  if (--c->handles > 0) return;
  gli_metrics_release(c->shared);
  free(c);
}

static void client_close(gli_client *c) {
  if (c->state == GLI_CLIENT_CLOSED) return;
  c->state = GLI_CLIENT_CLOSED;
  gli_client **at = &c->all->first;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  c->all->n--;
  uv_close((uv_handle_t *)&c->tcp, client_closed);
  uv_close((uv_handle_t *)&c->timer, client_closed);
}

static void client_late(uv_timer_t *timer) {
  client_close(timer->data);
}

static void client_enter(gli_client *c, gli_client_state state, uint64_t ms) {
  c->state = state;
  (void)uv_timer_stop(&c->timer);
  if (ms > 0) (void)uv_timer_start(&c->timer, client_late, ms, 0);
}

/* ---- answers ------------------------------------------------------------- */

static void client_shut(uv_shutdown_t *request, int code) {
  gli_client *c = request->data;
  if (code != 0) client_close(c);
}

/* Waits for the client's end of the connection: closing it with unread data
 * could destroy the answer on its way. */
static void client_sent(uv_write_t *request, int code) {
  gli_client *c = request->data;
  if (c->state == GLI_CLIENT_CLOSED) return;
  client_enter(c, GLI_CLIENT_LAST, LAST_MS);
  if (code != 0 ||
      uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, client_shut) != 0)
    client_close(c);
}

/* Sends an answer. The body is that of `shared`, or else `words`. */
static void client_answer(gli_client *c, int status, const char *words,
                          gli_metrics_shared *shared) {
  const gli_metrics_format format = c->request.format;
  const char *type =
      shared != NULL ? gli_metrics_types[format] : "text/plain; charset=utf-8";
  size_t bytes = shared != NULL ? shared->text.bytes[format] : strlen(words);
  bool body = !c->request.head;
  int n = snprintf(c->head, sizeof c->head,
                   "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                   "Vary: Accept\r\n%sConnection: close\r\n\r\n%s",
                   gli_http_words(status), type, bytes,
                   status == 405 ? "Allow: GET, HEAD\r\n" : "",
                   shared == NULL && body ? words : "");
  uv_buf_t parts[2] = {uv_buf_init(c->head, (unsigned)n)};
  if (shared != NULL) {
    shared->holders++;
    c->shared = shared;
    parts[1] = uv_buf_init(shared->text.text[format], (unsigned)bytes);
  }
  client_enter(c, GLI_CLIENT_ANSWER, ANSWER_MS);
  if (uv_write(&c->write, (uv_stream_t *)&c->tcp, parts,
               shared != NULL && body ? 2 : 1, client_sent) != 0)
    client_close(c);
}

void gli_clients_answer(gli_clients *clients, gli_metrics_shared *shared,
                        const char *error) {
  gli_client *next;
  for (gli_client *c = clients->first; c != NULL; c = next) {
    next = c->next;
    if (c->state == GLI_CLIENT_WAIT)
      client_answer(c, shared != NULL ? 200 : 503, error, shared);
  }
}

/* ---- requests ------------------------------------------------------------ */

static const char *client_refusal(int status) {
  switch (status) {
    case 404:
      return "not found; available: /metrics\n";
    case 405:
      return "only GET and HEAD are allowed\n";
    case 431:
      return "the request is too long\n";
    default:
      return "not an HTTP request\n";
  }
}

static void client_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer) {
  gli_client *c = handle->data;
  (void)wanted;
  if (c->state != GLI_CLIENT_REQUEST) c->used = 0; /* drop what follows */
  *buffer =
      uv_buf_init(c->bytes + c->used, (unsigned)(sizeof c->bytes - c->used));
}

static void client_read(uv_stream_t *stream, ssize_t got,
                        const uv_buf_t *buffer) {
  gli_client *c = stream->data;
  (void)buffer;
  /* A client may shut down its side once it has sent its request. */
  bool half = got == UV_EOF &&
              (c->state == GLI_CLIENT_WAIT || c->state == GLI_CLIENT_ANSWER);
  if (got < 0 && !half) {
    client_close(c);
    return;
  }
  if (got <= 0 || c->state != GLI_CLIENT_REQUEST) return;
  c->used += (size_t)got;
  int status = gli_http_read(c->bytes, c->used, &c->request);
  if (status == 0) return;
  if (status != 200) {
    client_answer(c, status, client_refusal(status), NULL);
    return;
  }
  client_enter(c, GLI_CLIENT_WAIT, 0);
  c->all->wants(c->all);
}

/* ---- arrival ------------------------------------------------------------- */

/* Makes room for one more. Returns false if there is none. */
static bool clients_make_room(gli_clients *clients) {
  if (clients->n < CLIENTS_MOST) return true;
  gli_client *c = clients->first;
  while (c != NULL && c->state != GLI_CLIENT_REQUEST) c = c->next;
  if (c == NULL) return false;
  client_close(c);
  return true;
}

static void client_refused(uv_handle_t *handle) {
  free(handle);
}

static void client_refuse(gli_clients *clients, uv_stream_t *server) {
  uv_tcp_t *tcp = malloc(sizeof *tcp);
  if (tcp == NULL) return;
  (void)uv_tcp_init(clients->loop, tcp);
  (void)uv_accept(server, (uv_stream_t *)tcp);
  uv_close((uv_handle_t *)tcp, client_refused);
}

void gli_client_accept(gli_clients *clients, uv_stream_t *server) {
  gli_client *c = clients_make_room(clients) ? calloc(1, sizeof *c) : NULL;
  if (c == NULL) {
    client_refuse(clients, server);
    return;
  }
  c->all = clients;
  c->handles = 2;
  (void)uv_tcp_init(clients->loop, &c->tcp);
  (void)uv_timer_init(clients->loop, &c->timer);
  c->tcp.data = c->timer.data = c->write.data = c->shutdown.data = c;
  gli_client **last = &clients->first;
  while (*last != NULL) last = &(*last)->next;
  *last = c;
  clients->n++;
  client_enter(c, GLI_CLIENT_REQUEST, REQUEST_MS);
  if (uv_accept(server, (uv_stream_t *)&c->tcp) != 0 ||
      uv_read_start((uv_stream_t *)&c->tcp, client_alloc, client_read) != 0)
    client_close(c);
}

void gli_clients_end(gli_clients *clients) {
  while (clients->first != NULL) client_close(clients->first);
}
