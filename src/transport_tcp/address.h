/* IPv4 and IPv6 end points: as socket addresses, as opaque bytes, as text. */
#ifndef GLI_TRANSPORT_TCP_ADDRESS_H
#define GLI_TRANSPORT_TCP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "transport/transport.h"

#define GLI_TCP_TEXT_BYTES 80

/* Where an address says whether messages are to have checksums: 1 or 0. It is 0
 * as it is encoded. */
enum { GLI_TCP_ADDRESS_CHECKSUM = 1 };

typedef union gli_tcp_endpoint {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} gli_tcp_endpoint;

socklen_t gli_tcp_endpoint_bytes(const gli_tcp_endpoint *endpoint);
uint16_t gli_tcp_endpoint_port(const gli_tcp_endpoint *endpoint);
void gli_tcp_endpoint_set_port(gli_tcp_endpoint *endpoint, uint16_t port);
bool gli_tcp_endpoint_same_address(const gli_tcp_endpoint *a,
                                   const gli_tcp_endpoint *b);
/* And the same port? */
bool gli_tcp_endpoint_equal(const gli_tcp_endpoint *a,
                            const gli_tcp_endpoint *b);
/* No address of one host: 0.0.0.0, ::, multicast. */
bool gli_tcp_endpoint_is_wildcard(const gli_tcp_endpoint *endpoint);

/* False when `from` is no address that we know of, or too long. */
bool gli_tcp_endpoint_from_socket(const struct sockaddr *from, socklen_t bytes,
                                  gli_tcp_endpoint *endpoint);

/* "127.0.0.1:4242", "[::1]:4242" */
void gli_tcp_endpoint_text(const gli_tcp_endpoint *endpoint,
                           char text[GLI_TCP_TEXT_BYTES]);

void gli_tcp_address_encode(const gli_tcp_endpoint *endpoint,
                            gli_address *address);
/* False when the bytes are no TCP address. Link-local addresses of other hosts
 * are given the scope of `local`: scopes mean nothing elsewhere. */
bool gli_tcp_address_decode(const gli_address *address,
                            const gli_tcp_endpoint *local,
                            gli_tcp_endpoint *endpoint);

/* interface.c: the best address of a network interface. GLOO_ERR_NOT_FOUND
 * lists those that there are. `origin` says where the name was given. */
gloo_status gli_tcp_interface_address(const char *name, const char *origin,
                                      gli_tcp_endpoint *endpoint,
                                      gloo_error *error);

#endif
