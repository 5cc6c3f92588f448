#include "rendezvous/tcp_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "core/descriptor.h"
#include "core/host_name.h"
#include "core/lack.h"
#include "core/published.h"
#include "rendezvous/text.h"

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

/* errno, if a look-up failed for want of something here; else 0. The resolver
 * does not always tell: without a descriptor for a question, no server answers.
 */
static int lack_of_lookup(int rc) {
  if (rc == EAI_MEMORY) return ENOMEM;
  if (rc == EAI_SYSTEM) return gli_lacking(errno) ? errno : 0;
  int probe = gli_socket_open(AF_INET, SOCK_DGRAM);
  if (probe < 0) return gli_lacking(errno) ? errno : 0;
  gli_fd_close(probe);
  return 0;
}

static int look_up(const char *host, const char *service,
                   struct addrinfo **found) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC,
                           .ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
  if (getaddrinfo(host, service, &hints, found) == 0) return 0;
  hints.ai_flags = AI_NUMERICSERV;
  return getaddrinfo(host, service, &hints, found);
}

gloo_status gli_tcp_resolve(const char *host, uint16_t port,
                            gli_tcp_addresses *addresses, gloo_error *error) {
  char service[8], bare[GLI_HOST_NAME_BYTES];
  struct addrinfo *found = NULL;
  snprintf(service, sizeof service, "%u", (unsigned)port);
  int rc = EAI_NONAME;
  if (gli_host_name_bare(host, bare)) rc = look_up(bare, service, &found);
  if (rc == 0) {
    take_all(found, addresses);
    freeaddrinfo(found);
    if (addresses->n > 0) return GLOO_OK;
  }
  int lack = rc != 0 ? lack_of_lookup(rc) : 0;
  if (lack != 0)
    return gli_fail(error, gli_lack_status(lack), -1,
                    "the TCP store's host '%s' cannot be looked up: %s",
                    gli_quote(host).text, gli_lack_text(lack));
  return gli_fail(
      error, GLOO_ERR_ADDRESS, -1,
      "the TCP store's host '%s' does not resolve to an address: "
      "%s",
      gli_quote(host).text,
      rc == 0 ? "it has no IPv4 or IPv6 address" : gai_strerror(rc));
}

/* ---- where to listen ----------------------------------------------------- */

static void address_add(gli_tcp_addresses *addresses,
                        const gli_endpoint *endpoint) {
  if (addresses->n == GLI_TCP_ADDRESSES_MAX) return;
  struct sockaddr_storage *to = &addresses->list[addresses->n++];
  memset(to, 0, sizeof *to);
  memcpy(to, endpoint, gli_endpoint_bytes(endpoint));
}

static bool addresses_loop_back(const gli_tcp_addresses *addresses) {
  for (size_t i = 0; i < addresses->n; i++) {
    gli_endpoint endpoint;
    memcpy(&endpoint, &addresses->list[i], sizeof endpoint);
    if (!gli_endpoint_is_loopback(&endpoint)) return false;
  }
  return true;
}

gloo_status gli_tcp_listen_at(const char *host, gli_tcp_addresses *addresses,
                              gloo_error *error) {
  gli_endpoints bound;
  gloo_status status = gli_bind_read(&bound, error);
  if (status != GLOO_OK) return status;
  if (bound.n == 0) status = gli_tcp_resolve(host, 0, addresses, error);
  if (status != GLOO_OK) return status;
  if (bound.n == 0) {
    if (!addresses_loop_back(addresses) || !gli_host_name_is_own(host))
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
