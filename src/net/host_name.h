/* Names of hosts, as people and launchers write them. */
#ifndef GLI_NET_HOST_NAME_H
#define GLI_NET_HOST_NAME_H

#include <stdbool.h>

#include "gloo_c/status.h"
#include "net/endpoint.h"

/* "[::1]" to "::1", all others as they are; false when it does not fit. */
enum { GLI_HOST_NAME_BYTES = 256 };
bool gli_host_name_bare(const char *name, char bare[GLI_HOST_NAME_BYTES]);

/* Whether it is what this host calls itself, with a domain or without. */
bool gli_host_name_is_own(const char *name);

/* Whether a name that resolves to a loopback address here may be this host's
 * own name, which resolves to another address elsewhere: Debian's /etc/hosts
 * maps the host's name to 127.0.1.1, and a pod's its name to 127.0.0.1. False
 * for figures and for the names of loopback itself, such as localhost. */
bool gli_host_name_may_be_own(const char *name);

/* Why `name` can be no host: a blank, a scheme, a port or a path in it. NULL:
 * it can. The text ends a sentence that begins with the name. */
const char *gli_host_name_fault(const char *name);

/* All addresses that a name or figures stand for, port 0; looked up as
 * gli_look_up_patiently does. Timeout 0: once, however long that takes. */
gloo_status gli_host_resolve(const char *name, int64_t timeout_ns,
                             gli_endpoints *out, gloo_error *error);

#endif
