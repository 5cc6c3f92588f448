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

/* All addresses that a name or figures stand for, port 0. Blocks while the
 * system's resolver does, which figures never ask. GLOO_ERR_ADDRESS: there are
 * none; GLOO_ERR_IO, GLOO_ERR_NO_MEMORY: this process lacks what it takes. */
gloo_status gli_host_resolve(const char *name, gli_endpoints *out,
                             gloo_error *error);

#endif
