/* Recognizes hosts of --hosts that are this one, and need no ssh. */
#ifndef GLI_TOOLS_RUN_HERE_H
#define GLI_TOOLS_RUN_HERE_H

#include <stdbool.h>
#include <uv.h>

#include "tools/run_hostlist.h"

typedef struct gli_run_here {
  bool is_here, resolving;
  void *user;
  void (*found)(struct gli_run_here *here); /* NULL: not awaited any more */
  uv_getaddrinfo_t request;
} gli_run_here;

/* Finds out whether the host is this one: its name is that of this host or of
 * loopback, or resolves to an address of this host. A host with a user or a
 * port is another one, and so is a name that does not resolve, which ssh may
 * know. Calls `found`, perhaps before it returns. */
void gli_run_here_find(uv_loop_t *loop, const gli_run_host *host,
                       gli_run_here *here, void (*found)(gli_run_here *here));

/* Returns true if the name is one of loopback: localhost, 127.x.x.x or ::1. */
bool gli_run_is_loopback(const char *name);

#endif
