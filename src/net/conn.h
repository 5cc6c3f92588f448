/* A connection from its first system call to its last: the socket, the watch on
 * it, TLS where it is used, and its state.
 *
 *   RESOLVING -> CONNECTING -> GREETING -> UP -> DRAINING -> ENDED
 *                              |     ^
 *                              v     |
 *                             SECURING
 *
 * A connection that was accepted begins with GREETING, and each state may end.
 * gli_conn_move makes all moves; its table holds the legal ones.
 *
 * A connection in a set of watches (net/events.h) moves when the set is polled,
 * and calls its owner. A connection without a set belongs to a waiting thread:
 * gli_conn_wait and gli_conn_finish poll its socket, and make no calls to an
 * owner. One thread at a time uses a connection. */
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
  GLI_CONN_RESOLVING,  /* no socket yet: the owner looks up where to connect */
  GLI_CONN_CONNECTING, /* the system connects */
  GLI_CONN_SECURING,   /* the handshake of TLS is under way */
  GLI_CONN_GREETING,   /* both ends introduce themselves, as the owner knows */
  GLI_CONN_UP,
  GLI_CONN_DRAINING, /* this end sends no more, the other end may */
  GLI_CONN_ENDED,
  GLI_CONN_STATES
} gli_conn_state;

/* Causes of an end that are no errno. An owner's own are below
 * GLI_CONN_OTHER. */
enum {
  GLI_CONN_LATE = -1,     /* the deadline has passed */
  GLI_CONN_CLOSED = -2,   /* the other end has closed the connection */
  GLI_CONN_NONSENSE = -3, /* what came is not the owner's protocol */
  GLI_CONN_OTHER = -16
};

/* Calls to the owner, from a poll of the set. `owner` may close or free the
 * connection in each. */
typedef struct gli_conn_calls {
  /* The connection entered GREETING: it is made, or secured. */
  void (*greets)(void *owner);
  /* Events of GREETING, UP and DRAINING: GLI_READABLE, GLI_WRITABLE,
   * GLI_BROKEN. */
  void (*ready)(void *owner, int events);
  /* The connection ended for `code` (errno, or above), for another reason than
   * the owner's. gli_conn_close is still to be called. */
  void (*ended)(void *owner, int code);
} gli_conn_calls;

typedef struct gli_conn {
  gli_watch watch; /* `fd`: the socket, -1 before and after; without a set
                      nothing else of it is used */
  gli_tls *tls;    /* NULL: bytes are sent as they are */
  gli_conn_state state;
  int code;  /* of ENDED: the cause; 0: the owner's wish */
  int plain; /* first byte of an answer that the other end may give in place of
                its handshake of TLS; -1: there is none */
  bool secured; /* the handshake was completed */
  const gli_conn_calls *calls;
  void *owner;
} gli_conn;

/* Makes the one legal move to `to`, and returns true; returns false, and leaves
 * the state, if the table has no such move. */
bool gli_conn_move(gli_conn *conn, gli_conn_state to);

/* A connection without a socket. */
void gli_conn_init(gli_conn *conn, const gli_conn_calls *calls, void *owner);
/* Allocates a connection, for gli_conn_free. Returns NULL without memory. */
gli_conn *gli_conn_new(const gli_conn_calls *calls, void *owner);
void gli_conn_give(gli_conn *conn, const gli_conn_calls *calls, void *owner);

/* Makes the socket of a TCP connection. Returns 0, or errno. `set` may be NULL,
 * here and below. */
int gli_conn_open(gli_conn *conn, gli_events *set, int family);
/* Begins to connect. Returns 0, or errno. */
int gli_conn_connect(gli_conn *conn, const gli_endpoint *to);
/* Takes over fd, a socket that is connected, and enters GREETING. Returns 0, or
 * errno with the socket closed. */
int gli_conn_adopt(gli_conn *conn, gli_events *set, int fd);

/* Enters SECURING. `accepts` and `key` as of gli_tls_open. The owner may ask
 * for a certificate (gli_tls_expect_rank) before the next call. */
gloo_status gli_conn_secure(gli_conn *conn, gli_tls_settings *settings,
                            bool accepts, const gli_key *key,
                            gloo_error *error);
/* Goes on with the handshake as far as it goes without waiting. Returns true if
 * it is still under way; else the owner was called, if there is one. */
bool gli_conn_shake_hands(gli_conn *conn, bool broken);

/* Ends this direction. What TLS has kept goes first, unless it is `lost`.
 * Returns true in DRAINING, false while there is something to write. */
bool gli_conn_shut(gli_conn *conn, bool lost);

/* Gets the addresses of both ends. Returns false if the system has none. */
bool gli_conn_ends(const gli_conn *conn, gli_endpoint *self,
                   gli_endpoint *peer);

/* Ends a connection for `code`, unless it has ended, without a call to the
 * owner. Reading and writing stop; gli_conn_close closes the socket. */
void gli_conn_end(gli_conn *conn, int code);
/* Closes the socket in both directions. Idempotent. */
void gli_conn_close(gli_conn *conn);
/* Closes and frees a connection. NULL is allowed. */
void gli_conn_free(gli_conn *conn);
/* In a forked child: closes this process's copy of the socket alone. NULL is
 * allowed. */
void gli_conn_forked(gli_conn *conn);

/* ---- events -------------------------------------------------------------- */

/* GLI_READABLE, GLI_WRITABLE, both or 0. */
static inline void gli_conn_for(gli_conn *conn, int events) {
  gli_watch_for(&conn->watch, events);
}
/* For what the other end says next, and for room where TLS has kept bytes. */
void gli_conn_await(gli_conn *conn);

/* Bytes that TLS has read, which no watch on the socket sees any more. */
static inline bool gli_conn_tls_pending(const gli_conn *conn) {
  return conn->tls != NULL && gli_tls_pending(conn->tls);
}
/* Bytes that count as sent and that TLS has kept. */
static inline bool gli_conn_unsent(const gli_conn *conn) {
  return conn->tls != NULL && gli_tls_unsent(conn->tls);
}
/* Writes them, as far as the socket takes them. Returns false with errno. */
static inline bool gli_conn_flush(gli_conn *conn) {
  return conn->tls == NULL || gli_tls_flush(conn->tls);
}

/* ---- bytes --------------------------------------------------------------- */

/* As sendmsg and recvmsg: -1 with errno; 0 where the other end has closed. They
 * raise no signal, and go on after an interruption. EBADMSG: TLS refuses what
 * came. */
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
/* Into one piece. */
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

/* Waits until `events` are possible or the socket has an error, at most until
 * the deadline; returns at once where bytes are hidden. Returns 0, errno, or
 * GLI_CONN_LATE. */
int gli_conn_wait(gli_conn *conn, int events, uint64_t deadline_ns);
/* Waits for the end of CONNECTING or SECURING. Returns false if the connection
 * has ended. */
bool gli_conn_finish(gli_conn *conn, uint64_t deadline_ns);

#endif
