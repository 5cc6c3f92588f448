#include "rendezvous/host_addresses.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

/* fe80::/10: of use only with the name of an interface of the one who asks. */
static bool host_is_link_local(const struct sockaddr_in6 *v6) {
  return v6->sin6_addr.s6_addr[0] == 0xfe &&
         (v6->sin6_addr.s6_addr[1] & 0xc0) == 0x80;
}

static bool host_address_text(const uv_interface_address_t *found,
                              char text[64]) {
  const struct sockaddr_in6 *v6 = &found->address.address6;
  if (found->address.address4.sin_family == AF_INET)
    return uv_ip4_name(&found->address.address4, text, 64) == 0;
  return v6->sin6_family == AF_INET6 && !host_is_link_local(v6) &&
         uv_ip6_name(v6, text, 64) == 0;
}

size_t gli_host_addresses(char (*addresses)[64], size_t max) {
  uv_interface_address_t *list;
  int n_found;
  size_t n = 0;
  if (uv_interface_addresses(&list, &n_found) != 0) n_found = 0;
  for (int loopback = 0; loopback <= 1; loopback++)
    for (int i = 0; i < n_found && n < max; i++) {
      if (list[i].is_internal != loopback) continue;
      if (host_address_text(&list[i], addresses[n])) n++;
    }
  if (n_found > 0) uv_free_interface_addresses(list, n_found);
  if (n == 0 && max > 0) strcpy(addresses[n++], "127.0.0.1");
  return n;
}
