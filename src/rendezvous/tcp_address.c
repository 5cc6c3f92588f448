#include "rendezvous/tcp_address.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "rendezvous/text.h"

static void take_all(const struct addrinfo *found,
                     gli_tcp_addresses *addresses) {
  addresses->n = 0;
  for (; found != NULL && addresses->n < GLI_TCP_ADDRESSES_MAX;
       found = found->ai_next) {
    if (found->ai_family != AF_INET && found->ai_family != AF_INET6) continue;
    if (found->ai_addrlen > sizeof(addresses->list[0])) continue;
    memset(&addresses->list[addresses->n], 0, sizeof(addresses->list[0]));
    memcpy(&addresses->list[addresses->n], found->ai_addr, found->ai_addrlen);
    addresses->n++;
  }
}

gloo_status gli_tcp_resolve(const char *host, uint16_t port,
                            gli_tcp_addresses *addresses, gloo_error *error) {
  char service[8];
  uv_loop_t loop;
  uv_getaddrinfo_t request;
  const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                 .ai_socktype = SOCK_STREAM};
  snprintf(service, sizeof(service), "%u", (unsigned)port);
  int rc = uv_loop_init(&loop);
  if (rc != 0)
    return gli_fail(error, GLOO_ERR_IO, -1, "cannot make an event loop: %s",
                    uv_strerror(rc));
  rc = uv_getaddrinfo(&loop, &request, NULL, host, service, &hints);
  if (rc == 0) {
    take_all(request.addrinfo, addresses);
    uv_freeaddrinfo(request.addrinfo);
  }
  uv_loop_close(&loop);
  if (rc == 0 && addresses->n > 0) return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_ADDRESS, -1,
      "the TCP store's host '%s' does not resolve to an address: %s",
      gli_quote(host).text,
      rc == 0 ? "it has no IPv4 or IPv6 address" : uv_strerror(rc));
}

gli_tcp_name gli_tcp_address_name(const struct sockaddr_storage *address) {
  gli_tcp_name name;
  char host[INET6_ADDRSTRLEN + 1] = "?";
  unsigned port = gli_tcp_address_port(address);
  if (address->ss_family == AF_INET6) {
    uv_ip6_name((const struct sockaddr_in6 *)address, host, sizeof(host));
    snprintf(name.text, sizeof(name.text), "[%s]:%u", host, port);
  } else {
    uv_ip4_name((const struct sockaddr_in *)address, host, sizeof(host));
    snprintf(name.text, sizeof(name.text), "%s:%u", host, port);
  }
  return name;
}

uint16_t gli_tcp_address_port(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET6)
    return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
  return ntohs(((const struct sockaddr_in *)address)->sin_port);
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

void gli_tcp_hang_up(const uv_tcp_t *tcp) {
  uv_os_fd_t fd;
  if (uv_fileno((const uv_handle_t *)tcp, &fd) == 0)
    (void)shutdown(fd, SHUT_RDWR);
}
