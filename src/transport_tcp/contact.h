/* What a TCP end point publishes, and in which order another one goes through
 * it. */
#ifndef GLI_TRANSPORT_TCP_CONTACT_H
#define GLI_TRANSPORT_TCP_CONTACT_H

#include <stdbool.h>

#include "net/endpoint.h"
#include "net/interfaces.h"
#include "transport/transport.h"

/* All addresses have one port. */
enum { GLI_TCP_CONTACT_MAX = 8 };
typedef struct gli_tcp_contact {
  uint64_t place; /* see gli_host_place */
  uint16_t port;
  bool checksum;   /* messages are to have them */
  bool everywhere; /* it listens on all addresses of its host */
  bool translated; /* others were told what is not an address of its host */
  bool verbs;      /* it goes by RDMA where both ends can */
  uint32_t n;
  gli_endpoint at[GLI_TCP_CONTACT_MAX]; /* the best first; ports as `port` */
} gli_tcp_contact;

void gli_tcp_contact_encode(const gli_tcp_contact *contact,
                            gli_address *address);
/* False when the bytes are nothing of that kind. Scopes are 0: they mean
 * nothing elsewhere. */
bool gli_tcp_contact_decode(const gli_address *address,
                            gli_tcp_contact *contact);

/* order.c: what to connect to, the best first, with ports; at least one. Seen
 * from `place`, where the interfaces are `own`.
 * In the same place: the contact's order, and loopback where only that is sure
 * to reach it. Elsewhere: addresses in a network that this host is in; then the
 * others, first those that share 16 bits or more (IPv6: 48) with one of ours,
 * by how many; then link-local ones, by each interface that they may be at;
 * last what cannot be meant: loopback, addresses that this host has itself, and
 * families of which it has none. Within each the contact's order. */
void gli_tcp_order(const gli_tcp_contact *contact, uint64_t place,
                   const gli_interfaces *own, gli_endpoints *out);

#endif
