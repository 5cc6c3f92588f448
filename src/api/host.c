/* Host identity and routes. */
#include "api/host.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>

#include "core/error.h"

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t hash, const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

uint64_t gli_host_id(void) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  char text[256];
  size_t bytes = sizeof text;
  if (uv_os_gethostname(text, &bytes) == 0) hash = mix(hash, text, bytes);
  /* Linux: changes with every boot, so that clones of a machine differ. */
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (!file) return hash;
  bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  return mix(hash, text, bytes);
}

/* A datagram socket that is connected learns its own address; nothing is sent.
 */
static bool own_address(const struct addrinfo *to, char *text) {
  int fd = socket(to->ai_family, SOCK_DGRAM, 0);
  if (fd < 0) return false;
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  bool found = connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
               getnameinfo((struct sockaddr *)&own, length, text, 64, NULL, 0,
                           NI_NUMERICHOST) == 0;
  close(fd);
  return found;
}

gloo_status gli_host_towards(const char *host, char *text, gloo_error *error) {
  struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
  int failed = getaddrinfo(host, "9", &hints, &list);
  if (failed) {
    return gli_fail(error, GLOO_ERR_ADDRESS, -1, "cannot resolve \"%s\": %s",
                    host, gai_strerror(failed));
  }
  bool found = false;
  for (struct addrinfo *a = list; a && !found; a = a->ai_next) {
    found = own_address(a, text);
  }
  freeaddrinfo(list);
  if (found) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                  "no address of this host reaches \"%s\"", host);
}
