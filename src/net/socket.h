/* Socket calls that behave the same on every system. */
#ifndef GLI_NET_SOCKET_H
#define GLI_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "net/endpoint.h"

/* Disables Nagle's algorithm and enables keepalive. Buffer sizes are left to
 * the kernel's auto-tuning. */
void gli_tcp_socket_tune(int fd);
/* Tunes a connection within this host. Call it before the connection is made: a
 * kernel that has started to pace a connection may never stop. */
void gli_tcp_socket_tune_local(int fd);
/* Tunes a listener before the hosts of its peers are known. `control` gets the
 * congestion control to restore, by gli_tcp_socket_set_control, on connections
 * from other hosts, or "" if none was replaced. */
enum { GLI_TCP_CONTROL_BYTES = 16 };
void gli_tcp_socket_tune_listener(int fd, char control[GLI_TCP_CONTROL_BYTES]);
void gli_tcp_socket_set_control(int fd, const char *control);

/* Starts to connect a non-blocking socket. Returns 0 if the connection is in
 * progress or made, or errno. */
int gli_tcp_socket_connect(int fd, const gli_endpoint *to);
/* Gets the address from which this host sends to `to`, without sending. Returns
 * 0 or errno: ENETUNREACH, for example, without a route. */
int gli_tcp_socket_source(const gli_endpoint *to, gli_endpoint *from);
/* Returns the pending error of a socket, 0 if none. */
int gli_tcp_socket_error(int fd);
/* Waits until one of `events` (GLI_READABLE, GLI_WRITABLE) is possible or the
 * socket has an error, at most until the deadline (net/time_limit.h). Returns
 * 0, errno, or -1 after the deadline. */
int gli_tcp_socket_wait(int fd, int events, uint64_t deadline_ns);

/* Like sendmsg and recvmsg, but without signals, and retried if interrupted. */
ssize_t gli_tcp_socket_send(int fd, const struct iovec *parts, int count);
ssize_t gli_tcp_socket_receive(int fd, const struct iovec *parts, int count);
/* Like recv. Data that was peeked at remains to be received. Skipped data is
 * not stored, and is acknowledged immediately if the system can be asked to;
 * `room` must have `bytes` all the same, as some systems require. */
ssize_t gli_tcp_socket_read(int fd, void *buffer, size_t bytes);
ssize_t gli_tcp_socket_peek(int fd, void *buffer, size_t bytes);
ssize_t gli_tcp_socket_skip(int fd, void *room, size_t bytes);

/* Returns the number of bytes that the peer's kernel has not acknowledged, or
 * -1 if the system does not report it. */
int gli_tcp_socket_unacknowledged(int fd);
/* Returns the time since data last arrived, read or not, or -1 if unknown. */
int64_t gli_tcp_socket_silence_ns(int fd);

#endif
