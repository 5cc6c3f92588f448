/* Published addresses of a TCP end point, and the order of trying them. */
#ifndef GLI_TRANSPORT_TCP_CONTACT_H
#define GLI_TRANSPORT_TCP_CONTACT_H

#include <stdbool.h>

#include "net/endpoint.h"
#include "net/interfaces.h"
#include "transport/transport.h"

/* Maximum number of addresses. All have the same port. */
enum { GLI_TCP_CONTACT_MAX = 8 };
typedef struct gli_tcp_contact {
  uint64_t place; /* host and network namespace, see gli_host_place */
  uint16_t port;
  bool checksum;   /* true if messages must have checksums */
  bool everywhere; /* true if it listens on all addresses of its host */
  bool translated; /* true if the published addresses are not its host's */
  bool verbs;      /* true if it uses RDMA when both ends can */
  uint32_t n;
  gli_endpoint at[GLI_TCP_CONTACT_MAX]; /* best first, with `port` */
} gli_tcp_contact;

void gli_tcp_contact_encode(const gli_tcp_contact *contact,
                            gli_address *address);
/* Returns false if the bytes are not an encoded contact. Scopes are 0, because
 * they are only valid on one host. */
bool gli_tcp_contact_decode(const gli_address *address,
                            gli_tcp_contact *contact);

/* order.c: orders the addresses to connect to, with ports, best first; at least
 * one. `place` and `own` are the place and the interfaces of this host.
 *
 * In the same place: the contact's order, with loopback if only that is certain
 * to work. Elsewhere: addresses in a network of this host; then others, first
 * those that share 16 bits or more (IPv6: 48) with one of ours, the most bits
 * first; then link-local ones, once for each interface that may reach them;
 * last the unlikely ones: loopback, addresses that this host has itself, and
 * families of which it has no address. Each group keeps the contact's order. */
void gli_tcp_order(const gli_tcp_contact *contact, uint64_t place,
                   const gli_interfaces *own, gli_endpoints *out);

#endif
