/* Names, addresses and ports of the TCP store. */
#ifndef GLI_RENDEZVOUS_TCP_ADDRESS_H
#define GLI_RENDEZVOUS_TCP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"
#include "core/lookup.h"

#define GLI_TCP_ADDRESSES_MAX 8

typedef struct gli_tcp_addresses {
  size_t n;
  struct sockaddr_storage list[GLI_TCP_ADDRESSES_MAX];
} gli_tcp_addresses;

typedef struct gli_tcp_name {
  char text[80];
} gli_tcp_name;

/* All addresses of `host`, looked up once, as gli_look_up does. `store` is "the
 * TCP store", or what it is in messages. */
gloo_status gli_tcp_resolve(const char *store, const char *host, uint16_t port,
                            int64_t timeout_ns, gli_tcp_addresses *addresses,
                            gloo_error *error);

/* "127.0.0.1:29500" or "[::1]:29500". */
gli_tcp_name gli_tcp_address_name(const struct sockaddr_storage *address);

uint16_t gli_tcp_address_port(const struct sockaddr_storage *address);

/* Where to connect to in order to reach a server bound there: the loopback
 * address if it is bound to all. */
void gli_tcp_address_reachable(struct sockaddr_storage *address);

#endif
