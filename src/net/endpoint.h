/* IPv4 and IPv6 addresses with a port, in the system's form and as text. */
#ifndef GLI_NET_ENDPOINT_H
#define GLI_NET_ENDPOINT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

typedef union gli_endpoint {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} gli_endpoint;

/* A bounded list. */
#define GLI_ENDPOINTS_MAX 16
typedef struct gli_endpoints {
  uint32_t n;
  gli_endpoint at[GLI_ENDPOINTS_MAX];
} gli_endpoints;

/* Returns false if the list has the address with this port, or is full. */
bool gli_endpoints_add(gli_endpoints *list, const gli_endpoint *endpoint);

/* Returns false if `from` is too long, or neither IPv4 nor IPv6. */
bool gli_endpoint_from_socket(const struct sockaddr *from, socklen_t bytes,
                              gli_endpoint *endpoint);
/* Parses "10.0.0.1", "fe80::1%eth0", "[::1]" and the like; the port is 0. */
bool gli_endpoint_from_text(const char *text, gli_endpoint *endpoint);

socklen_t gli_endpoint_bytes(const gli_endpoint *endpoint);
uint16_t gli_endpoint_port(const gli_endpoint *endpoint);
void gli_endpoint_set_port(gli_endpoint *endpoint, uint16_t port);

/* Returns the address in network byte order; `bits` is 32 or 128. */
const uint8_t *gli_endpoint_figures(const gli_endpoint *endpoint,
                                    unsigned *bits);

/* Returns true if the addresses are equal. Scopes are ignored: they belong to
 * the same network or are unknown. */
bool gli_endpoint_same_address(const gli_endpoint *a, const gli_endpoint *b);
/* Returns true if the ports are equal, too. */
bool gli_endpoint_equal(const gli_endpoint *a, const gli_endpoint *b);
/* Returns the number of leading bits in common; 0 if the families differ. */
unsigned gli_endpoint_common_bits(const gli_endpoint *a, const gli_endpoint *b);

/* Returns true for addresses that stand for more than one host or interface:
 * 0.0.0.0, ::, multicast. */
bool gli_endpoint_is_wildcard(const gli_endpoint *endpoint);
/* Returns true for 127.0.0.0/8 and ::1. */
bool gli_endpoint_is_loopback(const gli_endpoint *endpoint);
/* Returns true for 169.254.0.0/16 and fe80::/10. */
bool gli_endpoint_is_link_local(const gli_endpoint *endpoint);

/* Converts an IPv4-mapped IPv6 address (::ffff:10.0.0.1) to IPv4. */
void gli_endpoint_unmap(gli_endpoint *endpoint);

/* Formats as "127.0.0.1:4242", "[::1]:4242" or "[fe80::1%eth0]:4242"; without a
 * port (0) as "127.0.0.1", "::1" or "fe80::1%eth0". */
#define GLI_ENDPOINT_TEXT_BYTES 96
void gli_endpoint_text(const gli_endpoint *endpoint,
                       char text[GLI_ENDPOINT_TEXT_BYTES]);

#endif
