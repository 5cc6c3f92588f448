/* Connections of the TCP store, on both sides. */
#ifndef GLI_RENDEZVOUS_TCP_SOCKET_H
#define GLI_RENDEZVOUS_TCP_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The bytes of an IPv4 or IPv6 address. */
socklen_t gli_store_address_bytes(const struct sockaddr_storage *address);

/* Wait until one of poll's `events` is possible, or there is an error on it.
 * 0, errno, or -1 when the deadline has passed. */
int gli_store_socket_wait(int fd, short events, uint64_t deadline_ns);

/* Connect a socket that does not block. 0, errno, or -1 as above. */
int gli_store_socket_connect(int fd, const struct sockaddr_storage *address,
                             uint64_t deadline_ns);

/* No Nagle; keepalive, so that a host that vanished is noticed. */
void gli_store_socket_tune(int fd);

/* As send and recv, over interruptions; sending raises no signal where the
 * system can be asked for that. */
ssize_t gli_store_socket_send(int fd, const void *data, size_t bytes);
ssize_t gli_store_socket_receive(int fd, void *data, size_t bytes);

#endif
