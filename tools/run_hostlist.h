/* Hosts of `gloo run`: --hosts, --hostfile, and the ranks of each host. */
#ifndef GLI_TOOLS_RUN_HOSTLIST_H
#define GLI_TOOLS_RUN_HOSTLIST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum { GLI_RUN_HOSTS_MAX = 4096, GLI_RUN_RANKS_MAX = 16384 };

typedef struct gli_run_host {
  char name[256]; /* without user, port and brackets */
  char user[64];  /* "": not given */
  uint16_t port;  /* its ssh server's; 0: not given */
  int slots;      /* 0: not given */
  int mentions;   /* entries of the list with this host */
  int first;      /* first rank, set by gli_run_hosts_place */
  int ranks;
} gli_run_host;

typedef struct gli_run_hosts {
  int n;
  gli_run_host *list; /* GLI_RUN_HOSTS_MAX entries, allocated */
} gli_run_hosts;

/* Adds the hosts of a text: "a:4,user@b:2222:2,[fd00::1]:4". Numbers after a
 * name are slots, or port and slots; a single number after a name with a user
 * is the port. A host that is listed repeatedly gets the sum of its slots.
 * `hosts` begins as zeros, and gli_run_hosts_free releases it after errors,
 * too. */
bool gli_run_hosts_parse(const char *text, gli_run_hosts *hosts,
                         gloo_error *error);

/* Adds the hosts of a file, in the syntax of Open MPI ("host slots=4") or of
 * MPICH ("host:4"). Text after # is a comment. */
bool gli_run_hosts_read(const char *path, gli_run_hosts *hosts,
                        gloo_error *error);

/* Places *ranks ranks: as many per host as it has slots, in the order of the
 * list; evenly if the list has no slots. `ppn`, unless 0, replaces the slots of
 * all hosts. *ranks is 0 for one rank per slot, and becomes their number. Hosts
 * without ranks are removed. */
bool gli_run_hosts_place(gli_run_hosts *hosts, int ppn, int *ranks,
                         gloo_error *error);

void gli_run_hosts_free(gli_run_hosts *hosts);

/* Returns the host of a rank. */
int gli_run_hosts_of(const gli_run_hosts *hosts, int rank);

#endif
