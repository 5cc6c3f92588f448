/* Looks up the user whose process listens at a TCP port of this host. */
#ifndef GLI_NET_PORT_HOLDER_H
#define GLI_NET_PORT_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/endpoint.h"

/* Finds the user of a socket that listens on this address and port, or on this
 * port of all addresses. Returns false if there is none, and always except on
 * Linux. */
bool gli_port_holder(const gli_endpoint *at, uint32_t *user);

#endif
