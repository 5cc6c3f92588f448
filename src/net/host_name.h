/* Host names as users and launchers write them. */
#ifndef GLI_NET_HOST_NAME_H
#define GLI_NET_HOST_NAME_H

#include <stdbool.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"

/* Copies a name without its brackets ("[::1]"). Returns false if too long. */
enum { GLI_HOST_NAME_BYTES = 256 };
bool gli_host_name_bare(const char *name, char bare[GLI_HOST_NAME_BYTES]);

/* Returns true if this host calls itself so, with or without a domain. */
bool gli_host_name_is_own(const char *name);

/* Returns true if a name that resolves to a loopback address here may be this
 * host's own name, which resolves to another address elsewhere: Debian's
 * /etc/hosts maps the host's name to 127.0.1.1, and a pod's maps its name to
 * 127.0.0.1. Returns false for numeric addresses and for the names of loopback
 * itself, such as localhost. */
bool gli_host_name_may_be_own(const char *name);

/* Returns NULL, or the reason why `name` cannot be a host (it has a blank, a
 * scheme, a port or a path), to end a sentence that begins with the name. */
const char *gli_host_name_fault(const char *name);

/* Resolves a name or numeric address to all its addresses, with port 0, as
 * gli_look_up_patiently does; timeout 0 means one look-up without a limit. */
gloo_status gli_host_resolve(const char *name, int64_t timeout_ns,
                             gli_endpoints *out, gloo_error *error);

#endif
