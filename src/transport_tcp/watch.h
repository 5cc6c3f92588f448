/* A socket, the eye on it (net/events.h), and TLS where it is used, in memory
 * of its own. It may change hands: a connection begins as a half-open
 * connection and becomes a stream. */
#ifndef GLI_TRANSPORT_TCP_WATCH_H
#define GLI_TRANSPORT_TCP_WATCH_H

#include <sys/types.h>
#include <sys/uio.h>

#include "net/events.h"
#include "net/socket.h"
#include "net/tls.h"

struct gli_tcp;

typedef struct gli_tcp_watch {
  gli_watch eye;
  gli_tls *tls; /* NULL: bytes are sent as they are */
} gli_tcp_watch;

/* Takes over fd, and closes it when there is no memory (NULL). */
gli_tcp_watch *gli_tcp_watch_new(struct gli_tcp *t, int fd, gli_ready ready,
                                 void *owner);
void gli_tcp_watch_give(gli_tcp_watch *watch, gli_ready ready, void *owner);
/* GLI_READABLE, GLI_WRITABLE, both or 0. */
void gli_tcp_watch_for(gli_tcp_watch *watch, int events);
/* For what the other end says next, and for room where there is something to be
 * sent before. */
void gli_tcp_watch_await(gli_tcp_watch *watch);
/* Closes the socket too. */
void gli_tcp_watch_close(gli_tcp_watch *watch);
/* In a forked child: only this process's copy of the socket is closed. NULL is
 * allowed. */
void gli_tcp_watch_forked(gli_tcp_watch *watch);

ssize_t gli_tcp_watch_read_tls(gli_tcp_watch *watch, void *to, size_t bytes);

/* As gli_tcp_socket_send and _receive. With TLS what is sent may be unsent when
 * that returns, and more may have come than was received (net/tls.h). */
static inline ssize_t gli_tcp_watch_send(gli_tcp_watch *watch,
                                         const struct iovec *parts, int count) {
  if (watch->tls != NULL) return gli_tls_send(watch->tls, parts, count);
  return gli_tcp_socket_send(watch->eye.fd, parts, count);
}
static inline ssize_t gli_tcp_watch_receive(gli_tcp_watch *watch,
                                            const struct iovec *parts,
                                            int count) {
  if (watch->tls != NULL) return gli_tls_receive(watch->tls, parts, count);
  return gli_tcp_socket_receive(watch->eye.fd, parts, count);
}
/* Into one piece. */
static inline ssize_t gli_tcp_watch_read(gli_tcp_watch *watch, void *to,
                                         size_t bytes) {
  if (watch->tls != NULL) return gli_tcp_watch_read_tls(watch, to, bytes);
  return gli_tcp_socket_read(watch->eye.fd, to, bytes);
}
static inline bool gli_tcp_watch_hidden(const gli_tcp_watch *watch) {
  return watch->tls != NULL && gli_tls_hidden(watch->tls);
}
static inline bool gli_tcp_watch_unsent(const gli_tcp_watch *watch) {
  return watch->tls != NULL && gli_tls_unsent(watch->tls);
}

#endif
