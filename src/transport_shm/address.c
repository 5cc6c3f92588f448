/* Layout: 0 magic  4 boot id  40 namespace: device, inode  56 user  60 name
 * 76 checksum.
 * Linux only. */
#include "transport_shm/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/descriptor.h"
#include "core/host_identity.h"
#include "core/random.h"
#include "core/user.h"

#define ADDRESS_MAGIC UINT32_C(0x324d4853) /* "SHM2" */
enum { ADDRESS_BYTES = 77, BACKLOG = 512 };

_Static_assert(ADDRESS_BYTES <= GLI_ADDRESS_MAX, "an address fits");

_Static_assert((int)GLI_SHM_BOOT_BYTES == (int)GLI_BOOT_ID_BYTES, "an id fits");

int gli_shm_endpoint_here(gli_shm_endpoint *endpoint, const char **what) {
  *what = "cannot identify this host and its network namespace";
  int code = gli_boot_id_read(endpoint->boot);
  if (code != 0) return code;
  struct stat net;
  if (stat("/proc/self/ns/net", &net) != 0) return errno;
  endpoint->net_device = (uint64_t)net.st_dev;
  endpoint->net_inode = (uint64_t)net.st_ino;
  endpoint->user = gli_user_here().id;
  return gli_random(endpoint->name, sizeof endpoint->name, what);
}

void gli_shm_endpoint_encode(const gli_shm_endpoint *endpoint,
                             gli_address *address) {
  *address = (gli_address){.bytes = ADDRESS_BYTES};
  uint8_t *out = address->data;
  gli_put_u32(out, ADDRESS_MAGIC);
  memcpy(out + 4, endpoint->boot, sizeof endpoint->boot);
  gli_put_u64(out + 40, endpoint->net_device);
  gli_put_u64(out + 48, endpoint->net_inode);
  gli_put_u32(out + 56, endpoint->user);
  memcpy(out + 60, endpoint->name, sizeof endpoint->name);
  out[76] = endpoint->checksum;
}

bool gli_shm_endpoint_decode(const gli_address *address,
                             gli_shm_endpoint *endpoint) {
  const uint8_t *in = address->data;
  if (address->bytes != ADDRESS_BYTES) return false;
  if (gli_get_u32(in) != ADDRESS_MAGIC) return false;
  memcpy(endpoint->boot, in + 4, sizeof endpoint->boot);
  endpoint->net_device = gli_get_u64(in + 40);
  endpoint->net_inode = gli_get_u64(in + 48);
  endpoint->user = gli_get_u32(in + 56);
  memcpy(endpoint->name, in + 60, sizeof endpoint->name);
  endpoint->checksum = in[76] == 1;
  return in[76] <= 1;
}

const char *gli_shm_endpoint_unreachable(const gli_shm_endpoint *here,
                                         const gli_shm_endpoint *there) {
  if (memcmp(here->boot, there->boot, sizeof here->boot) != 0)
    return "is on another host";
  if (here->net_device != there->net_device ||
      here->net_inode != there->net_inode)
    return "is in another network namespace";
  if (here->user == GLI_USER_NONE || there->user == GLI_USER_NONE)
    return "or this rank runs as a user without a number in its user namespace";
  if (here->user != there->user) return "runs as another user";
  return NULL;
}

/* ---- sockets ------------------------------------------------------------- */

/* Makes an abstract socket name, which disappears with its socket. */
static socklen_t name_of(const gli_shm_endpoint *endpoint,
                         struct sockaddr_un *name) {
  static const char prefix[] = "gloo_c-";
  static const char digits[] = "0123456789abcdef";
  memset(name, 0, sizeof *name);
  name->sun_family = AF_UNIX;
  char *at = name->sun_path + 1;
  memcpy(at, prefix, sizeof prefix - 1);
  at += sizeof prefix - 1;
  for (int i = 0; i < GLI_SHM_NAME_BYTES; i++) {
    *at++ = digits[endpoint->name[i] >> 4];
    *at++ = digits[endpoint->name[i] & 15];
  }
  return (socklen_t)(at - (char *)name);
}

static int new_socket(void) {
  return gli_socket_open(AF_UNIX, SOCK_SEQPACKET);
}

static int shm_give_up(int fd) {
  gli_fd_close(fd);
  return -1;
}

int gli_shm_listen(const gli_shm_endpoint *here) {
  struct sockaddr_un name;
  socklen_t bytes = name_of(here, &name);
  int fd = new_socket();
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&name, bytes) != 0) return shm_give_up(fd);
  if (listen(fd, BACKLOG) != 0) return shm_give_up(fd);
  return fd;
}

int gli_shm_connect(const gli_shm_endpoint *there) {
  struct sockaddr_un name;
  socklen_t bytes = name_of(there, &name);
  int fd = new_socket();
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&name, bytes) != 0) return shm_give_up(fd);
  return fd;
}

int gli_shm_accept(int listener) {
  return gli_socket_accept(listener);
}

int gli_shm_same_user(int fd, uint32_t user) {
  int64_t process;
  uint32_t its;
  int code = gli_socket_peer(fd, &process, &its);
  if (code != 0) return code;
  return user != GLI_USER_NONE && its == user ? 0 : -1;
}
