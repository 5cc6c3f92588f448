/* Host identity and routes. */
#include "api/host.h"

#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/host_identity.h"
#include "core/host_name.h"
#include "core/log.h"

/* Shared memory is between processes of one user: see transport_shm/address.h.
 */
static uint64_t mix_user(uint64_t hash) {
#if GLI_LINUX
  uint64_t user = (uint64_t)geteuid();
  hash = gli_mix_bytes(hash, &user, sizeof user);
#endif
  return hash;
}

uint64_t gli_host_system(void) {
  uint64_t hash = gli_mix_host_name(GLI_MIX_START);
  (void)gli_mix_boot(&hash);
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
      *key =
          gli_mix_bytes(gli_mix_bytes(GLI_MIX_START, "id", 2), id, strlen(id));
    return status;
  }
  bool shares = strcmp(transport, "auto") == 0 || strcmp(transport, "shm") == 0;
  *key = shares ? mix_user(gli_host_place()) : gli_host_place();
  return GLOO_OK;
}

/* ---- routes -------------------------------------------------------------- */

/* A datagram socket that is connected learns its own address; nothing is sent.
 */
static bool own_address(const struct addrinfo *to,
                        char text[GLI_TOWARDS_BYTES]) {
  int fd = gli_socket_open(to->ai_family, SOCK_DGRAM);
  if (fd < 0) return false;
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  bool found = connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
               getnameinfo((struct sockaddr *)&own, length, text,
                           GLI_TOWARDS_BYTES, NULL, 0, NI_NUMERICHOST) == 0;
  close(fd);
  return found;
}

gloo_status gli_host_towards(const char *host, char text[GLI_TOWARDS_BYTES],
                             gloo_error *error) {
  char bare[GLI_HOST_NAME_BYTES];
  struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
  int failed = EAI_NONAME;
  text[0] = '\0';
  if (gli_host_name_bare(host, bare))
    failed = getaddrinfo(bare, "9", &hints, &list);
  if (failed) {
    gli_log(GLOO_LOG_INFO, "which address reaches \"%.64s\" is unknown: %s",
            host, gai_strerror(failed));
    return GLOO_OK;
  }
  bool found = false;
  for (struct addrinfo *a = list; a != NULL && !found; a = a->ai_next) {
    found = own_address(a, text);
  }
  freeaddrinfo(list);
  if (!found)
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "no address of this host reaches \"%.64s\"", host);
  gli_endpoint own;
  if (gli_endpoint_from_text(text, &own) && gli_endpoint_is_loopback(&own) &&
      gli_host_name_is_own(host))
    text[0] = '\0';
  return GLOO_OK;
}
