#include "net/tcp_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "core/exhaustion.h"
#include "core/text.h"
#include "net/host_name.h"
#include "net/published.h"
#include "net/socket.h"

static void take_all(const struct addrinfo *found,
                     gli_tcp_addresses *addresses) {
  addresses->n = 0;
  for (; found != NULL && addresses->n < GLI_TCP_ADDRESSES_MAX;
       found = found->ai_next) {
    if (found->ai_family != AF_INET && found->ai_family != AF_INET6) continue;
    if (found->ai_addrlen > sizeof addresses->list[0]) continue;
    memset(&addresses->list[addresses->n], 0, sizeof addresses->list[0]);
    memcpy(&addresses->list[addresses->n], found->ai_addr, found->ai_addrlen);
    addresses->n++;
  }
}

gloo_status gli_tcp_resolve(const char *store, const char *host, uint16_t port,
                            int64_t timeout_ns, gli_tcp_addresses *addresses,
                            gloo_error *error) {
  char service[8], what[48], bare[GLI_HOST_NAME_BYTES];
  struct addrinfo *found;
  snprintf(service, sizeof service, "%u", (unsigned)port);
  snprintf(what, sizeof what, "%s's host", store);
  if (!gli_host_name_bare(host, bare))
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "the host name of %s has %zu bytes; the limit is %d", what,
                    strlen(host), GLI_HOST_NAME_BYTES - 1);
  gloo_status status =
      gli_look_up(what, bare, service, SOCK_STREAM, timeout_ns, &found, error);
  if (status != GLOO_OK) return status;
  take_all(found, addresses);
  freeaddrinfo(found);
  if (addresses->n > 0) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                  "%s '%s' has no IPv4 or IPv6 address", what,
                  gli_quote(host).text);
}

/* ---- listening addresses ------------------------------------------------- */

static void address_add(gli_tcp_addresses *addresses,
                        const gli_endpoint *endpoint) {
  if (addresses->n == GLI_TCP_ADDRESSES_MAX) return;
  struct sockaddr_storage *to = &addresses->list[addresses->n++];
  memset(to, 0, sizeof *to);
  memcpy(to, endpoint, gli_endpoint_bytes(endpoint));
}

bool gli_tcp_address_is_loopback(const struct sockaddr_storage *address) {
  gli_endpoint endpoint;
  memcpy(&endpoint, address, sizeof endpoint);
  return gli_endpoint_is_loopback(&endpoint);
}

int gli_tcp_address_is_here(const struct sockaddr_storage *address,
                            bool *here) {
  gli_endpoint at, from;
  memcpy(&at, address, sizeof at);
  gli_endpoint_unmap(&at);
  *here = gli_endpoint_is_loopback(&at) || gli_endpoint_is_wildcard(&at);
  if (*here) return 0;
  int code = gli_tcp_socket_source(&at, &from);
  if (code != 0)
    return gli_is_exhaustion(code) ? code : 0; /* without a route: elsewhere */
  *here = gli_endpoint_same_address(&at, &from);
  return 0;
}

static bool addresses_loop_back(const gli_tcp_addresses *addresses) {
  for (size_t i = 0; i < addresses->n; i++)
    if (gli_tcp_address_is_loopback(&addresses->list[i])) return true;
  return false;
}

static gloo_status resolve_patiently(const char *host, int64_t timeout_ns,
                                     gli_tcp_addresses *addresses,
                                     gloo_error *error) {
  gloo_error cause;
  gloo_status status;
  gli_retry retry = gli_retry_begin(timeout_ns);
  do
    status = gli_tcp_resolve("the TCP store", host, 0, gli_retry_left(&retry),
                             addresses, &cause);
  while (status == GLOO_ERR_ADDRESS && gli_retry_pause(&retry, &cause));
  if (status != GLOO_OK)
    return gli_fail(error, status, -1, "%s", cause.message);
  return status;
}

gloo_status gli_tcp_listen_at(const char *host, int64_t timeout_ns,
                              gli_tcp_addresses *addresses, gloo_error *error) {
  gli_endpoints bound;
  gloo_status status = gli_bind_read(&bound, error);
  if (status != GLOO_OK) return status;
  if (bound.n == 0)
    status = resolve_patiently(host, timeout_ns, addresses, error);
  if (status != GLOO_OK) return status;
  if (bound.n == 0) {
    char bare[GLI_HOST_NAME_BYTES];
    if (!addresses_loop_back(addresses) || !gli_host_name_bare(host, bare) ||
        !gli_host_name_may_be_own(bare))
      return GLOO_OK;
    (void)gli_endpoint_from_text("::", &bound.at[bound.n++]);
    (void)gli_endpoint_from_text("0.0.0.0", &bound.at[bound.n++]);
  }
  addresses->n = 0;
  for (uint32_t i = 0; i < bound.n; i++) address_add(addresses, &bound.at[i]);
  return GLOO_OK;
}

/* ---- as text, and ports -------------------------------------------------- */

gli_tcp_name gli_tcp_address_name(const struct sockaddr_storage *address) {
  gli_tcp_name name;
  char host[INET6_ADDRSTRLEN + 1] = "?";
  unsigned port = gli_tcp_address_port(address);
  if (address->ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    (void)inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    snprintf(name.text, sizeof name.text, "[%s]:%u", host, port);
  } else {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    (void)inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    snprintf(name.text, sizeof name.text, "%s:%u", host, port);
  }
  return name;
}

uint16_t gli_tcp_address_port(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET6)
    return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
  return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void gli_tcp_address_set_port(struct sockaddr_storage *address, uint16_t port) {
  if (address->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
  else
    ((struct sockaddr_in *)address)->sin_port = htons(port);
}

void gli_tcp_address_reachable(struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET6) {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
      v6->sin6_addr = in6addr_loopback;
  } else {
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    if (v4->sin_addr.s_addr == htonl(INADDR_ANY))
      v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
}
