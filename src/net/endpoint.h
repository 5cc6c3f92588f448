/* IPv4 and IPv6 addresses with a port: as the system has them, and as text. */
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

/* False when it is in the list (with this port) or the list is full. */
bool gli_endpoints_add(gli_endpoints *list, const gli_endpoint *endpoint);

/* False when `from` is no address that we know of, or too long. */
bool gli_endpoint_from_socket(const struct sockaddr *from, socklen_t bytes,
                              gli_endpoint *endpoint);
/* An address in figures, as "10.0.0.1", "fe80::1%eth0" or "[::1]"; port 0. */
bool gli_endpoint_from_text(const char *text, gli_endpoint *endpoint);

socklen_t gli_endpoint_bytes(const gli_endpoint *endpoint);
uint16_t gli_endpoint_port(const gli_endpoint *endpoint);
void gli_endpoint_set_port(gli_endpoint *endpoint, uint16_t port);

/* 4 or 16 bytes in network order; `bits` is how many there are. */
const uint8_t *gli_endpoint_figures(const gli_endpoint *endpoint,
                                    unsigned *bits);

/* Scopes count for nothing: they are the same network's or unknown. */
bool gli_endpoint_same_address(const gli_endpoint *a, const gli_endpoint *b);
/* And the same port? */
bool gli_endpoint_equal(const gli_endpoint *a, const gli_endpoint *b);
/* How many of the first bits are the same; 0 for two families. */
unsigned gli_endpoint_common_bits(const gli_endpoint *a, const gli_endpoint *b);

/* No address of one host: 0.0.0.0, ::, multicast. */
bool gli_endpoint_is_wildcard(const gli_endpoint *endpoint);
/* 127.0.0.0/8, ::1 */
bool gli_endpoint_is_loopback(const gli_endpoint *endpoint);
/* 169.254.0.0/16, fe80::/10 */
bool gli_endpoint_is_link_local(const gli_endpoint *endpoint);

/* An IPv4 address in an IPv6 one (::ffff:10.0.0.1), as sockets for both have
 * them, becomes what it is. */
void gli_endpoint_unmap(gli_endpoint *endpoint);

/* "127.0.0.1:4242", "[::1]:4242", "[fe80::1%eth0]:4242"; without a port (0)
 * "127.0.0.1", "::1", "fe80::1%eth0". */
#define GLI_ENDPOINT_TEXT_BYTES 96
void gli_endpoint_text(const gli_endpoint *endpoint,
                       char text[GLI_ENDPOINT_TEXT_BYTES]);

#endif
