/* A socket of a store, and TLS where it is used. It does not block. */
#ifndef GLI_RENDEZVOUS_CHANNEL_H
#define GLI_RENDEZVOUS_CHANNEL_H

#include "net/tcp_socket.h"
#include "net/tls.h"

typedef struct gli_channel {
  int fd;       /* -1: none */
  gli_tls *tls; /* NULL: bytes are sent as they are */
} gli_channel;

/* As send and recv, never raising a signal, over interruptions. With TLS what
 * is sent may be unsent when that returns. */
ssize_t gli_channel_send(const gli_channel *channel, const void *data,
                         size_t bytes);
ssize_t gli_channel_receive(const gli_channel *channel, void *data,
                            size_t bytes);

/* There is something to receive that the socket does not show. */
bool gli_channel_hides(const gli_channel *channel);
/* There is something to send yet of what counts as sent. */
bool gli_channel_keeps(const gli_channel *channel);
/* Send that, as far as it goes. False with errno. */
bool gli_channel_flush(const gli_channel *channel);

/* As gli_store_socket_wait: until one of `events` is possible, POLLOUT as well
 * if there is something to send yet. Returns at once where bytes are hidden. */
int gli_channel_wait(const gli_channel *channel, short events,
                     uint64_t deadline_ns);

/* Make TLS, from the end that has connected to `address`, with a server at
 * `host` (a name, or an address). 0; -1: out of time; else errno, with EBADMSG
 * a reason in `tls` (gli_tls_why), or EPROTO in `error`. */
int gli_channel_secure(gli_channel *channel, gli_tls_settings *settings,
                       const gli_key *key, const char *host,
                       const struct sockaddr_storage *address,
                       uint64_t deadline_ns, gloo_error *error);

/* In a forked child only its own copy is closed. */
void gli_channel_close(gli_channel *channel);

#endif
