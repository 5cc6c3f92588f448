#include "rendezvous/store/tcp/tcp_local.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/host_identity.h"
#include "core/log.h"
#include "core/siphash.h"
#include "net/endpoint.h"
#include "net/tcp_address.h"

/* ---- paths --------------------------------------------------------------- */

/* Room for the name of the socket in a directory's path. */
#define PLACE_NAME_BYTES (sizeof "/store-0123456789abcdef")

/* Returns a number that identifies the server in the directory. */
static uint64_t local_number(const char *host, uint16_t port) {
  static const gli_siphash_key same_for_all;
  char text[256];
  struct stat net;
  if (stat("/proc/self/ns/net", &net) != 0) memset(&net, 0, sizeof net);
  int n = snprintf(text, sizeof text, "%llu %llu %llu %.100s %u",
                   (unsigned long long)gli_boot_id_hash(),
                   (unsigned long long)net.st_dev,
                   (unsigned long long)net.st_ino, host, (unsigned)port);
  return gli_siphash(&same_for_all, text, (size_t)n);
}

bool gli_tcp_local_place(int i, bool create, const char *host, uint16_t port,
                         gli_tcp_local_path *path) {
  const size_t room = sizeof path->text - PLACE_NAME_BYTES;
  if (!gli_run_directory_path((gli_run_directory)i, path->text, room))
    return false;
  if (create) (void)gli_run_directory_make((gli_run_directory)i, path->text);
  /* With an ambiguous user id no directory counts as private, but then no
   * process counts as own either (core/user.h). */
  if (!gli_run_directory_is_private(path->text)) return false;
  size_t used = strlen(path->text);
  (void)snprintf(path->text + used, sizeof path->text - used, "/store-%016llx",
                 (unsigned long long)local_number(host, port));
  return true;
}

/* ---- credentials of the peer --------------------------------------------- */

gli_tcp_process gli_tcp_local_peer(int fd, const gli_user *here) {
  gli_tcp_process peer = {.local = true};
  peer.code = gli_socket_peer(fd, &peer.process, &peer.user);
  peer.own = gli_user_is_own(here, peer.user);
  peer.overflow = peer.code == 0 && peer.user == here->overflow;
  return peer;
}

void gli_tcp_local_whose(const gli_tcp_process *process,
                         char text[GLI_TCP_WHOSE_BYTES]) {
  if (process->code != 0)
    (void)snprintf(text, GLI_TCP_WHOSE_BYTES, "an unknown user (%s)",
                   gli_exhaustion_text(process->code));
  else if (process->overflow)
    (void)snprintf(
        text, GLI_TCP_WHOSE_BYTES,
        "a user without a number in this user namespace (shown as %lu)",
        (unsigned long)process->user);
  else
    (void)snprintf(text, GLI_TCP_WHOSE_BYTES, "user %lu",
                   (unsigned long)process->user);
}

#if GLI_LINUX

enum { LOCAL_BACKLOG = 4096 };

/* ---- names --------------------------------------------------------------- */

/* The address of a Unix socket, and the number of its significant bytes. */
typedef struct local_name {
  struct sockaddr_un at;
  socklen_t bytes;
} local_name;

/* Makes an abstract name: it is in no file system, and ends with its socket. */
static local_name local_abstract(const char *host, uint16_t port) {
  local_name name;
  memset(&name, 0, sizeof name);
  name.at.sun_family = AF_UNIX;
  int n = snprintf(name.at.sun_path + 1, sizeof name.at.sun_path - 1,
                   "gloo_c-store-%s:%u", host, (unsigned)port);
  name.bytes =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  return name;
}

_Static_assert(sizeof(gli_tcp_local_path) ==
                   sizeof((struct sockaddr_un *)NULL)->sun_path,
               "a path fits");

static local_name local_in_file_system(const gli_tcp_local_path *path) {
  local_name name = {.bytes = sizeof name.at};
  memset(&name.at, 0, sizeof name.at);
  name.at.sun_family = AF_UNIX;
  memcpy(name.at.sun_path, path->text, sizeof path->text);
  return name;
}

/* Formats the numeric address; "*" for the wildcard. */
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

/* ---- sockets ------------------------------------------------------------- */

/* Opens a socket. On a system without such sockets no program can impersonate
 * the server. */
static int local_socket(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  int fd = gli_socket_open(AF_UNIX, SOCK_STREAM);
  if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EPERM && errno != EACCES))
    return fd;
  if (!atomic_flag_test_and_set(&said))
    gli_log(GLOO_LOG_WARN,
            "this process cannot use Unix sockets, so TCP stores and their "
            "clients on this host cannot verify each other's user: set "
            "GLOO_JOB_SECRET if the host has other users");
  errno = EAFNOSUPPORT;
  return -1;
}

static int local_listen_by(const local_name *name) {
  int fd = local_socket();
  if (fd < 0) return -1;
  if (bind(fd, (const struct sockaddr *)&name->at, name->bytes) == 0 &&
      listen(fd, LOCAL_BACKLOG) == 0)
    return fd;
  gli_fd_close(fd);
  return -1;
}

static int local_connect_by(const local_name *name) {
  int fd = local_socket();
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr *)&name->at, name->bytes) == 0)
    return fd;
  gli_fd_close(fd);
  return -1;
}

/* ---- the server's end ---------------------------------------------------- */

int gli_tcp_local_listen(const struct sockaddr_storage *address) {
  char host[GLI_ENDPOINT_TEXT_BYTES];
  local_host(address, host);
  const local_name name = local_abstract(host, gli_tcp_address_port(address));
  return local_listen_by(&name);
}

bool gli_tcp_local_holder(const struct sockaddr_storage *address,
                          const gli_user *here, gli_tcp_process *holder) {
  char host[GLI_ENDPOINT_TEXT_BYTES];
  local_host(address, host);
  const local_name name = local_abstract(host, gli_tcp_address_port(address));
  int fd = local_connect_by(&name);
  if (fd < 0) return false;
  *holder = gli_tcp_local_peer(fd, here);
  gli_fd_close(fd);
  return true;
}

/* Replaces the socket's file. The holder of the port also owns the path, so an
 * existing file is left over from a server that was killed. */
int gli_tcp_local_listen_privately(const struct sockaddr_storage *address,
                                   gli_tcp_local_path *path) {
  char host[GLI_ENDPOINT_TEXT_BYTES];
  local_host(address, host);
  int fd = -1;
  errno = ENOENT;
  for (int i = 0; i < GLI_TCP_LOCAL_PLACES && fd < 0; i++) {
    if (!gli_tcp_local_place(i, true, host, gli_tcp_address_port(address),
                             path))
      continue;
    const local_name name = local_in_file_system(path);
    (void)unlink(path->text);
    fd = local_listen_by(&name);
  }
  if (fd < 0) path->text[0] = '\0';
  return fd;
}

void gli_tcp_local_unlink(gli_tcp_local_path *path) {
  if (path->text[0] != '\0') (void)unlink(path->text);
  path->text[0] = '\0';
}

/* ---- the client's end ---------------------------------------------------- */

/* Returns true if the connection leads to an own server, or if further attempts
 * are useless. A busy socket may be another user's. */
static bool local_try(gli_tcp_local_way *way, const local_name *name,
                      const gli_user *here) {
  int fd = local_connect_by(name);
  if (fd < 0) {
    if (gli_would_block(errno)) way->code = EAGAIN;
    if (!gli_is_exhaustion(errno) && errno != EAFNOSUPPORT) return false;
    way->code = errno;
    return true;
  }
  gli_tcp_process process = gli_tcp_local_peer(fd, here);
  if (process.own) {
    way->fd = fd;
    return true;
  }
  gli_fd_close(fd);
  way->holder = process;
  return false;
}

gli_tcp_local_way gli_tcp_local_connect(
    const struct sockaddr_storage *address) {
  char host[GLI_ENDPOINT_TEXT_BYTES];
  uint16_t port = gli_tcp_address_port(address);
  const gli_user here = gli_user_here();
  gli_tcp_local_way way = {.fd = -1, .code = ECONNREFUSED};
  local_host(address, host);
  const char *const hosts[] = {host, "*"};
  for (int h = 0; h < 2; h++) {
    const local_name name = local_abstract(hosts[h], port);
    if (local_try(&way, &name, &here)) return way;
  }
  for (int i = 0; i < 2 * GLI_TCP_LOCAL_PLACES; i++) {
    gli_tcp_local_path path;
    if (!gli_tcp_local_place(i / 2, false, hosts[i % 2], port, &path)) continue;
    const local_name name = local_in_file_system(&path);
    if (local_try(&way, &name, &here)) return way;
  }
  return way;
}

#else

int gli_tcp_local_listen(const struct sockaddr_storage *address) {
  (void)address;
  errno = EAFNOSUPPORT;
  return -1;
}

bool gli_tcp_local_holder(const struct sockaddr_storage *address,
                          const gli_user *here, gli_tcp_process *holder) {
  (void)address;
  (void)here;
  (void)holder;
  return false;
}

int gli_tcp_local_listen_privately(const struct sockaddr_storage *address,
                                   gli_tcp_local_path *path) {
  (void)path;
  return gli_tcp_local_listen(address);
}

void gli_tcp_local_unlink(gli_tcp_local_path *path) {
  (void)path;
}

gli_tcp_local_way gli_tcp_local_connect(
    const struct sockaddr_storage *address) {
  (void)address;
  return (gli_tcp_local_way){.fd = -1, .code = EAFNOSUPPORT};
}

#endif
