#include "net/channel.h"

#include <errno.h>
#include <poll.h>

#include "core/descriptor.h"
#include "core/signals.h"

ssize_t gli_channel_send(const gli_channel *channel, const void *data,
                         size_t bytes) {
  const struct iovec part = {(void *)(uintptr_t)data, bytes};
  return channel->tls != NULL ? gli_tls_send(channel->tls, &part, 1)
                              : gli_store_socket_send(channel->fd, data, bytes);
}

ssize_t gli_channel_receive(const gli_channel *channel, void *data,
                            size_t bytes) {
  const struct iovec part = {data, bytes};
  return channel->tls != NULL
             ? gli_tls_receive(channel->tls, &part, 1)
             : gli_store_socket_receive(channel->fd, data, bytes);
}

bool gli_channel_hides(const gli_channel *channel) {
  return channel->tls != NULL && gli_tls_hidden(channel->tls);
}

bool gli_channel_keeps(const gli_channel *channel) {
  return channel->tls != NULL && gli_tls_unsent(channel->tls);
}

bool gli_channel_flush(const gli_channel *channel) {
  return channel->tls == NULL || gli_tls_flush(channel->tls);
}

int gli_channel_wait(const gli_channel *channel, short events,
                     uint64_t deadline_ns) {
  if ((events & POLLIN) != 0 && gli_channel_hides(channel)) return 0;
  if (gli_channel_keeps(channel)) events |= POLLOUT;
  int code = gli_store_socket_wait(channel->fd, events, deadline_ns);
  if (code == 0 && gli_channel_keeps(channel) && !gli_channel_flush(channel))
    return errno;
  return code;
}

static int channel_shake_hands(const gli_channel *channel,
                               uint64_t deadline_ns) {
  for (;;) {
    switch (gli_tls_shake_hands(channel->tls)) {
      case GLI_TLS_DONE:
        return 0;
      case GLI_TLS_FAILED:
        return errno;
      default:
        break;
    }
    int code = gli_channel_wait(channel, POLLIN, deadline_ns);
    if (code != 0) return code;
  }
}

int gli_channel_secure(gli_channel *channel, gli_tls_settings *settings,
                       const gli_key *key, const char *host,
                       const struct sockaddr_storage *address,
                       uint64_t deadline_ns, gloo_error *error) {
  gli_endpoint at;
  gli_signal_guard guard;
  if (gli_tls_open(settings, channel->fd, false, key, &channel->tls, error) !=
      GLOO_OK)
    return EPROTO;
  gli_signal_guard_enter(&guard);
  int code = channel_shake_hands(channel, deadline_ns);
  gli_signal_guard_leave(&guard);
  if (code != 0) return code;
  (void)gli_endpoint_from_socket((const struct sockaddr *)address,
                                 gli_store_address_bytes(address), &at);
  gli_endpoint_unmap(&at);
  return gli_tls_is_host(channel->tls, host, &at) ? 0 : EBADMSG;
}

void gli_channel_close(gli_channel *channel) {
  gli_fd_close(channel->fd);
  channel->fd = -1;
  gli_tls_destroy(channel->tls);
  channel->tls = NULL;
}
