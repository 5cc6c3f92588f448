/* The I/O of a session: reading requests, writing replies, closing. */
#include "rendezvous/store/tcp/tcp_session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/log.h"
#include "net/progress.h"
#include "rendezvous/store/store_conn.h"

#define HELLO_DEADLINE_NS UINT64_C(5000000000)
/* Time for STALL_BYTES of a request that has begun, or of a reply; shorter
 * while other sessions wait for memory. */
#define STALL_NS UINT64_C(30000000000)
#define STALL_CROWDED_NS UINT64_C(5000000000)
#define STALL_BYTES ((size_t)64 << 10)
#define BODY_ROOM ((size_t)4096) /* initial size */
/* The length of a reply that some paths drop, and the time by which the host of
 * a client has acknowledged it. */
#define LONG_REPLY_BYTES ((size_t)512)
#define LONG_REPLY_NS UINT64_C(3000000000)

static void session_free(gli_session *session) {
  gli_tcp_service *service = session->service;
  *session->link = session->next;
  if (session->next != NULL) session->next->link = session->link;
  if (session->refused) service->n_refused--;
  gli_budget_forget(session);
  free(session->fetch.keys);
  free(session->body);
  free(session->out);
  free(session->will);
  gli_tcp_seal_destroy(session->seal);
  gli_conn_close(&session->conn);
  free(session);
}

void gli_sessions_sweep(gli_tcp_service *service) {
  while (service->to_sweep) { /* a will may end the reader of another session */
    gli_session *next;
    service->to_sweep = false;
    for (gli_session *s = service->sessions; s != NULL; s = next) {
      next = s->next;
      if (s->state != GLI_SESSION_CLOSED) continue;
      if (s->lost && s->will != NULL) gli_session_execute(s);
      session_free(s);
    }
  }
}

void gli_session_close(gli_session *session) {
  if (session->state == GLI_SESSION_CLOSED) return;
  gli_session_unpark(session);
  gli_budget_leave(session);
  session->state = GLI_SESSION_CLOSED;
  if (session->answered != NULL) {
    uv_cond_broadcast(session->answered);
    return;
  }
  gli_strangers_leave(session);
  session->service->n_sessions--;
  session->service->to_sweep = true;
  gli_conn_close(&session->conn);
}

/* Logs, once per server, that long replies, or the certificate of TLS, do
 * not arrive. */
static void session_look_for_loss(gli_session *session) {
  gli_tcp_progress now;
  session->look_ns = 0;
  if (session->service->told_loss || session->state == GLI_SESSION_CLOSED ||
      !gli_tcp_socket_progress(session->conn.watch.fd, &now) ||
      now.repeats == 0 || now.queued < LONG_REPLY_BYTES)
    return;
  session->service->told_loss = true;
  gli_log(GLOO_LOG_WARN,
          "the TCP store at %s cannot deliver %" PRIu64
          " bytes in long packets to the client at %s: if its host is "
          "up, " GLI_MTU_ADVICE,
          session->service->address, now.queued, session->peer);
}

void gli_session_drop(gli_session *session, const char *why) {
  session_look_for_loss(session);
  gli_log(gli_strangers_level(session->service),
          "the TCP store at %s dropped the client at %s: %s",
          session->service->address, session->peer, why);
  gli_session_close(session);
}

/* Sets the timer for the rest of a request or a reply. A hello has its own
 * timer. */
static void await_progress(gli_session *session) {
  if (session->state == GLI_SESSION_HELLO) return;
  if (session->due_ns != 0 && session->moved < STALL_BYTES) return;
  session->moved = 0;
  gli_session_set_timer(session, STALL_NS);
}

/* ---- reading ------------------------------------------------------------- */

static void session_look_later(gli_session *session) {
  if (gli_conn_tls_pending(&session->conn)) session->service->hides = true;
}

static bool session_expects(const gli_session *session) {
  if (session->state != GLI_SESSION_HELLO)
    return session->op != GLI_TCP_HELLO && session->op != GLI_TCP_PROVE;
  return session->op == (session->greeting == GLI_SESSION_TO_PROVE
                             ? GLI_TCP_PROVE
                             : GLI_TCP_HELLO);
}

static size_t request_bytes(const gli_session *session) {
  return GLI_TCP_HEAD_BYTES + session->body_bytes +
         gli_tcp_seal_bytes(session->seal);
}

/* Enlarges the buffer for the body and its tag. Returns false if the session is
 * queued for memory, or closed. */
static bool session_grow_body(gli_session *session) {
  size_t before = session->body_room;
  size_t whole = request_bytes(session) - GLI_TCP_HEAD_BYTES;
  size_t room = before == 0 ? BODY_ROOM : 2 * before;
  if (room > whole) room = whole;
  if (!gli_budget_ask(session, room - before, room)) return false;
  uint8_t *body = realloc(session->body, room > 0 ? room : 1);
  if (body == NULL) {
    gli_session_drop(session, "no memory for a request");
    return false;
  }
  session->body = body;
  session->body_room = room;
  gli_budget_count(session);
  return true;
}

/* Begins the body after a complete head, if the request is valid. */
static void session_on_head(gli_session *session) {
  bool hello = session->state == GLI_SESSION_HELLO;
  size_t max = hello ? GLI_TCP_HELLO_MAX : GLI_TCP_FRAME_MAX;
  session->body_bytes = gli_get_u32(session->head);
  session->op = gli_get_u32(session->head + 4);
  if (!session_expects(session) || session->body_bytes > max) {
    gli_session_drop(session, hello ? "it does not speak the store protocol"
                                    : "it sent a broken request");
    return;
  }
  (void)session_grow_body(session);
}

static bool session_is_complete(const gli_session *session) {
  return session->body != NULL && session->got == request_bytes(session);
}

static bool session_is_full(const gli_session *session) {
  return session->body != NULL && !session_is_complete(session) &&
         session->got == GLI_TCP_HEAD_BYTES + session->body_room;
}

/* Reads the rest of the head or of the body. A waiting client has nothing to
 * send. */
static ssize_t session_read_some(gli_session *session) {
  uint8_t *to;
  size_t missing;
  if (session->state == GLI_SESSION_PARKED) {
    to = session->head;
    missing = 1;
  } else if (session->body != NULL) {
    to = session->body + (session->got - GLI_TCP_HEAD_BYTES);
    missing = GLI_TCP_HEAD_BYTES + session->body_room - session->got;
  } else {
    to = session->head + session->got;
    missing = GLI_TCP_HEAD_BYTES - session->got;
  }
  return gli_conn_read(&session->conn, to, missing);
}

/* Ends a session whose client is gone. A client that connects and sends nothing
 * only probes an address: no log line. */
void gli_session_lost(gli_session *session) {
  if (session->state == GLI_SESSION_HELLO &&
      session->greeting == GLI_SESSION_TO_PROVE)
    gli_session_drop(session, "wrong job secret (or a rank of another job)");
  else if (session->state == GLI_SESSION_HELLO && session->got > 0)
    gli_session_drop(session, "it disconnected without a hello");
  session->lost = session->state != GLI_SESSION_CLOSED;
  gli_session_close(session);
}

/* Reads at most one request. If the buffer is full, it grows when there are
 * more bytes to read: an idle client gets no more memory. */
static void read_request(gli_session *session) {
  if (session_is_full(session) && !session_grow_body(session)) return;
  for (;;) {
    ssize_t n = session_read_some(session);
    if (n < 0 && gli_would_block(errno)) {
      if (session->state == GLI_SESSION_READY && session->got > 0)
        await_progress(session);
      return;
    }
    if (n < 0 && errno == EBADMSG) {
      gli_session_drop(session, gli_tls_why(session->conn.tls));
      return;
    }
    if (n <= 0) {
      gli_session_lost(session);
      return;
    }
    if (session->state == GLI_SESSION_PARKED) {
      gli_session_drop(
          session, "it sent a request before the reply to the previous one");
      return;
    }
    session->got += (size_t)n;
    session->moved += (size_t)n;
    session->service->served.bytes_in += (size_t)n;
    if (session->got == GLI_TCP_HEAD_BYTES && session->body == NULL)
      session_on_head(session);
    if (session->state == GLI_SESSION_CLOSED) return;
    if (session_is_full(session)) {
      await_progress(session);
      session_look_later(session);
      return;
    }
    if (!session_is_complete(session)) continue;
    if (!gli_tcp_seal_holds(session->seal, session->head, session->body,
                            session->body_bytes)) {
      gli_session_drop(session, session->greeting == GLI_SESSION_TO_PROVE
                                    ? "wrong job secret"
                                    : "a request was modified in transit");
      return;
    }
    if (session->state == GLI_SESSION_READY) gli_session_stop_timer(session);
    session->service->served.requests++;
    gli_session_serve(session);
    return;
  }
}

/* ---- writing ------------------------------------------------------------- */

/* Frees the request. */
static void forget_request(gli_session *session) {
  free(session->fetch.keys);
  free(session->body);
  session->fetch = (gli_tcp_fetch){0};
  session->body = NULL;
  session->body_room = 0;
}

static void session_secure(gli_session *session) {
  gli_tcp_service *service = session->service;
  gloo_error error;
  session->greeting = GLI_SESSION_TO_SAY_HELLO;
  if (gli_conn_secure(&session->conn, service->tls, true, &service->tls_key,
                      &error) != GLOO_OK)
    gli_session_drop(session, error.message);
}

/* Prepares for the next request. */
static void next_request(gli_session *session) {
  if (session->out_bytes >= LONG_REPLY_BYTES) {
    session->look_ns = uv_hrtime() + LONG_REPLY_NS;
    gli_sessions_note_due(session->service, session->look_ns);
  }
  free(session->out);
  session->out = NULL;
  session->got = session->moved = 0;
  gli_budget_leave(session);
  gli_budget_count(session);
  if (session->greeting != GLI_SESSION_GREETED) {
    session->state = GLI_SESSION_HELLO;
    if (session->greeting == GLI_SESSION_TO_SECURE) session_secure(session);
    return;
  }
  gli_conn_move(&session->conn, GLI_CONN_UP);
  session->state = GLI_SESSION_READY;
  gli_session_stop_timer(session);
  gli_strangers_leave(session);
}

static ssize_t session_write_some(gli_session *session) {
  gli_conn *conn = &session->conn;
  if (session->written < session->out_bytes)
    return gli_conn_write(conn, session->out + session->written,
                          session->out_bytes - session->written);
  if (!gli_conn_flush(conn)) return -1;
  errno = EAGAIN;
  return gli_conn_unsent(conn) ? -1 : 0;
}

/* Writes the reply. Most leave at once; the rest of a long one follows as the
 * client reads it, and no request is read meanwhile. */
static void write_out(gli_session *session) {
  while (session->written < session->out_bytes ||
         gli_conn_unsent(&session->conn)) {
    ssize_t n = session_write_some(session);
    if (n < 0 && !gli_would_block(errno)) {
      gli_session_lost(session);
      return;
    }
    if (n < 0) {
      session->state = GLI_SESSION_WRITING;
      await_progress(session);
      gli_conn_for(&session->conn, GLI_WRITABLE);
      return;
    }
    session->written += (size_t)n;
    session->moved += (size_t)n;
    session->service->served.bytes_out += (size_t)n;
  }
  next_request(session);
  if (session->state == GLI_SESSION_CLOSED) return;
  gli_conn_for(&session->conn, GLI_READABLE);
  session_look_later(session);
}

static void session_ready(void *owner, int events) {
  gli_session *session = owner;
  (void)events;
  if (session->state == GLI_SESSION_WRITING)
    write_out(session);
  else
    read_request(session);
}

static void session_greets(void *owner) {
  gli_session_secured(owner);
}

static void session_ended(void *owner, int code) {
  gli_session *session = owner;
  const gli_conn *conn = &session->conn;
  if (code == EBADMSG)
    gli_session_drop(session, gli_tls_why(conn->tls));
  else if (conn->tls != NULL && !conn->secured)
    gli_session_drop(session, "it disconnected during the TLS handshake");
  else
    gli_session_drop(session, gli_exhaustion_text(code));
}

static const gli_conn_calls session_calls = {
    .greets = session_greets, .ready = session_ready, .ended = session_ended};

/* Reads requests that TLS has already decrypted. Sessions in other states keep
 * theirs. */
void gli_sessions_read_tls_pending(gli_tcp_service *service) {
  if (!service->hides) return;
  service->hides = false;
  for (gli_session *s = service->sessions; s != NULL; s = s->next) {
    bool reads = s->state == GLI_SESSION_READY ||
                 s->state == GLI_SESSION_HELLO ||
                 s->state == GLI_SESSION_PARKED;
    if (!reads || !gli_conn_tls_pending(&s->conn)) continue;
    session_ready(s, GLI_READABLE);
  }
}

void gli_session_reply(gli_session *session, gli_frame *reply,
                       gloo_status status) {
  gli_frame_end(reply, (uint32_t)-status);
  gli_tcp_seal_frame(session->seal, reply);
  forget_request(session);
  session->out = reply->data;
  session->out_room = reply->room;
  gli_budget_count(session);
  if (reply->failed) {
    gli_session_drop(session, "no memory for the reply");
    return;
  }
  session->out_bytes = reply->bytes;
  if (session->answered != NULL) {
    session->state = GLI_SESSION_READY;
    uv_cond_broadcast(session->answered);
    return;
  }
  session->written = session->moved = 0;
  write_out(session);
}

void gli_session_reply_status(gli_session *session, gloo_status status,
                              const gloo_error *error) {
  gli_frame reply;
  const char *text = status == GLOO_OK ? "" : error->message;
  gli_frame_begin(&reply, strlen(text));
  gli_frame_put_bytes(&reply, text, strlen(text));
  gli_session_reply(session, &reply, status);
}

/* ---- timers -------------------------------------------------------------- */

/* Returns the time of a session's timer; 0 if none is active. The timer of a
 * queued FETCH pauses. */
static uint64_t session_due(const gli_session *session) {
  switch (session->state) {
    case GLI_SESSION_QUEUED:
    case GLI_SESSION_CLOSED:
      return 0;
    case GLI_SESSION_READY:
    case GLI_SESSION_WRITING:
      if (session->due_ns == 0 || session->service->budget.queue.n == 0)
        return session->due_ns;
      return session->due_ns - (STALL_NS - STALL_CROWDED_NS);
    default:
      return session->due_ns;
  }
}

void gli_sessions_note_due(gli_tcp_service *service, uint64_t due_ns) {
  if (due_ns == 0) return;
  if (service->due_ns == 0 || due_ns < service->due_ns)
    service->due_ns = due_ns;
}

static void note_due(const gli_session *session) {
  gli_sessions_note_due(session->service, session_due(session));
}

void gli_session_set_timer(gli_session *session, uint64_t ns) {
  uint64_t now = uv_hrtime();
  session->due_ns = ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
  note_due(session);
}

void gli_session_stop_timer(gli_session *session) {
  session->due_ns = 0;
}

static void timer_ended(gli_session *session) {
  session->due_ns = 0;
  if (session->state == GLI_SESSION_HELLO)
    gli_session_drop(session, "it sent no hello in time");
  else if (session->state == GLI_SESSION_READY)
    gli_session_drop(session, "the rest of its request did not arrive");
  else if (session->state == GLI_SESSION_WRITING)
    gli_session_drop(session, "it did not read the reply");
  else if (session->state == GLI_SESSION_PARKED)
    gli_session_expire(session);
}

void gli_sessions_expire(gli_tcp_service *service, uint64_t now_ns) {
  if (service->due_ns == 0 || now_ns < service->due_ns) return;
  service->due_ns = 0;
  gli_sessions_note_due(service, gli_strangers_tell_rest(service, now_ns));
  for (gli_session *s = service->sessions; s != NULL; s = s->next) {
    uint64_t due_ns = session_due(s);
    if (due_ns != 0 && due_ns <= now_ns) timer_ended(s);
    if (s->look_ns != 0 && s->look_ns <= now_ns) session_look_for_loss(s);
    note_due(s);
    gli_sessions_note_due(service, s->look_ns);
  }
}

/* ---- waiting for room ---------------------------------------------------- */

void gli_session_go_on(gli_session *session) {
  session->state = GLI_SESSION_READY;
  gli_conn_for(&session->conn, GLI_READABLE);
  if (!session_is_complete(session)) {
    session->due_ns = 0; /* the time in the queue does not count */
    read_request(session);
  } else if (session->fetch.keys != NULL)
    gli_session_fetch_again(session);
  else
    gli_session_serve(session);
  note_due(session);
}

/* ---- accepting ----------------------------------------------------------- */

/* Formats the client for messages: an address, or a process of this host. */
static void session_meet_peer(gli_session *session) {
  struct sockaddr_storage address;
  socklen_t bytes = sizeof address;
  memset(&address, 0, sizeof address);
  if (getpeername(session->conn.watch.fd, (struct sockaddr *)&address,
                  &bytes) != 0)
    address.ss_family = AF_INET;
  if (address.ss_family == AF_UNIX) {
    session->who =
        gli_tcp_local_peer(session->conn.watch.fd, &session->service->user);
    snprintf(session->peer, sizeof session->peer,
             "process %" PRId64 " of user %" PRIu32, session->who.process,
             session->who.user);
    return;
  }
  gli_store_conn_tune(session->conn.watch.fd);
  memcpy(session->peer, gli_tcp_address_name(&address).text,
         sizeof session->peer);
}

static void session_enlist(gli_session *session) {
  gli_tcp_service *service = session->service;
  session->next = service->sessions;
  session->link = &service->sessions;
  if (session->next != NULL) session->next->link = &session->next;
  service->sessions = session;
  service->n_sessions++;
  if (session->refused) service->n_refused++;
}

void gli_session_accept(gli_tcp_service *service, int fd, bool refused) {
  gli_session *session = calloc(1, sizeof *session);
  if (session == NULL) close(fd);
  if (session != NULL) gli_conn_init(&session->conn, &session_calls, session);
  if (session == NULL ||
      gli_conn_adopt(&session->conn, service->events, fd) != 0) {
    gli_log(gli_strangers_level(service),
            "the TCP store at %s is out of memory for a client",
            service->address);
    free(session);
    return;
  }
  session->service = service;
  session->refused = refused;
  session_enlist(session);
  session_meet_peer(session);
  gli_session_set_timer(session, HELLO_DEADLINE_NS);
  gli_conn_for(&session->conn, GLI_READABLE);
  if (!refused) gli_strangers_join(session);
}

/* ---- requests of this process -------------------------------------------- */

gli_session *gli_session_own(gli_tcp_service *service, gli_frame *request,
                             gli_tcp_op op, uv_cond_t *answered) {
  gli_session *session = calloc(1, sizeof *session);
  if (session == NULL) {
    free(request->data);
    return NULL;
  }
  session->service = service;
  gli_conn_init(&session->conn, NULL, NULL);
  session->state = GLI_SESSION_READY;
  session->answered = answered;
  strcpy(session->peer, "this process");
  session->op = op;
  session->body_bytes = request->bytes - GLI_TCP_HEAD_BYTES;
  session->body = request->data;
  memmove(session->body, session->body + GLI_TCP_HEAD_BYTES,
          session->body_bytes);
  return session;
}

void gli_session_own_free(gli_session *session) {
  free(session->fetch.keys);
  free(session->body);
  free(session->out);
  free(session);
}
