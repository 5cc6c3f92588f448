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

/* All addresses of `host`, which may be in brackets ("[::1]"), looked up once,
 * as gli_look_up does. `store` is "the TCP store", or what it is in messages.
 */
gloo_status gli_tcp_resolve(const char *store, const char *host, uint16_t port,
                            int64_t timeout_ns, gli_tcp_addresses *addresses,
                            gloo_error *error);

/* Where a server for `host` is to listen, with port 0: what GLOO_BIND_ADDR
 * says, or else at the addresses of `host`. If that is what this host calls
 * itself, and to it means loopback (as /etc/hosts has it on Debian), others
 * know better, and it is to listen at all. */
gloo_status gli_tcp_listen_at(const char *host, int64_t timeout_ns,
                              gli_tcp_addresses *addresses, gloo_error *error);

/* "127.0.0.1:29500" or "[::1]:29500". */
gli_tcp_name gli_tcp_address_name(const struct sockaddr_storage *address);

bool gli_tcp_address_is_loopback(const struct sockaddr_storage *address);
/* *here: does a process of this host, in this network namespace, have it? That
 * is what the system says it would reach it from: from itself. 0; or errno of
 * what this process lacks to ask. */
int gli_tcp_address_is_here(const struct sockaddr_storage *address, bool *here);
/* All addresses of the host. */
bool gli_tcp_address_is_wildcard(const struct sockaddr_storage *address);

uint16_t gli_tcp_address_port(const struct sockaddr_storage *address);
void gli_tcp_address_set_port(struct sockaddr_storage *address, uint16_t port);

/* Where to connect to in order to reach a server bound there: the loopback
 * address if it is bound to all. */
void gli_tcp_address_reachable(struct sockaddr_storage *address);

#endif
