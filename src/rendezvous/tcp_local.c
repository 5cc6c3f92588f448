#include "rendezvous/tcp_local.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/endpoint.h"
#include "core/log.h"
#include "core/user.h"
#include "rendezvous/tcp_address.h"

#if GLI_LINUX

enum { LOCAL_BACKLOG = 4096 };

/* An abstract name: it is in no file system, and ends with its socket. */
static socklen_t local_name(const char *host, uint16_t port,
                            struct sockaddr_un *name) {
  memset(name, 0, sizeof *name);
  name->sun_family = AF_UNIX;
  int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1,
                   "gloo_c-store-%s:%u", host, (unsigned)port);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* The address in figures; "*" for all. */
static void local_host(const struct sockaddr_storage *address,
                       char host[GLI_ENDPOINT_TEXT_BYTES]) {
  gli_endpoint endpoint;
  memcpy(&endpoint, address, sizeof endpoint);
  gli_endpoint_unmap(&endpoint);
  gli_endpoint_set_port(&endpoint, 0);
  if (gli_endpoint_is_wildcard(&endpoint)) {
    strcpy(host, "*");
  } else {
    gli_endpoint_text(&endpoint, host);
  }
}

/* Where the system lets no program have any, there is nobody to be taken for
 * somebody else. */
static int local_socket(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  int fd = gli_socket_open(AF_UNIX, SOCK_STREAM);
  if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EPERM && errno != EACCES))
    return fd;
  if (!atomic_flag_test_and_set(&said))
    gli_log(GLOO_LOG_WARN,
            "this process may not have Unix sockets, so TCP stores on this "
            "host cannot tell whose their clients are, nor these whose the "
            "store is: set GLOO_JOB_SECRET if it has other users");
  errno = EAFNOSUPPORT;
  return -1;
}

static int local_fail(int fd) {
  gli_fd_close(fd);
  return -1;
}

int gli_tcp_local_listen(const struct sockaddr_storage *address) {
  char host[GLI_ENDPOINT_TEXT_BYTES];
  struct sockaddr_un name;
  local_host(address, host);
  socklen_t bytes = local_name(host, gli_tcp_address_port(address), &name);
  int fd = local_socket();
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&name, bytes) != 0 ||
      listen(fd, LOCAL_BACKLOG) != 0)
    return local_fail(fd);
  return fd;
}

static int local_connect_to(const char *host, uint16_t port) {
  struct sockaddr_un name;
  socklen_t bytes = local_name(host, port, &name);
  int fd = local_socket();
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&name, bytes) != 0) return local_fail(fd);
  return fd;
}

int gli_tcp_local_connect(const struct sockaddr_storage *address) {
  char host[GLI_ENDPOINT_TEXT_BYTES];
  uint16_t port = gli_tcp_address_port(address);
  local_host(address, host);
  int fd = local_connect_to(host, port);
  if (fd < 0 && errno == ECONNREFUSED) fd = local_connect_to("*", port);
  return fd;
}

#else

int gli_tcp_local_listen(const struct sockaddr_storage *address) {
  (void)address;
  errno = EAFNOSUPPORT;
  return -1;
}

int gli_tcp_local_connect(const struct sockaddr_storage *address) {
  return gli_tcp_local_listen(address);
}

#endif

bool gli_tcp_local_knows(int fd, int64_t *process, uint32_t *user) {
  const gli_user here = gli_user_here();
  return gli_socket_peer(fd, process, user) == 0 &&
         gli_user_is_own(&here, *user);
}
