/* The way to a TCP store that no other user of its host can go: next to its
 * port the server has a socket of the system's own kind, which tells each end
 * who the other is. So ranks on one host need no secret to be among
 * themselves. Linux only; elsewhere, and where a program may not have such
 * sockets at all, they fail with EAFNOSUPPORT. */
#ifndef GLI_RENDEZVOUS_TCP_LOCAL_H
#define GLI_RENDEZVOUS_TCP_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The socket that goes with a server's address, which is loopback's or all of
 * the host's. -1, and errno: EADDRINUSE where another process has it. */
int gli_tcp_local_listen(const struct sockaddr_storage *address);

/* Connect to the server at a loopback address, or at all addresses. -1, and
 * errno: ECONNREFUSED where there is none. */
int gli_tcp_local_connect(const struct sockaddr_storage *address);

/* Is the other end a process of this user, or root's? `process` and `user` say
 * whose it is. */
bool gli_tcp_local_knows(int fd, int64_t *process, uint32_t *user);

#endif
