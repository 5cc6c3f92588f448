/* Calls on sockets, on every system the same. */
#ifndef GLI_NET_SOCKET_H
#define GLI_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "net/endpoint.h"

/* No Nagle, keepalive. Buffer sizes are left to the kernel, which tunes them
 * better than a constant could. */
void gli_tcp_socket_tune(int fd);
/* For a connection that stays within this host. What the system has begun to
 * pace when the connection was made it may pace for ever: best before. */
void gli_tcp_socket_tune_local(int fd);
/* For one that will be made by accepting it, from a host that is not known yet.
 * Those from other hosts are to be given back the congestion control in
 * `control`, unless that is "". */
enum { GLI_TCP_CONTROL_BYTES = 16 };
void gli_tcp_socket_tune_listener(int fd, char control[GLI_TCP_CONTROL_BYTES]);
void gli_tcp_socket_set_control(int fd, const char *control);

/* Begins to connect a socket that does not block. Returns 0 when that is under
 * way or done, or errno. */
int gli_tcp_socket_connect(int fd, const gli_endpoint *to);
/* The error that is pending on a socket, 0 when there is none. */
int gli_tcp_socket_error(int fd);
/* Waits until one of `events` (GLI_READABLE, GLI_WRITABLE) is possible or the
 * socket has an error, at most until the deadline (net/time_limit.h). Returns
 * 0, errno, or -1 when the deadline has passed. */
int gli_tcp_socket_wait(int fd, int events, uint64_t deadline_ns);

/* As sendmsg and recvmsg, never raising a signal, over interruptions. */
ssize_t gli_tcp_socket_send(int fd, const struct iovec *parts, int count);
ssize_t gli_tcp_socket_receive(int fd, const struct iovec *parts, int count);
/* As recv. What is peeked at is there to be received again. What is skipped is
 * not stored, and acknowledged at once where the system can be asked for that;
 * some want room for it all the same. */
ssize_t gli_tcp_socket_read(int fd, void *buffer, size_t bytes);
ssize_t gli_tcp_socket_peek(int fd, void *buffer, size_t bytes);
ssize_t gli_tcp_socket_skip(int fd, void *room, size_t bytes);

/* Bytes that the peer's kernel has not acknowledged; -1 when this system does
 * not tell. */
int gli_tcp_socket_unacknowledged(int fd);
/* For how long nothing has come, read or not; -1: that is not known. */
int64_t gli_tcp_socket_silence_ns(int fd);

#endif
