/* Which host this is, and how it reaches another. */
#ifndef GLI_API_HOST_H
#define GLI_API_HOST_H

#include <stdint.h>

#include "gloo_c/status.h"

/* A number that processes on one running system share, and others do not. */
uint64_t gli_host_id(void);

/* The address of this host from which `host` would be reached, as text;
 * resolves `host`, sends nothing. `text` holds 64 bytes. */
gloo_status gli_host_towards(const char *host, char *text, gloo_error *error);

#endif
