#include "net/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/hints.h"
#include "core/signals.h"
#include "net/endpoint.h"

/* ---- states -------------------------------------------------------------- */

#define TO(state) (1u << GLI_CONN_##state)

static const unsigned conn_moves[GLI_CONN_STATES] = {
    [GLI_CONN_RESOLVING] = TO(CONNECTING) | TO(GREETING) | TO(ENDED),
    [GLI_CONN_CONNECTING] = TO(GREETING) | TO(ENDED),
    [GLI_CONN_SECURING] = TO(GREETING) | TO(ENDED),
    [GLI_CONN_GREETING] = TO(SECURING) | TO(UP) | TO(ENDED),
    [GLI_CONN_UP] = TO(DRAINING) | TO(ENDED),
    [GLI_CONN_DRAINING] = TO(ENDED),
    [GLI_CONN_ENDED] = 0,
};

bool gli_conn_move(gli_conn *conn, gli_conn_state to) {
  if ((conn_moves[conn->state] >> to & 1) == 0) return false;
  conn->state = to;
  return true;
}

/* ---- making -------------------------------------------------------------- */

void gli_conn_init(gli_conn *conn, const gli_conn_calls *calls, void *owner) {
  *conn = (gli_conn){
      .watch = {.fd = -1}, .plain = -1, .calls = calls, .owner = owner};
}

gli_conn *gli_conn_new(const gli_conn_calls *calls, void *owner) {
  gli_conn *conn = malloc(sizeof *conn);
  if (conn != NULL) gli_conn_init(conn, calls, owner);
  return conn;
}

void gli_conn_give(gli_conn *conn, const gli_conn_calls *calls, void *owner) {
  conn->calls = calls;
  conn->owner = owner;
}

static void conn_ready(void *owner, int events);

/* Takes over fd. Returns 0, or errno with the socket closed. */
static int conn_take(gli_conn *conn, gli_events *set, int fd) {
  if (set == NULL) {
    conn->watch.fd = fd;
    return 0;
  }
  if (gli_watch_init(&conn->watch, set, fd, conn_ready, conn)) return 0;
  int code = errno;
  close(fd);
  conn->watch.fd = -1;
  return code;
}

int gli_conn_open(gli_conn *conn, gli_events *set, int family) {
  int fd = gli_socket_open(family, SOCK_STREAM);
  return fd >= 0 ? conn_take(conn, set, fd) : errno;
}

int gli_conn_adopt(gli_conn *conn, gli_events *set, int fd) {
  int code = conn_take(conn, set, fd);
  if (code == 0) gli_conn_move(conn, GLI_CONN_GREETING);
  return code;
}

int gli_conn_connect(gli_conn *conn, const gli_endpoint *to) {
  int code = gli_tcp_socket_connect(conn->watch.fd, to);
  if (code != 0) return code;
  gli_conn_move(conn, GLI_CONN_CONNECTING);
  if (conn->watch.set != NULL) gli_conn_for(conn, GLI_WRITABLE);
  return 0;
}

/* ---- ending -------------------------------------------------------------- */

void gli_conn_end(gli_conn *conn, int code) {
  if (!gli_conn_move(conn, GLI_CONN_ENDED)) return;
  conn->code = code;
  if (conn->watch.set != NULL && conn->watch.fd >= 0) gli_conn_for(conn, 0);
}

void gli_conn_close(gli_conn *conn) {
  gli_conn_move(conn, GLI_CONN_ENDED);
  if (conn->watch.set != NULL) {
    gli_watch_close(&conn->watch);
  } else if (conn->watch.fd >= 0) {
    gli_socket_end(conn->watch.fd);
    conn->watch.fd = -1;
  }
  gli_tls_destroy(conn->tls);
  conn->tls = NULL;
}

void gli_conn_free(gli_conn *conn) {
  if (conn == NULL) return;
  gli_conn_close(conn);
  free(conn);
}

void gli_conn_forked(gli_conn *conn) {
  if (conn == NULL) return;
  gli_fd_close(conn->watch.fd);
  conn->watch.fd = -1;
}

bool gli_conn_shut(gli_conn *conn, bool lost) {
  if (conn->state != GLI_CONN_UP) return true;
  if (conn->tls != NULL) gli_tls_shut(conn->tls);
  if (gli_conn_unsent(conn) && !lost) return false;
  gli_conn_move(conn, GLI_CONN_DRAINING);
  (void)shutdown(conn->watch.fd, SHUT_WR);
  return true;
}

/* Ends the connection, and notifies the owner because it did not ask for it. */
static void conn_fail(gli_conn *conn, int code) {
  gli_conn_end(conn, code);
  if (conn->calls != NULL) conn->calls->ended(conn->owner, code);
}

/* ---- connecting and securing --------------------------------------------- */

static void conn_greet(gli_conn *conn) {
  gli_conn_move(conn, GLI_CONN_GREETING);
  if (conn->calls != NULL) conn->calls->greets(conn->owner);
}

bool gli_conn_ends(const gli_conn *conn, gli_endpoint *self,
                   gli_endpoint *peer) {
  socklen_t self_bytes = sizeof *self, peer_bytes = sizeof *peer;
  return getsockname(conn->watch.fd, &self->any, &self_bytes) == 0 &&
         getpeername(conn->watch.fd, &peer->any, &peer_bytes) == 0;
}

/* A connect to a local port without a listener can choose this very port as its
 * source port and reach itself. */
static bool conn_reached_itself(const gli_conn *conn) {
  gli_endpoint self, peer;
  return gli_conn_ends(conn, &self, &peer) && gli_endpoint_equal(&self, &peer);
}

static void conn_connected(gli_conn *conn) {
  int code = gli_tcp_socket_error(conn->watch.fd);
  if (code == 0 && conn_reached_itself(conn)) code = ECONNREFUSED;
  if (code != 0)
    conn_fail(conn, code);
  else
    conn_greet(conn);
}

gloo_status gli_conn_secure(gli_conn *conn, gli_tls_settings *settings,
                            bool accepts, const gli_key *key,
                            gloo_error *error) {
  gloo_status status =
      gli_tls_open(settings, conn->watch.fd, accepts, key, &conn->tls, error);
  if (status == GLOO_OK) gli_conn_move(conn, GLI_CONN_SECURING);
  return status;
}

/* Returns true, and drops TLS, if the other end answers in plaintext. */
static bool conn_is_plain(gli_conn *conn) {
  uint8_t first;
  if (conn->plain < 0) return false;
  if (gli_tcp_socket_peek(conn->watch.fd, &first, 1) != 1) return false;
  bool plain = first == conn->plain;
  conn->plain = -1;
  if (!plain) return false;
  gli_tls_destroy(conn->tls);
  conn->tls = NULL;
  return true;
}

bool gli_conn_shake_hands(gli_conn *conn, bool broken) {
  if (conn_is_plain(conn)) {
    gli_conn_move(conn, GLI_CONN_GREETING);
    if (conn->calls != NULL)
      conn->calls->ready(conn->owner, GLI_READABLE | (broken ? GLI_BROKEN : 0));
    return false;
  }
  switch (gli_tls_shake_hands(conn->tls)) {
    case GLI_TLS_DONE:
      conn->secured = true;
      if (conn->watch.set != NULL) gli_conn_await(conn);
      conn_greet(conn);
      return false;
    case GLI_TLS_FAILED:
      conn_fail(conn, errno);
      return false;
    case GLI_TLS_WAITS:
      break;
  }
  int code = broken ? gli_tcp_socket_error(conn->watch.fd) : 0;
  if (broken)
    conn_fail(conn, code != 0 ? code : ECONNRESET);
  else if (conn->watch.set != NULL)
    gli_conn_await(conn);
  return !broken;
}

/* ---- events -------------------------------------------------------------- */

void gli_conn_await(gli_conn *conn) {
  gli_conn_for(conn, GLI_READABLE | (gli_conn_unsent(conn) ? GLI_WRITABLE : 0));
}

/* Writes the part of a greeting, sent in one call, that TLS has buffered. */
static void conn_greeting(gli_conn *conn, int events) {
  if ((events & GLI_WRITABLE) != 0 && gli_conn_unsent(conn)) {
    if (!gli_conn_flush(conn)) {
      conn_fail(conn, errno);
      return;
    }
    gli_conn_await(conn);
  }
  conn->calls->ready(conn->owner, events);
}

static void conn_ready(void *owner, int events) {
  gli_conn *conn = owner;
  if (conn->state == GLI_CONN_ENDED) return;
  if ((events & GLI_UNWATCHED) != 0)
    conn_fail(conn, conn->watch.code);
  else if (conn->state >= GLI_CONN_UP)
    conn->calls->ready(conn->owner, events);
  else if (conn->state == GLI_CONN_CONNECTING)
    conn_connected(conn);
  else if (conn->state == GLI_CONN_SECURING)
    (void)gli_conn_shake_hands(conn, (events & GLI_BROKEN) != 0);
  else
    conn_greeting(conn, events);
}

/* ---- bytes --------------------------------------------------------------- */

/* A separate function keeps the struct off the stack of gli_conn_read. */
GLI_COLD ssize_t gli_conn_read_tls(gli_conn *conn, void *to, size_t bytes) {
  struct iovec part = {to, bytes};
  return gli_tls_receive(conn->tls, &part, 1);
}

/* ---- waiting, without a set ---------------------------------------------- */

int gli_conn_wait(gli_conn *conn, int events, uint64_t deadline_ns) {
  if ((events & GLI_READABLE) != 0 && gli_conn_tls_pending(conn)) return 0;
  bool unsent = gli_conn_unsent(conn);
  if (unsent) events |= GLI_WRITABLE;
  int code = gli_tcp_socket_wait(conn->watch.fd, events, deadline_ns);
  if (code != 0) return code;
  return unsent && !gli_conn_flush(conn) ? errno : 0;
}

bool gli_conn_finish(gli_conn *conn, uint64_t deadline_ns) {
  gli_signal_guard guard;
  gli_signal_guard_enter(&guard);
  while (conn->state == GLI_CONN_CONNECTING ||
         conn->state == GLI_CONN_SECURING) {
    bool connecting = conn->state == GLI_CONN_CONNECTING;
    if (!connecting && !gli_conn_shake_hands(conn, false)) break;
    int code = gli_conn_wait(conn, connecting ? GLI_WRITABLE : GLI_READABLE,
                             deadline_ns);
    if (code != 0)
      gli_conn_end(conn, code);
    else if (connecting)
      conn_connected(conn);
  }
  gli_signal_guard_leave(&guard);
  return conn->state != GLI_CONN_ENDED;
}
