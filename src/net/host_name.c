#include "net/host_name.h"

#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/error.h"
#include "net/lookup.h"

bool gli_host_name_bare(const char *name, char bare[GLI_HOST_NAME_BYTES]) {
  size_t bytes = strlen(name);
  if (bytes > 2 && name[0] == '[' && name[bytes - 1] == ']') name++, bytes -= 2;
  if (bytes >= GLI_HOST_NAME_BYTES) return false;
  memcpy(bare, name, bytes);
  bare[bytes] = '\0';
  return true;
}

bool gli_host_name_is_own(const char *name) {
  char own[GLI_HOST_NAME_BYTES] = "";
  if (gethostname(own, sizeof own - 1) != 0 || own[0] == '\0') return false;
  size_t bytes = strcspn(own, ".");
  if (strcspn(name, ".") != bytes) return false;
  return strncasecmp(name, own, bytes) == 0 &&
         strcasecmp(name, "localhost") != 0;
}

/* Returns true if `name` contains `word`, ignoring case. */
static bool name_has(const char *name, const char *word) {
  size_t bytes = strlen(word);
  for (; strlen(name) >= bytes; name++)
    if (strncasecmp(name, word, bytes) == 0) return true;
  return false;
}

bool gli_host_name_may_be_own(const char *name) {
  gli_endpoint figures;
  return !gli_endpoint_from_text(name, &figures) &&
         !name_has(name, "localhost") && !name_has(name, "loopback");
}

const char *gli_host_name_fault(const char *name) {
  char bare[GLI_HOST_NAME_BYTES];
  gli_endpoint figures;
  if (gli_host_name_bare(name, bare) && gli_endpoint_from_text(bare, &figures))
    return NULL;
  for (const char *at = name; *at != '\0'; at++)
    if ((unsigned char)*at <= ' ' || *at == 0x7f)
      return "contains a space, a line break or another control character: "
             "remove it";
  if (strstr(name, "://") != NULL)
    return "begins with a scheme: give only the name or address";
  if (strchr(name, '/') != NULL)
    return "contains a slash: give only the name or address";
  const char *colon = strchr(name, ':');
  if (colon != NULL && strchr(colon + 1, ':') == NULL)
    return "ends in a port: give only the name or address, and the port "
           "separately";
  return NULL;
}

gloo_status gli_host_resolve(const char *name, int64_t timeout_ns,
                             gli_endpoints *out, gloo_error *error) {
  char bare[GLI_HOST_NAME_BYTES];
  struct addrinfo *list = NULL;
  gli_endpoints found = {.n = 0};
  if (!gli_host_name_bare(name, bare))
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "the host name has %zu bytes; the limit is %d",
                    strlen(name), GLI_HOST_NAME_BYTES - 1);
  gli_retry retry = gli_retry_begin(timeout_ns);
  gloo_status status =
      timeout_ns == 0
          ? gli_look_up("host", bare, "0", SOCK_STREAM, -1, &list, error)
          : gli_look_up_patiently("host", bare, "0", SOCK_STREAM, &retry, &list,
                                  error);
  if (status != GLOO_OK) return status;
  for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
    gli_endpoint endpoint;
    if (gli_endpoint_from_socket(a->ai_addr, a->ai_addrlen, &endpoint))
      (void)gli_endpoints_add(&found, &endpoint);
  }
  freeaddrinfo(list);
  if (found.n == 0)
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "host \"%.64s\" has neither an IPv4 nor an IPv6 address",
                    name);
  *out = found;
  return GLOO_OK;
}
