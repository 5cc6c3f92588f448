/* Host identity and routes. */
#include "rendezvous/join/host.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "core/host_identity.h"
#include "net/host_name.h"
#include "net/interfaces.h"
#include "net/lookup.h"
#include "net/socket.h"

/* Adds the user to a hash: shared memory connects processes of one user only,
 * see transport_shm/address.h. */
static uint64_t mix_user(uint64_t hash) {
  uint64_t user = (uint64_t)geteuid();
  return gli_mix_bytes(hash, &user, sizeof user);
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
                  "gloo_context_options) %s; set a short text per host",
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

/* Gets this host's address on the route to `to`. Returns 0 or errno. */
static int own_address(const gli_endpoint *to, char text[GLI_TOWARDS_BYTES]) {
  gli_endpoint own;
  int code = gli_tcp_socket_source(to, &own);
  if (code != 0) return code;
  gli_endpoint_set_port(&own, 0);
  gli_endpoint_text(&own, text);
  return 0;
}

static gloo_status host_cannot_reach(const char *host, const gli_endpoint *to,
                                     int code, gloo_error *error) {
  gli_interfaces own;
  char known[GLI_INTERFACES_TEXT_BYTES];
  gloo_status status = gli_interfaces_read(&own, error);
  if (status != GLOO_OK) return status;
  const char *lack = gli_interfaces_lack(&own, to);
  gli_interfaces_text(&own, known);
  gli_interfaces_free(&own);
  return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                  "no address of this host reaches '%.64s': %s%s%s; its "
                  "interfaces are %s",
                  host, strerror(code), lack != NULL ? "; " : "",
                  lack != NULL ? lack : "", known);
}

static gloo_status host_route(const char *host, const gli_retry *retry,
                              char *text, gloo_error *error) {
  struct addrinfo *list;
  gloo_status status = gli_look_up("host", host, "9", SOCK_DGRAM,
                                   gli_retry_left(retry), &list, error);
  if (status != GLOO_OK) return status;
  int code = EADDRNOTAVAIL;
  gli_endpoint to = {.any = {.sa_family = AF_UNSPEC}};
  for (struct addrinfo *a = list; a != NULL && code != 0; a = a->ai_next)
    if (gli_endpoint_from_socket(a->ai_addr, a->ai_addrlen, &to))
      code = own_address(&to, text);
  freeaddrinfo(list);
  if (code == 0) return GLOO_OK;
  if (gli_is_exhaustion(code))
    return gli_fail(error, gli_exhaustion_status(code), -1,
                    "cannot create a socket to find the route to '%.200s': %s",
                    host, gli_exhaustion_text(code));
  return host_cannot_reach(host, &to, code, error);
}

gloo_status gli_host_towards(const char *host, int64_t timeout_ns,
                             char text[GLI_TOWARDS_BYTES], gloo_error *error) {
  char bare[GLI_HOST_NAME_BYTES];
  gli_endpoint own;
  if (!gli_host_name_bare(host, bare))
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "the host name has %zu bytes; the limit is %d",
                    strlen(host), GLI_HOST_NAME_BYTES - 1);
  gli_retry retry = gli_retry_begin(timeout_ns);
  gloo_error cause;
  gloo_status status;
  do status = host_route(bare, &retry, text, &cause);
  while (status == GLOO_ERR_ADDRESS && gli_retry_pause(&retry, &cause));
  if (status != GLOO_OK)
    return gli_fail(error, status, -1, "%s", cause.message);
  if (gli_endpoint_from_text(text, &own) && gli_endpoint_is_loopback(&own) &&
      gli_host_name_may_be_own(bare))
    text[0] = '\0';
  return GLOO_OK;
}
