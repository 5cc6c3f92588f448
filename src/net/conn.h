/* A connection from its first system call to its last: its socket, the watch on
 * the socket, TLS if it is used, and its state.
 *
 *   RESOLVING -> CONNECTING -> GREETING -> UP -> DRAINING -> ENDED
 *                              |     ^
 *                              v     |
 *                             SECURING
 *
 * An accepted connection starts in GREETING, and each state may move to ENDED.
 * gli_conn_move makes all moves; its table holds the legal ones.
 *
 * A connection in a set of watches (net/events.h) moves when the set is polled,
 * and calls its owner. A connection without a set belongs to a waiting thread:
 * gli_conn_wait and gli_conn_finish poll its socket and call no owner. One
 * thread at a time uses a connection. */
#ifndef GLI_NET_CONN_H
#define GLI_NET_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "net/events.h"
#include "net/socket.h"
#include "net/tls.h"

typedef enum gli_conn_state {
  GLI_CONN_RESOLVING,  /* no socket yet: the owner looks up the address */
  GLI_CONN_CONNECTING, /* connect is in progress */
  GLI_CONN_SECURING,   /* the TLS handshake is in progress */
  GLI_CONN_GREETING,   /* both ends introduce themselves */
  GLI_CONN_UP,
  GLI_CONN_DRAINING, /* this end sends no more, the other end may */
  GLI_CONN_ENDED,
  GLI_CONN_STATES
} gli_conn_state;

/* Causes of an end other than an errno. Owners add causes below
 * GLI_CONN_OTHER. */
enum {
  GLI_CONN_LATE = -1,     /* the deadline has passed */
  GLI_CONN_CLOSED = -2,   /* the other end has closed the connection */
  GLI_CONN_NONSENSE = -3, /* the data received is not the owner's protocol */
  GLI_CONN_OTHER = -16
};

/* Callbacks to the owner from polls. Each may close or free the connection. */
typedef struct gli_conn_calls {
  /* The connection entered GREETING: it is connected, or secured. */
  void (*greets)(void *owner);
  /* The socket has events in GREETING, UP or DRAINING: GLI_READABLE,
   * GLI_WRITABLE, GLI_BROKEN. */
  void (*ready)(void *owner, int events);
  /* The connection ended with `code` (errno or a cause above), not by the
   * owner. The owner still has to call gli_conn_close. */
  void (*ended)(void *owner, int code);
} gli_conn_calls;

typedef struct gli_conn {
  gli_watch watch; /* its `fd` is the socket, -1 before and after; its other
                      fields are used only in a set */
  gli_tls *tls;    /* NULL if bytes are sent in plaintext */
  gli_conn_state state;
  int code;  /* cause of ENDED; 0 if the owner ended it */
  int plain; /* first byte of a plaintext answer that the other end may give in
                place of its TLS handshake; -1 if none */
  bool secured; /* true if the TLS handshake was completed */
  const gli_conn_calls *calls;
  void *owner;
} gli_conn;

/* Moves to `to` and returns true if the table has that move. Otherwise returns
 * false and leaves the state unchanged. */
bool gli_conn_move(gli_conn *conn, gli_conn_state to);

/* Initialises a connection without a socket. */
void gli_conn_init(gli_conn *conn, const gli_conn_calls *calls, void *owner);
/* Allocates a connection for gli_conn_free. Returns NULL if out of memory. */
gli_conn *gli_conn_new(const gli_conn_calls *calls, void *owner);
void gli_conn_give(gli_conn *conn, const gli_conn_calls *calls, void *owner);

/* Creates a TCP socket. Returns 0, or errno. `set` may be NULL, here and
 * below. */
int gli_conn_open(gli_conn *conn, gli_events *set, int family);
/* Starts to connect. Returns 0, or errno. */
int gli_conn_connect(gli_conn *conn, const gli_endpoint *to);
/* Takes over the connected socket `fd` and enters GREETING. Returns 0, or errno
 * after closing the socket. */
int gli_conn_adopt(gli_conn *conn, gli_events *set, int fd);

/* Enters SECURING. `accepts` and `key` are those of gli_tls_open. The owner may
 * require a certificate (gli_tls_expect_rank) before the next call. */
gloo_status gli_conn_secure(gli_conn *conn, gli_tls_settings *settings,
                            bool accepts, const gli_key *key,
                            gloo_error *error);
/* Continues the handshake as far as possible without waiting. Returns true if
 * it is still in progress; otherwise the owner's callback, if any, was
 * called. */
bool gli_conn_shake_hands(gli_conn *conn, bool broken);

/* Closes the sending direction, after the bytes in TLS's buffer unless these
 * are `lost`. Returns true in DRAINING, false while bytes remain to be
 * written. */
bool gli_conn_shut(gli_conn *conn, bool lost);

/* Gets the addresses of both ends. Returns false if the system has none. */
bool gli_conn_ends(const gli_conn *conn, gli_endpoint *self,
                   gli_endpoint *peer);

/* Ends a connection with `code`, unless it has ended, without a callback.
 * Reading and writing stop; gli_conn_close closes the socket. */
void gli_conn_end(gli_conn *conn, int code);
/* Closes the socket in both directions. Idempotent. */
void gli_conn_close(gli_conn *conn);
/* Closes and frees a connection. NULL is allowed. */
void gli_conn_free(gli_conn *conn);
/* Closes a forked child's copy of the socket, without shutting the connection
 * down. NULL is allowed. */
void gli_conn_forked(gli_conn *conn);

/* ---- events -------------------------------------------------------------- */

/* Sets the events to wait for: GLI_READABLE, GLI_WRITABLE, both or 0. */
static inline void gli_conn_for(gli_conn *conn, int events) {
  gli_watch_for(&conn->watch, events);
}
/* Waits for input, and for room to write if TLS has buffered bytes. */
void gli_conn_await(gli_conn *conn);

/* Returns true if TLS has read bytes, which no event of the socket
 * announces. */
static inline bool gli_conn_tls_pending(const gli_conn *conn) {
  return conn->tls != NULL && gli_tls_pending(conn->tls);
}
/* Returns true if TLS has buffered bytes that count as sent. */
static inline bool gli_conn_unsent(const gli_conn *conn) {
  return conn->tls != NULL && gli_tls_unsent(conn->tls);
}
/* Writes them, as far as the socket accepts them. Returns false with errno. */
static inline bool gli_conn_flush(gli_conn *conn) {
  return conn->tls == NULL || gli_tls_flush(conn->tls);
}

/* ---- bytes --------------------------------------------------------------- */

/* Like sendmsg and recvmsg: return -1 with errno, or 0 if the other end has
 * closed. They raise no signal, and continue after an interruption. EBADMSG
 * means that TLS rejects the data received. */
static inline ssize_t gli_conn_send(gli_conn *conn, const struct iovec *parts,
                                    int count) {
  if (conn->tls != NULL) return gli_tls_send(conn->tls, parts, count);
  return gli_tcp_socket_send(conn->watch.fd, parts, count);
}
static inline ssize_t gli_conn_receive(gli_conn *conn,
                                       const struct iovec *parts, int count) {
  if (conn->tls != NULL) return gli_tls_receive(conn->tls, parts, count);
  return gli_tcp_socket_receive(conn->watch.fd, parts, count);
}
ssize_t gli_conn_read_tls(gli_conn *conn, void *to, size_t bytes);
/* Reads into one buffer. */
static inline ssize_t gli_conn_read(gli_conn *conn, void *to, size_t bytes) {
  if (conn->tls != NULL) return gli_conn_read_tls(conn, to, bytes);
  return gli_tcp_socket_read(conn->watch.fd, to, bytes);
}
static inline ssize_t gli_conn_write(gli_conn *conn, const void *data,
                                     size_t bytes) {
  const struct iovec part = {(void *)(uintptr_t)data, bytes};
  return gli_conn_send(conn, &part, 1);
}

/* ---- waiting, without a set ---------------------------------------------- */

/* Waits until `events` are possible, the socket has an error, or the deadline
 * has passed; not if TLS has input. Returns 0, errno, or GLI_CONN_LATE. */
int gli_conn_wait(gli_conn *conn, int events, uint64_t deadline_ns);
/* Waits until CONNECTING or SECURING is left. Returns false in ENDED. */
bool gli_conn_finish(gli_conn *conn, uint64_t deadline_ns);

#endif
