/* Alternative names of network interfaces (ip link property add dev X altname
 * Y). They have up to 127 characters; ordinary names have at most 15. */
#ifndef GLI_NET_ALTERNATIVE_NAME_H
#define GLI_NET_ALTERNATIVE_NAME_H

#include <net/if.h>
#include <stdbool.h>

enum { GLI_ALTERNATIVE_NAME_BYTES = 128 };

/* Finds the interface with the alternative name. Returns false if no interface
 * has this name, or if the system has no alternative names. */
bool gli_alternative_name_find(const char *alternative, char name[IF_NAMESIZE]);

#endif
