/* Plain sockets, for clients and servers that do not speak the protocol. */
#ifndef TESTS_RENDEZVOUS_RAW_H
#define TESTS_RENDEZVOUS_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/store/tcp/tcp_protocol.h"

/* A connection to 127.0.0.1; -1 when there is none to be had. */
int raw_try_connect(uint16_t port);
/* The same, and there is one. */
int raw_connect(uint16_t port);
void raw_send(int fd, const void *data, size_t bytes);
/* A HELLO by name, which is still to be ended (gli_frame_end), and freed. */
void raw_make_hello(gli_frame *frame, uint64_t magic, uint64_t epoch,
                    const char *job);
/* All that the other side sends until it closes; less than `room`. Returns how
 * much it is, and ends it with a 0. */
size_t raw_read_all(int fd, char *to, size_t room);
/* Wait until the other side closes, taking what it sends before. */
void raw_expect_closed(int fd);

/* A socket that listens at 127.0.0.1, and its port. */
int raw_listen(uint16_t *port);

#endif
