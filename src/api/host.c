/* Host identity and routes. */
#include "api/host.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/lack.h"
#include "core/lookup.h"

/* FNV-1a, 64 bits. */
static uint64_t host_mix(uint64_t hash, const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

static const uint64_t nothing = UINT64_C(0xcbf29ce484222325);

static uint64_t mix_name(uint64_t hash) {
  char text[256];
  size_t bytes = sizeof text;
  if (uv_os_gethostname(text, &bytes) != 0) return hash;
  return host_mix(hash, text, bytes);
}

#if GLI_LINUX

/* Changes with every boot, so that clones of a machine differ. */
static bool mix_boot(uint64_t *hash) {
  char text[256];
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file == NULL) return false;
  size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  *hash = host_mix(*hash, text, bytes);
  return bytes > 0;
}

/* What shared memory needs to be the same, besides the running system: see
 * transport_shm/address.h. */
static uint64_t mix_reach(uint64_t hash) {
  struct stat net;
  uint64_t parts[3] = {(uint64_t)geteuid()};
  if (stat("/proc/self/ns/net", &net) == 0) {
    parts[1] = (uint64_t)net.st_dev;
    parts[2] = (uint64_t)net.st_ino;
  }
  return host_mix(hash, (const char *)parts, sizeof parts);
}

#else

static bool mix_boot(uint64_t *hash) {
  (void)hash;
  return false;
}

/* There is no shared memory. */
static uint64_t mix_reach(uint64_t hash) {
  return hash;
}

#endif

uint64_t gli_host_system(void) {
  uint64_t hash = mix_name(nothing);
  mix_boot(&hash);
  return hash;
}

/* ---- hosts in plans ------------------------------------------------------ */

enum { MAX_ID_BYTES = 255 };

static gloo_status check_id(const char *id, gloo_error *error) {
  size_t bytes = strnlen(id, MAX_ID_BYTES + 1);
  bool printable = true;
  for (size_t i = 0; i < bytes; i++) {
    unsigned char c = (unsigned char)id[i];
    if (c < 0x20 || c == 0x7f) printable = false;
  }
  if (bytes > 0 && bytes <= MAX_ID_BYTES && printable) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the host id (GLOO_HOST_ID, or host_id in "
                  "gloo_context_options) %s; give each host a short text",
                  bytes == 0             ? "is empty"
                  : bytes > MAX_ID_BYTES ? "is longer than 255 bytes"
                                         : "has control characters");
}

gloo_status gli_host_key(const char *id, const char *transport, uint64_t *key,
                         gloo_error *error) {
  if (id == NULL) id = gli_environment_read("GLOO_HOST_ID");
  if (id != NULL) {
    gloo_status status = check_id(id, error);
    if (status == GLOO_OK)
      *key = host_mix(host_mix(nothing, "id", 2), id, strlen(id));
    return status;
  }
  uint64_t hash = nothing;
  if (!mix_boot(&hash)) hash = mix_name(hash);
  bool shares = strcmp(transport, "auto") == 0 || strcmp(transport, "shm") == 0;
  *key = shares ? mix_reach(hash) : hash;
  return GLOO_OK;
}

/* ---- routes -------------------------------------------------------------- */

/* A datagram socket that is connected learns its own address; nothing is sent.
 * 0, or errno. */
static int own_address(const struct addrinfo *to, char *text) {
  int fd = gli_socket_open(to->ai_family, SOCK_DGRAM);
  if (fd < 0) return errno;
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  int code = 0;
  if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 ||
      getsockname(fd, (struct sockaddr *)&own, &length) != 0)
    code = errno;
  else if (getnameinfo((struct sockaddr *)&own, length, text, 64, NULL, 0,
                       NI_NUMERICHOST) != 0)
    code = EADDRNOTAVAIL;
  close(fd);
  return code;
}

static gloo_status host_route(const char *host, const gli_retry *retry,
                              char *text, gloo_error *error) {
  struct addrinfo *list;
  gloo_status status = gli_look_up("host", host, "9", SOCK_DGRAM,
                                   gli_retry_left(retry), &list, error);
  if (status != GLOO_OK) return status;
  int code = EADDRNOTAVAIL;
  for (struct addrinfo *a = list; a != NULL && code != 0; a = a->ai_next)
    code = own_address(a, text);
  freeaddrinfo(list);
  if (code == 0) return GLOO_OK;
  if (gli_lacking(code))
    return gli_fail(error, gli_lack_status(code), -1,
                    "no socket to find the way to '%.200s': %s", host,
                    gli_lack_text(code));
  return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                  "no address of this host reaches '%.200s': %s", host,
                  strerror(code));
}

gloo_status gli_host_towards(const char *host, int64_t timeout_ns, char *text,
                             gloo_error *error) {
  gli_retry retry = gli_retry_begin(timeout_ns);
  gloo_error cause;
  gloo_status status;
  do status = host_route(host, &retry, text, &cause);
  while (status == GLOO_ERR_ADDRESS && gli_retry_pause(&retry, &cause));
  if (status != GLOO_OK)
    return gli_fail(error, status, -1, "%s", cause.message);
  return status;
}
