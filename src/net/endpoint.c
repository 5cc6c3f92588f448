#include "net/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V4_BITS = 32, V6_BITS = 128 };

static bool endpoint_is_v6(const gli_endpoint *endpoint) {
  return endpoint->any.sa_family == AF_INET6;
}

bool gli_endpoints_add(gli_endpoints *list, const gli_endpoint *endpoint) {
  for (uint32_t i = 0; i < list->n; i++)
    if (gli_endpoint_equal(&list->at[i], endpoint) &&
        (!endpoint_is_v6(endpoint) ||
         list->at[i].v6.sin6_scope_id == endpoint->v6.sin6_scope_id))
      return false;
  if (list->n == GLI_ENDPOINTS_MAX) return false;
  list->at[list->n++] = *endpoint;
  return true;
}

bool gli_endpoint_from_socket(const struct sockaddr *from, socklen_t bytes,
                              gli_endpoint *endpoint) {
  if (bytes > sizeof *endpoint) return false;
  if (from->sa_family != AF_INET && from->sa_family != AF_INET6) return false;
  memset(endpoint, 0, sizeof *endpoint);
  memcpy(endpoint, from, bytes);
  return bytes >= gli_endpoint_bytes(endpoint);
}

/* Parses the name of an interface of this host, or its number. */
static bool endpoint_read_scope(const char *text, uint32_t *scope) {
  *scope = if_nametoindex(text);
  if (*scope != 0) return true;
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0') return false;
  *scope = (uint32_t)number;
  return number > 0 && number <= UINT32_MAX;
}

bool gli_endpoint_from_text(const char *text, gli_endpoint *endpoint) {
  char bare[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
  size_t bytes = strlen(text);
  bool brackets = bytes > 2 && text[0] == '[' && text[bytes - 1] == ']';
  if (brackets) text++, bytes -= 2;
  if (bytes >= sizeof bare) return false;
  memcpy(bare, text, bytes);
  bare[bytes] = '\0';
  gli_endpoint made;
  memset(&made, 0, sizeof made);
  char *scope = strchr(bare, '%');
  if (scope != NULL) *scope++ = '\0';
  if (inet_pton(AF_INET6, bare, &made.v6.sin6_addr) == 1) {
    uint32_t number = 0;
    made.v6.sin6_family = AF_INET6;
    if (scope != NULL && !endpoint_read_scope(scope, &number)) return false;
    made.v6.sin6_scope_id = number;
  } else if (!brackets && scope == NULL &&
             inet_pton(AF_INET, bare, &made.v4.sin_addr) == 1) {
    made.v4.sin_family = AF_INET;
  } else {
    return false;
  }
  *endpoint = made;
  return true;
}

socklen_t gli_endpoint_bytes(const gli_endpoint *endpoint) {
  return endpoint_is_v6(endpoint) ? sizeof endpoint->v6 : sizeof endpoint->v4;
}

uint16_t gli_endpoint_port(const gli_endpoint *endpoint) {
  return ntohs(endpoint_is_v6(endpoint) ? endpoint->v6.sin6_port
                                        : endpoint->v4.sin_port);
}

void gli_endpoint_set_port(gli_endpoint *endpoint, uint16_t port) {
  if (endpoint_is_v6(endpoint))
    endpoint->v6.sin6_port = htons(port);
  else
    endpoint->v4.sin_port = htons(port);
}

const uint8_t *gli_endpoint_figures(const gli_endpoint *endpoint,
                                    unsigned *bits) {
  *bits = endpoint_is_v6(endpoint) ? V6_BITS : V4_BITS;
  return endpoint_is_v6(endpoint) ? endpoint->v6.sin6_addr.s6_addr
                                  : (const uint8_t *)&endpoint->v4.sin_addr;
}

unsigned gli_endpoint_common_bits(const gli_endpoint *a,
                                  const gli_endpoint *b) {
  if (a->any.sa_family != b->any.sa_family) return 0;
  unsigned bits, same = 0;
  const uint8_t *x = gli_endpoint_figures(a, &bits);
  const uint8_t *y = gli_endpoint_figures(b, &bits);
  while (same < bits && x[same / 8] == y[same / 8]) same += 8;
  if (same >= bits) return bits;
  unsigned differ = (unsigned)(x[same / 8] ^ y[same / 8]);
  for (unsigned bit = 0x80; (differ & bit) == 0; bit >>= 1) same++;
  return same;
}

bool gli_endpoint_same_address(const gli_endpoint *a, const gli_endpoint *b) {
  unsigned bits;
  (void)gli_endpoint_figures(a, &bits);
  return a->any.sa_family == b->any.sa_family &&
         gli_endpoint_common_bits(a, b) == bits;
}

bool gli_endpoint_equal(const gli_endpoint *a, const gli_endpoint *b) {
  return gli_endpoint_port(a) == gli_endpoint_port(b) &&
         gli_endpoint_same_address(a, b);
}

bool gli_endpoint_is_wildcard(const gli_endpoint *endpoint) {
  if (!endpoint_is_v6(endpoint)) {
    uint32_t ip = ntohl(endpoint->v4.sin_addr.s_addr);
    return ip == 0 || (ip >> 28) >= 14;
  }
  const struct in6_addr *ip = &endpoint->v6.sin6_addr;
  return IN6_IS_ADDR_UNSPECIFIED(ip) || IN6_IS_ADDR_MULTICAST(ip);
}

bool gli_endpoint_is_loopback(const gli_endpoint *endpoint) {
  if (endpoint_is_v6(endpoint))
    return IN6_IS_ADDR_LOOPBACK(&endpoint->v6.sin6_addr);
  return ntohl(endpoint->v4.sin_addr.s_addr) >> 24 == 127;
}

bool gli_endpoint_is_link_local(const gli_endpoint *endpoint) {
  if (endpoint_is_v6(endpoint))
    return IN6_IS_ADDR_LINKLOCAL(&endpoint->v6.sin6_addr);
  return ntohl(endpoint->v4.sin_addr.s_addr) >> 16 == 0xa9fe;
}

void gli_endpoint_unmap(gli_endpoint *endpoint) {
  if (!endpoint_is_v6(endpoint) ||
      !IN6_IS_ADDR_V4MAPPED(&endpoint->v6.sin6_addr))
    return;
  gli_endpoint plain;
  memset(&plain, 0, sizeof plain);
  plain.v4.sin_family = AF_INET;
  plain.v4.sin_port = endpoint->v6.sin6_port;
  memcpy(&plain.v4.sin_addr, endpoint->v6.sin6_addr.s6_addr + 12, 4);
  *endpoint = plain;
}

/* Formats a scope as "%eth0", or as "%7" if the interface no longer exists. */
static void endpoint_scope_text(uint32_t scope, char text[IF_NAMESIZE + 12]) {
  char name[IF_NAMESIZE];
  text[0] = '\0';
  if (scope == 0) return;
  if (if_indextoname(scope, name) != NULL)
    (void)snprintf(text, IF_NAMESIZE + 12, "%%%s", name);
  else
    (void)snprintf(text, IF_NAMESIZE + 12, "%%%lu", (unsigned long)scope);
}

void gli_endpoint_text(const gli_endpoint *endpoint,
                       char text[GLI_ENDPOINT_TEXT_BYTES]) {
  char ip[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 12] = "";
  bool v6 = endpoint_is_v6(endpoint);
  unsigned port = gli_endpoint_port(endpoint);
  if (v6) {
    inet_ntop(AF_INET6, &endpoint->v6.sin6_addr, ip, sizeof ip);
    endpoint_scope_text(endpoint->v6.sin6_scope_id, scope);
  } else {
    inet_ntop(AF_INET, &endpoint->v4.sin_addr, ip, sizeof ip);
  }
  if (port == 0)
    (void)snprintf(text, GLI_ENDPOINT_TEXT_BYTES, "%s%s", ip, scope);
  else
    (void)snprintf(text, GLI_ENDPOINT_TEXT_BYTES, "%s%s%s%s:%u", v6 ? "[" : "",
                   ip, scope, v6 ? "]" : "", port);
}
