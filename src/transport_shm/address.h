/* Reachability of end points: both must be on the same running kernel, have the
 * same user, and the same place of names of Unix sockets: on Linux the network
 * namespace, elsewhere a directory. On Windows the sockets are TCP ports, and
 * the place is the host. */
#ifndef GLI_TRANSPORT_SHM_ADDRESS_H
#define GLI_TRANSPORT_SHM_ADDRESS_H

#include <stdbool.h>

#include "transport/transport.h"

enum { GLI_SHM_BOOT_BYTES = 36, GLI_SHM_NAME_BYTES = 16 };

typedef struct gli_shm_endpoint {
  uint8_t boot[GLI_SHM_BOOT_BYTES]; /* text: boot id of the kernel, or a hash
                                       of the host's name where it has none */
  uint64_t device, inode;           /* place of names */
  uint32_t user; /* GLI_USER_NONE if unmapped (core/user.h) */
  bool checksum; /* true if messages must have checksums */
  uint8_t name[GLI_SHM_NAME_BYTES]; /* random name of the socket; on Windows
                                       it begins with the port */
} gli_shm_endpoint;

/* Makes the end point of this process, with a new random name. Returns 0, or
 * errno with the failed step in `what`. */
int gli_shm_endpoint_here(gli_shm_endpoint *endpoint, const char **what);
void gli_shm_endpoint_encode(const gli_shm_endpoint *endpoint,
                             gli_address *address);
bool gli_shm_endpoint_decode(const gli_address *address,
                             gli_shm_endpoint *endpoint);
/* Returns NULL if `there` can be reached from `here`, else the reason, as the
 * end of a sentence that begins with "rank N". */
const char *gli_shm_endpoint_unreachable(const gli_shm_endpoint *here,
                                         const gli_shm_endpoint *there);

#endif
