/* Addresses of this host by interface, and the choice by GLOO_SOCKET_IFNAME. */
#ifndef GLI_NET_INTERFACES_H
#define GLI_NET_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"

/* One address of an interface. */
typedef struct gli_interface {
  char name[32]; /* "eth0", or the alias of this address, "eth0:1" */
  gli_endpoint at;
  uint8_t prefix; /* length of its network's prefix, bits */
  bool up;        /* true if it is enabled and has a carrier */
  bool loopback;
  bool
      internal; /* true if it has a name as of containers or virtual machines */
} gli_interface;

typedef struct gli_interfaces {
  size_t n;
  gli_interface *list; /* to be freed by gli_interfaces_free */
} gli_interfaces;

/* Lists all addresses of all interfaces, in the system's order. */
gloo_status gli_interfaces_read(gli_interfaces *out, gloo_error *error);
void gli_interfaces_free(gli_interfaces *interfaces);

/* Returns NULL if no interface of this host has the address. */
const gli_interface *gli_interfaces_find(const gli_interfaces *interfaces,
                                         const gli_endpoint *address);

/* Formats as "lo 127.0.0.1, eth0 10.0.0.2 fe80::2%eth0, eth1 10.1.0.2 (down)",
 * for messages; ends in "..." if truncated. */
enum { GLI_INTERFACES_TEXT_BYTES = 320 };
void gli_interfaces_text(const gli_interfaces *interfaces,
                         char text[GLI_INTERFACES_TEXT_BYTES]);

/* Formats " from 10.0.0.2 on eth0", the address and the interface by which this
 * host reaches `to`, for messages; "" within this host or without a route. */
enum { GLI_WAY_BYTES = GLI_ENDPOINT_TEXT_BYTES + 48 };
void gli_interfaces_way(const gli_interfaces *interfaces,
                        const gli_endpoint *to, char text[GLI_WAY_BYTES]);
/* Returns NULL, or a clause that no interface has an address of the family of
 * `to`, with what to do. */
const char *gli_interfaces_lack(const gli_interfaces *interfaces,
                                const gli_endpoint *to);

/* Returns true if interfaces of containers or virtual machines have the
 * name. */
bool gli_interface_name_is_internal(const char *name);

/* ---- choices ------------------------------------------------------------- */

/* An item of a choice, which is a list of name prefixes, addresses and address
 * blocks: "eth,ib0", "=eth0", "^docker,lo", "^=eth0", "10.0.0.0/8,fe80::/10".
 * After '=' names are whole names; '^' excludes the items. Without them, an
 * item that is the whole name of an interface means this interface only. */
typedef struct gli_choice_item {
  char name[128]; /* "" for a block */
  bool whole;     /* true if an alternative name was replaced by the interface's
                     name */
  gli_endpoint net; /* address whose first `bits` are the block */
  uint8_t bits;
} gli_choice_item;

enum { GLI_CHOICE_ITEMS_MAX = 32 };
typedef struct gli_choice {
  bool excludes, exact;
  uint32_t n;
  gli_choice_item item[GLI_CHOICE_ITEMS_MAX];
} gli_choice;

/* Parses a choice. `origin` names the source of the text, for messages.
 * GLOO_ERR_INVALID describes the fault. */
gloo_status gli_choice_read(const char *text, const char *origin,
                            gli_choice *choice, gloo_error *error);
/* Replaces alternative names in the choice by the names of their interfaces. */
void gli_choice_resolve(gli_choice *choice, const gli_interfaces *all);
/* Returns true if the i-th item matches this address. */
bool gli_choice_means(const gli_choice *choice, uint32_t i,
                      const gli_interfaces *all, const gli_interface *one);
/* Returns true if any item does. */
bool gli_choice_has(const gli_choice *choice, const gli_interfaces *all,
                    const gli_interface *one);

#endif
