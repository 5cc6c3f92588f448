#include "tools/run_here.h"

#include <netdb.h>
#include <string.h>

#include "net/endpoint.h"
#include "net/host_name.h"
#include "net/tcp_address.h"

bool gli_run_is_loopback(const char *name) {
  gli_endpoint at;
  return gli_endpoint_from_text(name, &at) ? gli_endpoint_is_loopback(&at)
                                           : strcmp(name, "localhost") == 0;
}

/* Returns true if any of the addresses is one of this host. */
static bool is_own(const struct addrinfo *list) {
  bool here = false;
  for (; list != NULL && !here; list = list->ai_next) {
    struct sockaddr_storage at = {0};
    memcpy(&at, list->ai_addr, list->ai_addrlen);
    (void)gli_tcp_address_is_here(&at, &here);
  }
  return here;
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
