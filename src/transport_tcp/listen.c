/* The listening socket: one address, chosen from what the configuration says.
 */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/lack.h"
#include "core/log.h"
#include "core/lookup.h"
#include "transport_tcp/socket.h"
#include "transport_tcp/tcp.h"

enum { BACKLOG = 4096 }; /* the kernel caps it */
static const uint64_t pause_ns = 100000000;
static const uint64_t patience_ns = 2000000000;

/* A listening socket, or -1 with errno. */
static int tcp_listen_at(const gli_tcp_endpoint *at) {
  int fd = gli_socket_open(at->any.sa_family, SOCK_STREAM);
  if (fd < 0) return -1;
  int yes = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, &at->any, gli_tcp_endpoint_bytes(at)) == 0 &&
      listen(fd, BACKLOG) == 0)
    return fd;
  int code = errno;
  close(fd);
  errno = code;
  return -1;
}

static gloo_status take_listener(gli_tcp *t, int fd, gloo_error *error) {
  socklen_t bytes = sizeof t->local;
  if (getsockname(fd, &t->local.any, &bytes) != 0) {
    close(fd);
    return gli_fail(error, GLOO_ERR_IO, -1, "getsockname: %s", strerror(errno));
  }
  gli_tcp_socket_tune_listener(fd, t->control);
  t->listener = gli_tcp_watch_new(t, fd, gli_tcp_listener_ready, t);
  if (t->listener == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the listening socket");
  gli_tcp_watch_for(t->listener, GLI_READABLE);
  return GLOO_OK;
}

static gloo_status tcp_cannot_listen(const gli_tcp_endpoint *at, int code,
                                     gloo_error *error) {
  if (gli_lacking(code))
    return gli_fail(error, gli_lack_status(code), -1, "cannot listen: %s",
                    gli_lack_text(code));
  char text[GLI_TCP_TEXT_BYTES];
  gli_tcp_endpoint_text(at, text);
  const char *advice = "";
  if (code == EADDRINUSE) advice = "; choose another port, or 0 for any";
  if (code == EACCES) advice = "; ports below 1024 need privileges";
  if (code == EADDRNOTAVAIL)
    advice = "; the address is not one of this machine's";
  return gli_fail(error, GLOO_ERR_ADDRESS, -1, "cannot listen on %s: %s%s",
                  text, strerror(code), advice);
}

static gloo_status listen_on(gli_tcp *t, const gli_tcp_endpoint *at,
                             gloo_error *error) {
  int fd = tcp_listen_at(at);
  if (fd < 0) return tcp_cannot_listen(at, errno, error);
  return take_listener(t, fd, error);
}

static gloo_status listen_on_host(gli_tcp *t,
                                  const gli_transport_config *config,
                                  gloo_error *error) {
  struct addrinfo *list;
  const char *host = config->host;
  gli_retry retry = gli_retry_begin(config->lookup_ns);
  gloo_status found =
      config->lookup_ns == 0
          ? gli_look_up("host", host, "0", SOCK_STREAM, -1, &list, error)
          : gli_look_up_patiently("host", host, "0", SOCK_STREAM, &retry, &list,
                                  error);
  if (found != GLOO_OK) return found;
  gloo_status status =
      gli_fail(error, GLOO_ERR_ADDRESS, -1,
               "host \"%s\" has neither an IPv4 nor an IPv6 address", host);
  for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
    gli_tcp_endpoint at;
    if (!gli_tcp_endpoint_from_socket(a->ai_addr, a->ai_addrlen, &at)) continue;
    if (gli_tcp_endpoint_is_wildcard(&at)) {
      status = gli_fail(error, GLOO_ERR_ADDRESS, -1,
                        "host \"%s\" does not name one address that other "
                        "ranks can connect to; give one of this machine's",
                        host);
      continue;
    }
    gli_tcp_endpoint_set_port(&at, config->port);
    status = listen_on(t, &at, error);
    if (status == GLOO_OK) break;
  }
  freeaddrinfo(list);
  return status;
}

static gloo_status listen_on_interface(gli_tcp *t, const char *name,
                                       const char *origin, uint16_t port,
                                       gloo_error *error) {
  gli_tcp_endpoint at;
  gloo_status status = gli_tcp_interface_address(name, origin, &at, error);
  if (status != GLOO_OK) return status;
  gli_tcp_endpoint_set_port(&at, port);
  return listen_on(t, &at, error);
}

static gloo_status listen_on_loopback(gli_tcp *t, uint16_t port,
                                      gloo_error *error) {
  gli_tcp_endpoint v4, v6;
  memset(&v4, 0, sizeof v4);
  v4.v4.sin_family = AF_INET;
  v4.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  gli_tcp_endpoint_set_port(&v4, port);
  int fd = tcp_listen_at(&v4);
  if (fd >= 0) return take_listener(t, fd, error);
  if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
    return tcp_cannot_listen(&v4, errno, error);
  memset(&v6, 0, sizeof v6);
  v6.v6.sin6_family = AF_INET6;
  v6.v6.sin6_addr = in6addr_loopback;
  gli_tcp_endpoint_set_port(&v6, port);
  return listen_on(t, &v6, error);
}

gloo_status gli_tcp_listen(gli_tcp *t, const gli_transport_config *config,
                           gloo_error *error) {
  if (config->host != NULL) return listen_on_host(t, config, error);
  if (config->interface != NULL)
    return listen_on_interface(t, config->interface, "the device's options",
                               config->port, error);
  const char *name = gli_environment_read("GLOO_SOCKET_IFNAME");
  if (name != NULL)
    return listen_on_interface(t, name, "GLOO_SOCKET_IFNAME", config->port,
                               error);
  return listen_on_loopback(t, config->port, error);
}

void gli_tcp_listener_pause(gli_tcp *t) {
  gli_tcp_watch_for(t->listener, 0);
  t->listener_due_ns = uv_hrtime() + pause_ns;
  gli_tcp_schedule(t, t->listener_due_ns);
}

/* Some peer of this pair may be waiting to be accepted. */
static bool is_unconnected(const gli_tcp_pair *pair) {
  if (!pair->live || !pair->begun) return false;
  if (pair->streams == 0) return true;
  for (uint32_t i = 0; i < pair->streams; i++)
    if (pair->stream[i].state != GLI_TCP_UP) return true;
  return false;
}

void gli_tcp_listener_lacks(gli_tcp *t, int code) {
  uint64_t now = uv_hrtime();
  gli_tcp_listener_pause(t);
  if (t->lacking_since_ns == 0) {
    t->lacking_since_ns = now;
    gli_log(GLOO_LOG_WARN, "tcp: cannot accept connections at the moment: %s",
            gli_lack_text(code));
  }
  if (!gli_lacking(code) || now - t->lacking_since_ns < patience_ns) return;
  for (gli_tcp_pair *pair = t->pairs; pair != NULL; pair = pair->next)
    if (is_unconnected(pair)) gli_tcp_pair_lacks(pair, code);
}

void gli_tcp_listener_due(gli_tcp *t, uint64_t now_ns) {
  if (t->listener_due_ns == 0) return;
  if (t->listener_due_ns > now_ns) {
    gli_tcp_schedule(t, t->listener_due_ns);
    return;
  }
  t->listener_due_ns = 0;
  gli_tcp_watch_for(t->listener, GLI_READABLE);
}
