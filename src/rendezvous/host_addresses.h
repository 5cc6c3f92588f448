/* At which addresses others may reach this host. */
#ifndef GLI_RENDEZVOUS_HOST_ADDRESSES_H
#define GLI_RENDEZVOUS_HOST_ADDRESSES_H

#include <stddef.h>

/* In figures, without those that need an interface's name. Loopback comes last:
 * it reaches only those on this host. Returns how many there are, at most
 * `max`.
 */
size_t gli_host_addresses(char (*addresses)[64], size_t max);

#endif
