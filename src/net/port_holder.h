/* Looks up the user whose process listens at a TCP port of this host. */
#ifndef GLI_NET_PORT_HOLDER_H
#define GLI_NET_PORT_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/endpoint.h"

/* The user of a socket that listens at this address and port, or at the port of
 * all addresses. False where there is none, or the system does not say: Linux
 * does. */
bool gli_port_holder(const gli_endpoint *at, uint32_t *user);

#endif
