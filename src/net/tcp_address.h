/* Names, addresses and ports of the TCP store. */
#ifndef GLI_NET_TCP_ADDRESS_H
#define GLI_NET_TCP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "net/lookup.h"

#define GLI_TCP_ADDRESSES_MAX 8

typedef struct gli_tcp_addresses {
  size_t n;
  struct sockaddr_storage list[GLI_TCP_ADDRESSES_MAX];
} gli_tcp_addresses;

typedef struct gli_tcp_name {
  char text[80];
} gli_tcp_name;

/* Resolves `host`, which may be in brackets ("[::1]"), to all its addresses,
 * with one call of gli_look_up. Messages begin with `store`: "the TCP
 * store". */
gloo_status gli_tcp_resolve(const char *store, const char *host, uint16_t port,
                            int64_t timeout_ns, gli_tcp_addresses *addresses,
                            gloo_error *error);

/* Finds the addresses, with port 0, on which a server for `host` listens:
 * GLOO_BIND_ADDR if set, else the addresses of `host`. If `host` may be this
 * host's own name and resolves to loopback (Debian's 127.0.1.1), other hosts
 * resolve it differently, and the server listens on all addresses. */
gloo_status gli_tcp_listen_at(const char *host, int64_t timeout_ns,
                              gli_tcp_addresses *addresses, gloo_error *error);

/* Formats as "127.0.0.1:29500" or "[::1]:29500". */
gli_tcp_name gli_tcp_address_name(const struct sockaddr_storage *address);

bool gli_tcp_address_is_loopback(const struct sockaddr_storage *address);
/* Sets *here if the address belongs to this host, in this network namespace:
 * the system then reaches it from the same address. Returns 0, or the errno of
 * an exhausted resource. */
int gli_tcp_address_is_here(const struct sockaddr_storage *address, bool *here);

uint16_t gli_tcp_address_port(const struct sockaddr_storage *address);
void gli_tcp_address_set_port(struct sockaddr_storage *address, uint16_t port);

/* Replaces a server's wildcard address by loopback, for connecting to it. */
void gli_tcp_address_reachable(struct sockaddr_storage *address);

#endif
