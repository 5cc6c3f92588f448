/* Plain sockets, for clients and servers that violate the protocol. */
#ifndef TESTS_RENDEZVOUS_RAW_H
#define TESTS_RENDEZVOUS_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/store/tcp/tcp_protocol.h"

/* Connects to 127.0.0.1; returns -1 on failure. */
int raw_try_connect(uint16_t port);
/* Connects to 127.0.0.1; fails the test if it cannot. */
int raw_connect(uint16_t port);
void raw_send(int fd, const void *data, size_t bytes);
/* Begins a HELLO frame by name. The caller completes it with gli_frame_end()
 * and frees its data. */
void raw_make_hello(gli_frame *frame, uint64_t magic, uint64_t epoch,
                    const char *job);
/* Reads until the peer closes; fewer than `room` bytes must arrive. Appends a 0
 * and returns the number of bytes before it. */
size_t raw_read_all(int fd, char *to, size_t room);
/* Reads and discards until the peer closes. */
void raw_expect_closed(int fd);

/* Returns a socket that listens at 127.0.0.1, and its port. */
int raw_listen(uint16_t *port);

#endif
