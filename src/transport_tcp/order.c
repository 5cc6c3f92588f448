/* Order of trying the addresses of a peer, in the spirit of RFC 6724. Addresses
 * in a network of ours are likely to be reached over the intended wire; those
 * that are also ours, or of a family without an address here, are not. The
 * first address of a contact has reached the store, or was given first. */
#include <string.h>

#include "transport_tcp/contact.h"

/* Minimum of a common site: private networks of two sites may begin alike. */
enum { ORDER_SITE_V4 = 16, ORDER_SITE_V6 = 48 };

typedef enum order_class {
  ORDER_ON_LINK,
  ORDER_ROUTED,
  ORDER_LINK_LOCAL,
  ORDER_UNLIKELY
} order_class;

typedef struct order_entry {
  gli_endpoint at;
  order_class class;
  unsigned common; /* length of the common prefix, per mille of the address */
} order_entry;

static bool order_usable(const gli_interface *one) {
  return one->up && !one->loopback;
}

/* Returns true if this host has an address of the family. IPv6 link-local ones
 * do not count: every host has some, and they reach only their own kind. */
static bool order_has_family(const gli_interfaces *own,
                             const gli_endpoint *at) {
  for (size_t i = 0; i < own->n; i++) {
    const gli_interface *one = &own->list[i];
    if (order_usable(one) && one->at.any.sa_family == at->any.sa_family &&
        !gli_endpoint_is_link_local(&one->at))
      return true;
  }
  return false;
}

static order_class order_class_of(const gli_tcp_contact *contact,
                                  const gli_interfaces *own, order_entry *e) {
  if (!contact->translated && (gli_endpoint_is_loopback(&e->at) ||
                               gli_interfaces_find(own, &e->at) != NULL))
    return ORDER_UNLIKELY;
  if (gli_endpoint_is_link_local(&e->at)) return ORDER_LINK_LOCAL;
  unsigned bits;
  (void)gli_endpoint_figures(&e->at, &bits);
  for (size_t i = 0; i < own->n; i++) {
    const gli_interface *one = &own->list[i];
    unsigned common = gli_endpoint_common_bits(&one->at, &e->at);
    if (!order_usable(one) || one->internal) continue;
    if (one->at.any.sa_family != e->at.any.sa_family) continue;
    if (common >= one->prefix && one->prefix > 0 && one->prefix < bits)
      return ORDER_ON_LINK;
    if (common < (bits == 32 ? ORDER_SITE_V4 : ORDER_SITE_V6)) continue;
    if (common * 1000 / bits > e->common) e->common = common * 1000 / bits;
  }
  return order_has_family(own, &e->at) ? ORDER_ROUTED : ORDER_UNLIKELY;
}

/* Adds a link-local address with the scope of each interface that may reach it:
 * without a scope the system cannot know the network. */
static void order_add_link_local(const gli_interfaces *own,
                                 const gli_endpoint *at, gli_endpoints *out) {
  gli_endpoint scoped = *at;
  for (size_t i = 0; i < own->n; i++) {
    const gli_interface *one = &own->list[i];
    if (!order_usable(one) || one->at.any.sa_family != AF_INET6) continue;
    if (!gli_endpoint_is_link_local(&one->at)) continue;
    scoped.v6.sin6_scope_id = one->at.v6.sin6_scope_id;
    (void)gli_endpoints_add(out, &scoped);
  }
}

static void order_add(const gli_interfaces *own, const gli_endpoint *at,
                      gli_endpoints *out) {
  if (at->any.sa_family == AF_INET6 && gli_endpoint_is_link_local(at))
    order_add_link_local(own, at, out);
  else
    (void)gli_endpoints_add(out, at);
}

/* Orders addresses in the same place. This host's own get their scope. */
static void order_same_place(const gli_tcp_contact *contact,
                             const gli_interfaces *own, gli_endpoints *out) {
  gli_endpoint at;
  for (uint32_t i = 0; i < contact->n; i++) {
    const gli_interface *one = gli_interfaces_find(own, &contact->at[i]);
    if (one == NULL && !gli_endpoint_is_loopback(&contact->at[i])) continue;
    at = one != NULL ? one->at : contact->at[i];
    gli_endpoint_set_port(&at, contact->port);
    (void)gli_endpoints_add(out, &at);
  }
  for (int v6 = 0; v6 < 2 && contact->everywhere && out->n == 0; v6++) {
    (void)gli_endpoint_from_text(v6 ? "::1" : "127.0.0.1", &at);
    if (gli_interfaces_find(own, &at) == NULL) continue;
    gli_endpoint_set_port(&at, contact->port);
    (void)gli_endpoints_add(out, &at);
  }
  for (uint32_t i = 0; i < contact->n; i++)
    if (gli_interfaces_find(own, &contact->at[i]) == NULL)
      order_add(own, &contact->at[i], out);
}

static bool order_before(const order_entry *a, const order_entry *b) {
  if (a->class != b->class) return a->class < b->class;
  return a->class == ORDER_ROUTED && a->common > b->common;
}

void gli_tcp_order(const gli_tcp_contact *contact, uint64_t place,
                   const gli_interfaces *own, gli_endpoints *out) {
  out->n = 0;
  if (contact->place == place) {
    order_same_place(contact, own, out);
  } else {
    order_entry entries[GLI_TCP_CONTACT_MAX];
    for (uint32_t i = 0; i < contact->n; i++) {
      order_entry e = {.at = contact->at[i]};
      e.class = order_class_of(contact, own, &e);
      uint32_t k = i;
      for (; k > 0 && order_before(&e, &entries[k - 1]); k--)
        entries[k] = entries[k - 1];
      entries[k] = e;
    }
    for (uint32_t i = 0; i < contact->n; i++)
      order_add(own, &entries[i].at, out);
  }
  /* The only address is link-local, without an interface that may reach it. */
  if (out->n == 0) (void)gli_endpoints_add(out, &contact->at[0]);
}
