#include "tools/run_here.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "net/host_name.h"

bool gli_run_is_loopback(const char *name) {
  struct in_addr four;
  struct in6_addr six;
  if (inet_pton(AF_INET, name, &four) == 1)
    return ntohl(four.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, name, &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return strcmp(name, "localhost") == 0;
}

/* Returns true if both are the same address, without ports. */
static bool same_address(const struct sockaddr *a, const struct sockaddr *b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)b)->sin_addr.s_addr;
  return a->sa_family == AF_INET6 &&
         memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                &((const struct sockaddr_in6 *)b)->sin6_addr,
                sizeof(struct in6_addr)) == 0;
}

/* Returns true if any of the addresses is that of an interface. */
static bool is_own(const struct addrinfo *list) {
  uv_interface_address_t *own;
  int n;
  if (uv_interface_addresses(&own, &n) != 0) return false;
  bool found = false;
  for (const struct addrinfo *at = list; at != NULL && !found; at = at->ai_next)
    for (int i = 0; i < n && !found; i++)
      found =
          same_address(at->ai_addr, (const struct sockaddr *)&own[i].address);
  uv_free_interface_addresses(own, n);
  return found;
}

static void on_resolved(uv_getaddrinfo_t *request, int status,
                        struct addrinfo *list) {
  gli_run_here *here = request->data;
  here->resolving = false;
  if (here->found != NULL) here->is_here = status == 0 && is_own(list);
  uv_freeaddrinfo(list);
  if (here->found != NULL) here->found(here);
}

void gli_run_here_find(uv_loop_t *loop, const gli_run_host *host,
                       gli_run_here *here, void (*found)(gli_run_here *here)) {
  here->found = found;
  bool elsewhere = host->user[0] != '\0' || host->port != 0;
  if (!elsewhere) {
    here->is_here =
        gli_run_is_loopback(host->name) || gli_host_name_is_own(host->name);
  }
  here->request.data = here;
  if (!elsewhere && !here->is_here &&
      uv_getaddrinfo(loop, &here->request, on_resolved, host->name, NULL,
                     NULL) == 0) {
    here->resolving = true;
    return;
  }
  found(here);
}
