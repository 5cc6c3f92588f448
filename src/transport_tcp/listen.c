/* The listening socket, and the published addresses: see net/published.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "core/host_identity.h"
#include "core/log.h"
#include "net/host_name.h"
#include "net/ports.h"
#include "net/published.h"
#include "net/socket.h"
#include "transport_tcp/tcp.h"

enum { BACKLOG = 4096 }; /* capped by the kernel */
static const uint64_t pause_ns = 100000000;
static const uint64_t patience_ns = 2000000000;

/* ---- one socket ---------------------------------------------------------- */

/* Opens a listening socket. An IPv6 wildcard socket accepts IPv4 as well. */
static int tcp_listen_at(const gli_endpoint *at) {
  int fd = gli_socket_open(at->any.sa_family, SOCK_STREAM);
  if (fd < 0) return -1;
  int yes = 1, no = 0;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  bool dual = at->any.sa_family == AF_INET6 && gli_endpoint_is_wildcard(at);
  if ((!dual ||
       setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0) &&
      bind(fd, &at->any, gli_endpoint_bytes(at)) == 0 &&
      listen(fd, BACKLOG) == 0)
    return fd;
  int code = errno;
  close(fd);
  errno = code;
  return -1;
}

/* Tries the ports. Returns a socket, or -1 with errno and the port in `at`. */
static int tcp_listen_in(gli_endpoint *at, const gli_ports *ports) {
  int fd = -1;
  for (uint32_t i = 0; i < gli_ports_count(ports) && fd < 0; i++) {
    gli_endpoint_set_port(at, gli_ports_at(ports, i));
    fd = tcp_listen_at(at);
    if (fd < 0 && errno != EADDRINUSE && errno != EACCES) break;
  }
  return fd;
}

static gloo_status tcp_cannot_listen(const gli_endpoint *at,
                                     const gli_ports *ports, int code,
                                     gloo_error *error) {
  if (gli_is_exhaustion(code))
    return gli_fail(error, gli_exhaustion_status(code), -1, "cannot listen: %s",
                    gli_exhaustion_text(code));
  char text[GLI_ENDPOINT_TEXT_BYTES], range[GLI_PORTS_TEXT_BYTES];
  bool ranged = gli_ports_ranged(ports, range);
  gli_endpoint bare = *at;
  if (ranged) gli_endpoint_set_port(&bare, 0);
  gli_endpoint_text(&bare, text);
  if (ranged && code == EADDRINUSE)
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "cannot listen on %s: all ports of GLOO_PORT_RANGE (%s) "
                    "are in use; each rank on a host needs one, and the rank "
                    "that serves the store one more",
                    text, range);
  const char *advice = "";
  if (code == EADDRINUSE)
    advice =
        gli_endpoint_port(at) != 0
            ? "; choose another port, or 0 for any"
            : "; the host has no free port left: stop programs that use many";
  if (code == EACCES) advice = "; ports below 1024 need privileges";
  if (code == EADDRNOTAVAIL) advice = "; it is not an address of this machine";
  return gli_fail(error, GLOO_ERR_ADDRESS, -1, "cannot listen on %s: %s%s",
                  text, strerror(code), advice);
}

static gloo_status listener_take(gli_tcp *t, int fd, gloo_error *error) {
  socklen_t bytes = sizeof t->local;
  if (getsockname(fd, &t->local.any, &bytes) != 0) {
    close(fd);
    return gli_fail(error, GLOO_ERR_IO, -1, "getsockname: %s", strerror(errno));
  }
  gli_tcp_socket_tune_listener(fd, t->control);
  if (!gli_watch_init(&t->listener, t->events, fd, gli_tcp_listener_ready, t)) {
    close(fd);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for the listening socket");
  }
  gli_watch_for(&t->listener, GLI_READABLE);
  return GLOO_OK;
}

/* Listens on the first address that works. */
static gloo_status listen_on_first(gli_tcp *t, const gli_endpoints *addresses,
                                   const gli_ports *ports, gloo_error *error) {
  gloo_status status = GLOO_ERR_ADDRESS;
  for (uint32_t i = 0; i < addresses->n; i++) {
    gli_endpoint at = addresses->at[i];
    int fd = tcp_listen_in(&at, ports);
    if (fd >= 0) return listener_take(t, fd, error);
    status = tcp_cannot_listen(&at, ports, errno, error);
  }
  return status;
}

static void add_figures(gli_endpoints *list, const char *figures) {
  gli_endpoint at;
  if (gli_endpoint_from_text(figures, &at)) (void)gli_endpoints_add(list, &at);
}

/* Listens on the second address if the system lacks the family of the first. */
static gloo_status listen_on_either(gli_tcp *t, const char *first,
                                    const char *second, const gli_ports *ports,
                                    gloo_error *error) {
  gli_endpoint at;
  (void)gli_endpoint_from_text(first, &at);
  int fd = tcp_listen_in(&at, ports);
  if (fd >= 0) return listener_take(t, fd, error);
  if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)
    return tcp_cannot_listen(&at, ports, errno, error);
  gli_endpoints other = {.n = 0};
  add_figures(&other, second);
  return listen_on_first(t, &other, ports, error);
}

/* ---- published addresses ------------------------------------------------- */

static void contact_add(gli_tcp *t, const gli_endpoint *at) {
  gli_tcp_contact *contact = &t->contact;
  if (contact->n == GLI_TCP_CONTACT_MAX) return;
  contact->at[contact->n] = *at;
  gli_endpoint_set_port(&contact->at[contact->n++], contact->port);
}

/* Fills in the published addresses: the listener's address if it is bound to
 * one, only IPv4 ones if it is bound to 0.0.0.0. Translated ones are kept. */
static void contact_fill(gli_tcp *t, const gli_published *published) {
  gli_tcp_contact *contact = &t->contact;
  contact->place = gli_host_place();
  contact->port = gli_endpoint_port(&t->local);
  contact->checksum = t->checksum;
  contact->everywhere = gli_endpoint_is_wildcard(&t->local);
  contact->translated = published->translated;
  bool v4 = t->local.any.sa_family == AF_INET;
  for (uint32_t i = 0; i < published->told.n; i++) {
    const gli_endpoint *at = &published->told.at[i];
    bool heard = contact->everywhere && (!v4 || at->any.sa_family == AF_INET);
    if (heard || contact->translated) contact_add(t, at);
  }
  /* Ranks of this host use this address, even if others are published. */
  if (!contact->everywhere) contact_add(t, &t->local);
}

/* Tells the transport above at which addresses of this host it listens. */
static void listener_tell(const gli_tcp *t, const gli_published *published,
                          gli_endpoints *own) {
  if (own == NULL) return;
  *own = t->contact.everywhere ? published->own
                               : (gli_endpoints){.n = 1, .at = {t->local}};
}

static void contact_log(const gli_tcp *t) {
  char text[GLI_ENDPOINT_TEXT_BYTES], all[400] = "";
  if (!gli_log_enabled(GLOO_LOG_INFO)) return;
  for (uint32_t i = 0; i < t->contact.n; i++) {
    gli_endpoint_text(&t->contact.at[i], text);
    size_t used = strlen(all);
    if (used + strlen(text) + 3 > sizeof all) break;
    if (i > 0) memcpy(all + used, ", ", 3), used += 2;
    memcpy(all + used, text, strlen(text) + 1);
  }
  gli_endpoint_text(&t->local, text);
  gli_log(GLOO_LOG_INFO, "tcp: listens on %s; publishes %s", text, all);
}

/* ---- choice of an address ------------------------------------------------ */

/* Listens on a host given by name, on the first of its addresses that works. */
static gloo_status listen_on_host(gli_tcp *t,
                                  const gli_transport_config *config,
                                  const gli_ports *ports, gloo_error *error) {
  gli_endpoints found;
  const char *host = config->host;
  gloo_status status = gli_host_resolve(host, config->lookup_ns, &found, error);
  if (status != GLOO_OK) return status;
  uint32_t n = 0;
  for (uint32_t i = 0; i < found.n; i++)
    if (!gli_endpoint_is_wildcard(&found.at[i])) found.at[n++] = found.at[i];
  found.n = n;
  if (n == 0)
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "host \"%.64s\" is not an address that other ranks can "
                    "connect to; use an address of this machine",
                    host);
  return listen_on_first(t, &found, ports, error);
}

static bool all_loopback(const gli_endpoints *own) {
  for (uint32_t i = 0; i < own->n; i++)
    if (!gli_endpoint_is_loopback(&own->at[i])) return false;
  return true;
}

static bool any_of_family(const gli_endpoints *own, sa_family_t family) {
  for (uint32_t i = 0; i < own->n; i++)
    if (own->at[i].any.sa_family == family) return true;
  return false;
}

/* Listens on one address if only this one is published, else on all of them.
 * The handshake rejects strangers. */
static gloo_status listen_for_published(gli_tcp *t,
                                        const gli_published *published,
                                        const gli_ports *ports,
                                        gloo_error *error) {
  const gli_endpoints *own = &published->own;
  bool translated = published->translated;
  if (!translated && !published->chosen && all_loopback(own)) {
    bool v6 = own->n > 0 && own->at[0].any.sa_family == AF_INET6;
    return listen_on_either(t, v6 ? "::1" : "127.0.0.1",
                            v6 ? "127.0.0.1" : "::1", ports, error);
  }
  if (!translated && (own->n == 1 || all_loopback(own))) {
    gli_endpoints one = {.n = 1, .at = {own->at[0]}};
    return listen_on_first(t, &one, ports, error);
  }
  if (!any_of_family(own, AF_INET6) &&
      !any_of_family(&published->told, AF_INET6))
    return listen_on_either(t, "0.0.0.0", "::", ports, error);
  return listen_on_either(t, "::", "0.0.0.0", ports, error);
}

/* Reads the interfaces. Failure is an error only if a choice among them is
 * `needed`; otherwise they only serve to order the addresses of peers. */
static gloo_status read_own(gli_tcp *t, bool needed, gloo_error *error) {
  gloo_error wrong;
  gloo_status status = gli_interfaces_read(&t->own, &wrong);
  if (status == GLOO_OK) return status;
  if (needed || status != GLOO_ERR_IO)
    return gli_fail(error, status, -1, "%s", wrong.message);
  gli_log(GLOO_LOG_INFO, "tcp: %s", wrong.message);
  return GLOO_OK;
}

static gloo_status tcp_listen_chosen(
    gli_tcp *t, const gli_transport_config *config, const gli_ports *ports,
    const gli_endpoints *bound, gli_published *published, gloo_error *error) {
  gli_endpoint towards;
  gli_publishing how = {.choice = config->interface,
                        .origin = "the device's options"};
  if (config->towards != NULL &&
      gli_endpoint_from_text(config->towards, &towards))
    how.towards = &towards;
  bool fixed = bound->n > 0 && !gli_endpoint_is_wildcard(&bound->at[0]);
  gloo_status status =
      config->host != NULL || fixed
          ? gli_published_given(published, error)
          : gli_published_find(&how, &t->own, published, error);
  if (status != GLOO_OK) return status;
  if (config->host != NULL) return listen_on_host(t, config, ports, error);
  if (bound->n > 0) return listen_on_first(t, bound, ports, error);
  return listen_for_published(t, published, ports, error);
}

gloo_status gli_tcp_listen(gli_tcp *t, const gli_transport_config *config,
                           gloo_error *error) {
  gli_ports ports;
  gli_endpoints bound = {.n = 0};
  gli_published published;
  gloo_status status = gli_ports_read(config->port, &ports, error);
  if (status == GLOO_OK && config->host == NULL)
    status = gli_bind_read(&bound, error);
  if (status == GLOO_OK) status = read_own(t, config->host == NULL, error);
  if (status == GLOO_OK)
    status = tcp_listen_chosen(t, config, &ports, &bound, &published, error);
  if (status != GLOO_OK) return status;
  contact_fill(t, &published);
  listener_tell(t, &published, config->own);
  contact_log(t);
  return GLOO_OK;
}

void gli_tcp_listener_pause(gli_tcp *t) {
  gli_watch_for(&t->listener, 0);
  t->listener_full = false;
  t->listener_due_ns = uv_hrtime() + pause_ns;
  gli_peers_schedule(&t->peers, t->listener_due_ns);
}

void gli_tcp_listener_resume(gli_tcp *t) {
  if (!t->listener_full) return;
  t->listener_full = false;
  t->listener_due_ns = 0;
  gli_watch_for(&t->listener, GLI_READABLE);
}

/* Returns true if a peer of this pair may be waiting to be accepted. */
static bool is_unconnected(const gli_tcp_pair *pair) {
  if (!pair->peer.live || !pair->begun) return false;
  if (pair->streams == 0) return true;
  for (uint32_t i = 0; i < pair->streams; i++)
    if (pair->stream[i].state != GLI_TCP_UP) return true;
  return false;
}

void gli_tcp_listener_fail_resource(gli_tcp *t, int code) {
  uint64_t now = uv_hrtime();
  gli_tcp_listener_pause(t);
  t->lack = gli_is_exhaustion(code) ? code : 0;
  if (t->lacking_since_ns == 0) {
    t->lacking_since_ns = now;
    gli_log(GLOO_LOG_WARN, "tcp: cannot accept connections for now: %s",
            gli_exhaustion_text(code));
  }
  if (!gli_is_exhaustion(code) || now - t->lacking_since_ns < patience_ns)
    return;
  for (gli_transport_peer *peer = t->peers.pairs; peer != NULL;
       peer = peer->next)
    if (is_unconnected((const gli_tcp_pair *)peer))
      gli_peer_fail_resource(peer, code);
}

void gli_tcp_listener_due(gli_tcp *t, uint64_t now_ns) {
  if (t->listener_due_ns == 0) return;
  if (t->listener_due_ns > now_ns) {
    gli_peers_schedule(&t->peers, t->listener_due_ns);
    return;
  }
  t->listener_full = false;
  t->listener_due_ns = 0;
  gli_watch_for(&t->listener, GLI_READABLE);
}
