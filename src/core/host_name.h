/* Names of hosts, as people and launchers write them. */
#ifndef GLI_CORE_HOST_NAME_H
#define GLI_CORE_HOST_NAME_H

#include <stdbool.h>

#include "core/endpoint.h"
#include "gloo_c/status.h"

/* "[::1]" to "::1", all others as they are; false when it does not fit. */
enum { GLI_HOST_NAME_BYTES = 256 };
bool gli_host_name_bare(const char *name, char bare[GLI_HOST_NAME_BYTES]);

/* Is it what this host calls itself, with a domain or without? To it alone that
 * may mean loopback (as /etc/hosts has it on Debian). */
bool gli_host_name_is_own(const char *name);

/* All addresses that a name or figures stand for, port 0; looked up as
 * gli_look_up_patiently does. Timeout 0: once, however long that takes. */
gloo_status gli_host_resolve(const char *name, int64_t timeout_ns,
                             gli_endpoints *out, gloo_error *error);

#endif
