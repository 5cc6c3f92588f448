#include "core/host_name.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/lack.h"

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

/* errno, if a look-up failed for want of something here; else 0. The resolver
 * does not always tell: without a descriptor for a question, no server answers.
 */
static int host_lookup_lack(int code) {
  if (code == EAI_MEMORY) return ENOMEM;
  if (code == EAI_SYSTEM) return gli_lacking(errno) ? errno : 0;
  int probe = gli_socket_open(AF_INET, SOCK_DGRAM);
  if (probe < 0) return gli_lacking(errno) ? errno : 0;
  gli_fd_close(probe);
  return 0;
}

static int host_look_up(const char *bare, struct addrinfo **list) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                           .ai_flags = AI_NUMERICHOST};
  if (getaddrinfo(bare, NULL, &hints, list) == 0) return 0;
  hints.ai_flags = 0;
  return getaddrinfo(bare, NULL, &hints, list);
}

gloo_status gli_host_resolve(const char *name, gli_endpoints *out,
                             gloo_error *error) {
  char bare[GLI_HOST_NAME_BYTES];
  struct addrinfo *list = NULL;
  gli_endpoints found = {.n = 0};
  int code = EAI_NONAME;
  if (gli_host_name_bare(name, bare)) code = host_look_up(bare, &list);
  int lack = code != 0 ? host_lookup_lack(code) : 0;
  if (lack != 0)
    return gli_fail(error, gli_lack_status(lack), -1,
                    "host \"%.64s\" cannot be looked up: %s", name,
                    gli_lack_text(lack));
  if (code != 0)
    return gli_fail(error, GLOO_ERR_ADDRESS, -1,
                    "host \"%.64s\" does not resolve: %s", name,
                    gai_strerror(code));
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
