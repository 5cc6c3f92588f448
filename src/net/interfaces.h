/* The addresses of this host, by network interface; and choosing among them as
 * people do (GLOO_SOCKET_IFNAME). */
#ifndef GLI_NET_INTERFACES_H
#define GLI_NET_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"

/* One address of an interface. */
typedef struct gli_interface {
  char name[32]; /* "eth0", or what the system calls this address: "eth0:1" */
  gli_endpoint at;
  uint8_t prefix; /* bits of its network */
  bool up;        /* administratively, and with a carrier */
  bool loopback;
  bool internal; /* of containers or virtual machines on this host, by name */
} gli_interface;

typedef struct gli_interfaces {
  size_t n;
  gli_interface *list; /* for gli_interfaces_free */
} gli_interfaces;

/* All addresses of all interfaces, in the system's order. */
gloo_status gli_interfaces_read(gli_interfaces *out, gloo_error *error);
void gli_interfaces_free(gli_interfaces *interfaces);

/* Returns NULL if no interface of this host has the address. */
const gli_interface *gli_interfaces_find(const gli_interfaces *interfaces,
                                         const gli_endpoint *address);

/* "lo 127.0.0.1, eth0 10.0.0.2 fe80::2%eth0, eth1 10.1.0.2 (down)", for
 * messages; "..." at the end where it does not fit. */
enum { GLI_INTERFACES_TEXT_BYTES = 320 };
void gli_interfaces_text(const gli_interfaces *interfaces,
                         char text[GLI_INTERFACES_TEXT_BYTES]);

/* Is it the name of an interface of containers or virtual machines? */
bool gli_interface_name_is_internal(const char *name);

/* ---- choices ------------------------------------------------------------- */

/* "eth,ib0", "=eth0", "^docker,lo", "^=eth0", "10.0.0.0/8,fe80::/10": a list of
 * beginnings of names, addresses and blocks of addresses. '=': names are whole;
 * '^': all but these. Without them, a name that an interface has as a whole
 * means that interface alone. */
typedef struct gli_choice_item {
  char name[128];   /* "": a block */
  bool whole;       /* it was an alternative name of the interface */
  gli_endpoint net; /* its first `bits` */
  uint8_t bits;
} gli_choice_item;

enum { GLI_CHOICE_ITEMS_MAX = 32 };
typedef struct gli_choice {
  bool excludes, exact;
  uint32_t n;
  gli_choice_item item[GLI_CHOICE_ITEMS_MAX];
} gli_choice;

/* `origin` says where the text was given. GLOO_ERR_INVALID says what is wrong
 * with it. */
gloo_status gli_choice_read(const char *text, const char *origin,
                            gli_choice *choice, gloo_error *error);
/* Puts the names of interfaces where the choice has alternative ones. */
void gli_choice_resolve(gli_choice *choice, const gli_interfaces *all);
/* Does the i-th item mean this address? */
bool gli_choice_means(const gli_choice *choice, uint32_t i,
                      const gli_interfaces *all, const gli_interface *one);
/* Does any? */
bool gli_choice_has(const gli_choice *choice, const gli_interfaces *all,
                    const gli_interface *one);

#endif
