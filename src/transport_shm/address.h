/* Reachability of end points: they must be of the same running kernel, network
 * namespace (which scopes the names of Unix sockets) and user. Linux only. */
#ifndef GLI_TRANSPORT_SHM_ADDRESS_H
#define GLI_TRANSPORT_SHM_ADDRESS_H

#include <stdbool.h>

#include "transport/transport.h"

enum { GLI_SHM_BOOT_BYTES = 36, GLI_SHM_NAME_BYTES = 16 };

typedef struct gli_shm_endpoint {
  uint8_t boot[GLI_SHM_BOOT_BYTES]; /* the kernel's boot id, as text */
  uint64_t net_device, net_inode;   /* the network namespace */
  uint32_t user;                    /* GLI_USER_NONE: any (core/user.h) */
  bool checksum;                    /* messages are to have them */
  uint8_t name[GLI_SHM_NAME_BYTES]; /* random: names the socket */
} gli_shm_endpoint;

/* Where this process is, with a new random name. 0; or errno, and `what` says
 * what failed. */
int gli_shm_endpoint_here(gli_shm_endpoint *endpoint, const char **what);
void gli_shm_endpoint_encode(const gli_shm_endpoint *endpoint,
                             gli_address *address);
bool gli_shm_endpoint_decode(const gli_address *address,
                             gli_shm_endpoint *endpoint);
/* NULL: `there` can be reached from `here`; else why not, to be put after "rank
 * N". */
const char *gli_shm_endpoint_unreachable(const gli_shm_endpoint *here,
                                         const gli_shm_endpoint *there);

/* Sockets. Each returns a descriptor, or -1 with errno. */
int gli_shm_listen(const gli_shm_endpoint *here);
int gli_shm_connect(const gli_shm_endpoint *there);
int gli_shm_accept(int listener);
/* 0: the process at the other end is one of `user`; -1: of another; or errno of
 * why the system does not say. */
int gli_shm_same_user(int socket, uint32_t user);

#endif
