/* From the name of a network interface to its address. */
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/lack.h"
#include "transport_tcp/address.h"

/* IPv4, then IPv6 that is good everywhere, then link-local IPv6. */
static int tcp_interface_preference(const gli_tcp_endpoint *endpoint) {
  if (endpoint->any.sa_family == AF_INET) return 3;
  return IN6_IS_ADDR_LINKLOCAL(&endpoint->v6.sin6_addr) ? 1 : 2;
}

static bool tcp_address_of(const struct ifaddrs *entry,
                           gli_tcp_endpoint *endpoint) {
  const struct sockaddr *address = entry->ifa_addr;
  if (address == NULL) return false;
  socklen_t bytes = 0;
  if (address->sa_family == AF_INET) bytes = sizeof endpoint->v4;
  if (address->sa_family == AF_INET6) bytes = sizeof endpoint->v6;
  return bytes != 0 && gli_tcp_endpoint_from_socket(address, bytes, endpoint);
}

static bool listed_before(const struct ifaddrs *list,
                          const struct ifaddrs *entry) {
  gli_tcp_endpoint unused;
  for (; list != entry; list = list->ifa_next) {
    if (tcp_address_of(list, &unused) &&
        strcmp(list->ifa_name, entry->ifa_name) == 0)
      return true;
  }
  return false;
}

static void names_of(const struct ifaddrs *list, char *text, size_t bytes) {
  size_t used = 0;
  gli_tcp_endpoint unused;
  text[0] = '\0';
  for (const struct ifaddrs *e = list; e != NULL; e = e->ifa_next) {
    if (!tcp_address_of(e, &unused) || listed_before(list, e)) continue;
    int n = snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                     e->ifa_name);
    if (n < 0 || (size_t)n >= bytes - used) return;
    used += (size_t)n;
  }
}

gloo_status gli_tcp_interface_address(const char *name, const char *origin,
                                      gli_tcp_endpoint *endpoint,
                                      gloo_error *error) {
  struct ifaddrs *list;
  if (getifaddrs(&list) != 0)
    return gli_fail(error, gli_lack_status(errno), -1,
                    "the network interfaces cannot be listed: %s",
                    gli_lack_text(errno));
  int best = 0;
  for (const struct ifaddrs *e = list; e != NULL; e = e->ifa_next) {
    gli_tcp_endpoint candidate;
    if (strcmp(e->ifa_name, name) != 0) continue;
    if (!tcp_address_of(e, &candidate)) continue;
    if (tcp_interface_preference(&candidate) <= best) continue;
    best = tcp_interface_preference(&candidate);
    *endpoint = candidate;
  }
  gloo_status status = GLOO_OK;
  if (best == 0) {
    char known[256];
    names_of(list, known, sizeof known);
    status = gli_fail(error, GLOO_ERR_NOT_FOUND, -1,
                      "no network interface \"%s\" with an address (from %s); "
                      "there are: %s",
                      name, origin, known);
  }
  freeifaddrs(list);
  return status;
}
