/* POSIX defines no interface flags (IFF_UP). */
#define _DEFAULT_SOURCE
#include "net/interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/exhaustion.h"
#include "net/socket.h"

/* Name prefixes of interfaces of container engines, hypervisors and overlay
 * networks. Other hosts cannot reach their addresses, or use the same ones. br-
 * is Docker's; br0 may be the host's own bridge. */
static const char *const internal_names[] = {
    "docker",  "br-",    "virbr",   "veth",  "cni",    "flannel", "cali",
    "tunl",    "cilium", "lxc",     "lxd",   "podman", "vmnet",   "vnet",
    "vboxnet", "kube-",  "nerdctl", "weave", "dummy",  "ovs-"};

bool gli_interface_name_is_internal(const char *name) {
  for (size_t i = 0; i < sizeof internal_names / sizeof *internal_names; i++)
    if (strncmp(name, internal_names[i], strlen(internal_names[i])) == 0)
      return true;
  return false;
}

static bool interface_endpoint(const struct sockaddr *address,
                               gli_endpoint *endpoint) {
  if (address == NULL) return false;
  socklen_t bytes = 0;
  if (address->sa_family == AF_INET) bytes = sizeof endpoint->v4;
  if (address->sa_family == AF_INET6) bytes = sizeof endpoint->v6;
  return bytes != 0 && gli_endpoint_from_socket(address, bytes, endpoint);
}

/* Returns the length of the prefix; that of an address without a netmask. */
static uint8_t interface_prefix(const struct ifaddrs *entry,
                                const gli_endpoint *own) {
  gli_endpoint mask, ones = *own;
  unsigned bits;
  (void)gli_endpoint_figures(own, &bits);
  if (!interface_endpoint(entry->ifa_netmask, &mask)) return (uint8_t)bits;
  if (own->any.sa_family == AF_INET)
    ones.v4.sin_addr.s_addr = UINT32_MAX;
  else
    memset(&ones.v6.sin6_addr, 0xff, sizeof ones.v6.sin6_addr);
  return (uint8_t)gli_endpoint_common_bits(&mask, &ones);
}

static bool interface_take(const struct ifaddrs *entry, gli_interface *out) {
  const unsigned alive = IFF_UP | IFF_RUNNING;
  memset(out, 0, sizeof *out);
  if (!interface_endpoint(entry->ifa_addr, &out->at)) return false;
  gli_endpoint_set_port(&out->at, 0);
  if (gli_endpoint_is_wildcard(&out->at)) return false;
  (void)snprintf(out->name, sizeof out->name, "%s", entry->ifa_name);
  out->prefix = interface_prefix(entry, &out->at);
  out->up = (entry->ifa_flags & alive) == alive;
  out->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0 ||
                  gli_endpoint_is_loopback(&out->at);
  out->internal = gli_interface_name_is_internal(out->name);
  return true;
}

gloo_status gli_interfaces_read(gli_interfaces *out, gloo_error *error) {
  struct ifaddrs *entries;
  size_t n = 0;
  if (getifaddrs(&entries) != 0)
    return gli_fail(error, gli_exhaustion_status(errno), -1,
                    "cannot list the network interfaces: %s",
                    gli_exhaustion_text(errno));
  for (const struct ifaddrs *e = entries; e != NULL; e = e->ifa_next) n++;
  gli_interface *list = calloc(n > 0 ? n : 1, sizeof *list);
  *out = (gli_interfaces){0, list};
  for (const struct ifaddrs *e = entries; e != NULL && list != NULL;
       e = e->ifa_next)
    if (interface_take(e, &list[out->n])) out->n++;
  freeifaddrs(entries);
  if (list != NULL) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                  "no memory for a list of the network interfaces");
}

void gli_interfaces_free(gli_interfaces *interfaces) {
  free(interfaces->list);
  *interfaces = (gli_interfaces){0, NULL};
}

const gli_interface *gli_interfaces_find(const gli_interfaces *interfaces,
                                         const gli_endpoint *address) {
  for (size_t i = 0; i < interfaces->n; i++) {
    const gli_endpoint *at = &interfaces->list[i].at;
    if (!gli_endpoint_same_address(at, address)) continue;
    /* Several interfaces may have the same link-local address. */
    if (at->any.sa_family != AF_INET6 || address->v6.sin6_scope_id == 0 ||
        at->v6.sin6_scope_id == address->v6.sin6_scope_id)
      return &interfaces->list[i];
  }
  return NULL;
}

/* ---- as text ------------------------------------------------------------- */

static bool interface_named_before(const gli_interfaces *all, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (strcmp(all->list[k].name, all->list[i].name) == 0) return true;
  return false;
}

/* Appends an interface with its addresses. Returns false if it does not fit. */
static bool interface_append(const gli_interfaces *all, size_t i, char *text,
                             size_t room) {
  char one[GLI_INTERFACES_TEXT_BYTES], address[GLI_ENDPOINT_TEXT_BYTES];
  size_t used = strlen(text);
  int bytes = snprintf(one, sizeof one, "%s%s", used > 0 ? ", " : "",
                       all->list[i].name);
  for (size_t k = i; k < all->n; k++) {
    if (strcmp(all->list[k].name, all->list[i].name) != 0) continue;
    gli_endpoint_text(&all->list[k].at, address);
    if (bytes > 0 && (size_t)bytes < sizeof one)
      bytes +=
          snprintf(one + bytes, sizeof one - (size_t)bytes, " %s", address);
  }
  if (bytes < 0 || used + (size_t)bytes + sizeof " (down)" > room) return false;
  (void)snprintf(text + used, room - used, "%s%s", one,
                 all->list[i].up ? "" : " (down)");
  return true;
}

void gli_interfaces_text(const gli_interfaces *interfaces,
                         char text[GLI_INTERFACES_TEXT_BYTES]) {
  static const char more[] = " ...";
  const size_t room = GLI_INTERFACES_TEXT_BYTES - sizeof more;
  text[0] = '\0';
  for (size_t i = 0; i < interfaces->n; i++) {
    if (interface_named_before(interfaces, i)) continue;
    if (interface_append(interfaces, i, text, room)) continue;
    memcpy(text + strlen(text), more, sizeof more);
    return;
  }
  if (text[0] == '\0') memcpy(text, "none", sizeof "none");
}

/* ---- the way to an address ----------------------------------------------- */

void gli_interfaces_way(const gli_interfaces *interfaces,
                        const gli_endpoint *to, char text[GLI_WAY_BYTES]) {
  gli_endpoint from;
  char at[GLI_ENDPOINT_TEXT_BYTES];
  text[0] = '\0';
  if (gli_endpoint_is_loopback(to) || gli_tcp_socket_source(to, &from) != 0 ||
      gli_endpoint_same_address(&from, to))
    return;
  const gli_interface *one = gli_interfaces_find(interfaces, &from);
  gli_endpoint_set_port(&from, 0);
  gli_endpoint_text(&from, at);
  (void)snprintf(text, GLI_WAY_BYTES, " from %s%s%s", at,
                 one != NULL ? " on " : "", one != NULL ? one->name : "");
}

/* A host without IPv6 networks still has link-local addresses. */
const char *gli_interfaces_lack(const gli_interfaces *interfaces,
                                const gli_endpoint *to) {
  for (size_t i = 0; i < interfaces->n; i++) {
    const gli_interface *one = &interfaces->list[i];
    if (one->up && !one->loopback &&
        one->at.any.sa_family == to->any.sa_family &&
        (!gli_endpoint_is_link_local(&one->at) ||
         gli_endpoint_is_link_local(to)))
      return NULL;
  }
  return to->any.sa_family == AF_INET6
             ? "this host has no IPv6 network: use IPv4 addresses, or add one"
             : "this host has no IPv4 network: use IPv6 addresses, or add one";
}
