/* An encoded address: family (4 or 6), checksum, two zero bytes, port, scope
 * (both 32 bits, little endian), then 4 or 16 bytes of address in network
 * order. */
#include "transport_tcp/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "core/bytes.h"

enum { PREFIX_BYTES = 12, V4_BYTES = 4, V6_BYTES = 16 };

socklen_t gli_tcp_endpoint_bytes(const gli_tcp_endpoint *endpoint) {
  return endpoint->any.sa_family == AF_INET6 ? sizeof endpoint->v6
                                             : sizeof endpoint->v4;
}

uint16_t gli_tcp_endpoint_port(const gli_tcp_endpoint *endpoint) {
  bool v6 = endpoint->any.sa_family == AF_INET6;
  return ntohs(v6 ? endpoint->v6.sin6_port : endpoint->v4.sin_port);
}

void gli_tcp_endpoint_set_port(gli_tcp_endpoint *endpoint, uint16_t port) {
  if (endpoint->any.sa_family == AF_INET6)
    endpoint->v6.sin6_port = htons(port);
  else
    endpoint->v4.sin_port = htons(port);
}

bool gli_tcp_endpoint_equal(const gli_tcp_endpoint *a,
                            const gli_tcp_endpoint *b) {
  return gli_tcp_endpoint_port(a) == gli_tcp_endpoint_port(b) &&
         gli_tcp_endpoint_same_address(a, b);
}

bool gli_tcp_endpoint_same_address(const gli_tcp_endpoint *a,
                                   const gli_tcp_endpoint *b) {
  if (a->any.sa_family != b->any.sa_family) return false;
  if (a->any.sa_family == AF_INET)
    return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
  return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, V6_BYTES) == 0;
}

bool gli_tcp_endpoint_is_wildcard(const gli_tcp_endpoint *endpoint) {
  if (endpoint->any.sa_family == AF_INET) {
    uint32_t ip = ntohl(endpoint->v4.sin_addr.s_addr);
    return ip == 0 || (ip >> 28) >= 14;
  }
  const struct in6_addr *ip = &endpoint->v6.sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(ip) || IN6_IS_ADDR_MULTICAST(ip);
}

bool gli_tcp_endpoint_from_socket(const struct sockaddr *from, socklen_t bytes,
                                  gli_tcp_endpoint *endpoint) {
  if (bytes > sizeof *endpoint) return false;
  if (from->sa_family != AF_INET && from->sa_family != AF_INET6) return false;
  memset(endpoint, 0, sizeof *endpoint);
  memcpy(endpoint, from, bytes);
  return bytes >= gli_tcp_endpoint_bytes(endpoint);
}

void gli_tcp_endpoint_text(const gli_tcp_endpoint *endpoint,
                           char text[GLI_TCP_TEXT_BYTES]) {
  char ip[INET6_ADDRSTRLEN] = "?";
  unsigned port = gli_tcp_endpoint_port(endpoint);
  if (endpoint->any.sa_family == AF_INET) {
    inet_ntop(AF_INET, &endpoint->v4.sin_addr, ip, sizeof ip);
    snprintf(text, GLI_TCP_TEXT_BYTES, "%s:%u", ip, port);
    return;
  }
  inet_ntop(AF_INET6, &endpoint->v6.sin6_addr, ip, sizeof ip);
  unsigned long scope = endpoint->v6.sin6_scope_id;
  if (scope != 0)
    snprintf(text, GLI_TCP_TEXT_BYTES, "[%s%%%lu]:%u", ip, scope, port);
  else
    snprintf(text, GLI_TCP_TEXT_BYTES, "[%s]:%u", ip, port);
}

void gli_tcp_address_encode(const gli_tcp_endpoint *endpoint,
                            gli_address *address) {
  bool v6 = endpoint->any.sa_family == AF_INET6;
  memset(address, 0, sizeof *address);
  address->data[0] = v6 ? 6 : 4;
  gli_put_u32(address->data + 4, gli_tcp_endpoint_port(endpoint));
  uint8_t *ip = address->data + PREFIX_BYTES;
  if (v6) {
    gli_put_u32(address->data + 8, endpoint->v6.sin6_scope_id);
    memcpy(ip, &endpoint->v6.sin6_addr, V6_BYTES);
    address->bytes = PREFIX_BYTES + V6_BYTES;
  } else {
    memcpy(ip, &endpoint->v4.sin_addr, V4_BYTES);
    address->bytes = PREFIX_BYTES + V4_BYTES;
  }
}

bool gli_tcp_address_decode(const gli_address *address,
                            const gli_tcp_endpoint *local,
                            gli_tcp_endpoint *endpoint) {
  if (address->bytes < PREFIX_BYTES) return false;
  const uint8_t *data = address->data, *ip = data + PREFIX_BYTES;
  uint32_t port = gli_get_u32(data + 4);
  if (port == 0 || port > UINT16_MAX) return false;
  if (data[GLI_TCP_ADDRESS_CHECKSUM] > 1) return false;
  if (data[2] != 0 || data[3] != 0) return false;
  memset(endpoint, 0, sizeof *endpoint);
  if (data[0] == 4) {
    if (address->bytes != PREFIX_BYTES + V4_BYTES) return false;
    endpoint->v4.sin_family = AF_INET;
    memcpy(&endpoint->v4.sin_addr, ip, V4_BYTES);
  } else if (data[0] == 6) {
    if (address->bytes != PREFIX_BYTES + V6_BYTES) return false;
    endpoint->v6.sin6_family = AF_INET6;
    memcpy(&endpoint->v6.sin6_addr, ip, V6_BYTES);
    endpoint->v6.sin6_scope_id = gli_get_u32(data + 8);
    if (IN6_IS_ADDR_LINKLOCAL(&endpoint->v6.sin6_addr) &&
        local->any.sa_family == AF_INET6 && local->v6.sin6_scope_id != 0)
      endpoint->v6.sin6_scope_id = local->v6.sin6_scope_id;
  } else {
    return false;
  }
  gli_tcp_endpoint_set_port(endpoint, (uint16_t)port);
  return !gli_tcp_endpoint_is_wildcard(endpoint);
}
