/* Published addresses of this host, and the addresses to listen on for them. */
#ifndef GLI_NET_PUBLISHED_H
#define GLI_NET_PUBLISHED_H

#include <stdbool.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"
#include "net/interfaces.h"

/* So many at most. */
enum { GLI_PUBLISHED_MAX = 8 };

typedef struct gli_publishing {
  const char *choice; /* of interfaces, see gli_choice_read; NULL: that of
                         GLOO_SOCKET_IFNAME, if any */
  const char *origin; /* where it was given */
  /* The address of this host that is known to be reached, or to reach where
   * ranks meet; NULL: none is known. */
  const gli_endpoint *towards;
} gli_publishing;

/* Ports are 0. */
typedef struct gli_published {
  gli_endpoints own;  /* of this host, the best first; none: there is not even
                         loopback that could be seen */
  gli_endpoints told; /* published addresses: `own`, or GLOO_PUBLISH_ADDR */
  bool chosen;        /* interfaces were named, or blocks of addresses */
  bool translated;    /* `told` is from GLOO_PUBLISH_ADDR */
} gli_published;

/* `own` is: those of the interfaces that were chosen, in the order of the
 * choice; else loopback alone, if `towards` is that; else `towards`, then all
 * others of interfaces that are up, but for loopback and, unless there are no
 * others, those of containers and link-local ones; else those of loopback.
 * GLOO_ERR_NOT_FOUND: the choice leaves none; the sentence names it, and the
 * interfaces that there are. GLOO_ERR_ADDRESS: GLOO_PUBLISH_ADDR does not
 * resolve. */
gloo_status gli_published_find(const gli_publishing *how,
                               const gli_interfaces *interfaces,
                               gli_published *out, gloo_error *error);

/* For a program that chooses its listening address: GLOO_PUBLISH_ADDR alone, or
 * none if that is not set. */
gloo_status gli_published_given(gli_published *out, gloo_error *error);

/* GLOO_BIND_ADDR: where to listen, ports 0, possibly at all addresses
 * (0.0.0.0, ::). n is 0 where it is not set. */
gloo_status gli_bind_read(gli_endpoints *out, gloo_error *error);

#endif
