/* Published addresses of this host, and the addresses to listen on for them. */
#ifndef GLI_NET_PUBLISHED_H
#define GLI_NET_PUBLISHED_H

#include <stdbool.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"
#include "net/interfaces.h"

/* Maximum number of addresses. */
enum { GLI_PUBLISHED_MAX = 8 };

typedef struct gli_publishing {
  const char *choice; /* choice of interfaces, see gli_choice_read; NULL for
                         GLOO_SOCKET_IFNAME, if set */
  const char *origin; /* source of the choice, for messages */
  /* Address of this host from which it reaches the meeting point, or at which
   * it is known to be reachable; NULL if unknown. */
  const gli_endpoint *towards;
} gli_publishing;

/* Addresses with port 0. */
typedef struct gli_published {
  gli_endpoints own;  /* addresses of this host, best first; empty if not even
                         loopback is visible */
  gli_endpoints told; /* published addresses: `own`, or GLOO_PUBLISH_ADDR */
  bool chosen;        /* true if interfaces or address blocks are chosen */
  bool translated;    /* true if `told` is from GLOO_PUBLISH_ADDR */
} gli_published;

/* Finds the addresses to publish. `own` has the addresses of the chosen
 * interfaces, in the order of the choice. Without such a choice, it has
 * loopback only, if `towards` is loopback; else `towards`, then the other
 * addresses of interfaces that are up, except for loopback, link-local ones and
 * those of containers. If `towards` is NULL, it has the first kind that exists:
 * ordinary, of containers, link-local, loopback. GLOO_ERR_NOT_FOUND: the choice
 * leaves none; the message lists the interfaces. GLOO_ERR_ADDRESS:
 * GLOO_PUBLISH_ADDR does not resolve. */
gloo_status gli_published_find(const gli_publishing *how,
                               const gli_interfaces *interfaces,
                               gli_published *out, gloo_error *error);

/* Finds the published addresses of a program that chooses its listening
 * address: GLOO_PUBLISH_ADDR only, or none if it is not set. */
gloo_status gli_published_given(gli_published *out, gloo_error *error);

/* Reads the listening addresses from GLOO_BIND_ADDR, with port 0. They may be
 * wildcards (0.0.0.0, ::). `n` is 0 if it is not set. */
gloo_status gli_bind_read(gli_endpoints *out, gloo_error *error);

#endif
