/* Faults of the network. Two hosts are network namespaces that hosts.sh has
 * joined by a veth pair. A wrong link-layer address for the other host loses
 * all packets silently: no queue fills, the carrier stays up, and no error
 * returns. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "network.h"

/* Moves the process to the other host's namespace for good, before it becomes a
 * rank. */
void cell_enter_other_host(void) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/ns/net", (int)cell_other_host);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) _exit(83);
  close(fd);
}

static void run_command(const char *command) {
  if (system(command) == 0) return;
  fprintf(stderr, "# failed: %s\n", command);
  exit(2);
}

#define NOWHERE " lladdr 02:00:00:00:00:01 nud permanent dev "

static void lose_from_here(void) {
  run_command("ip neigh replace 10.213.78.2" NOWHERE "here");
}

static void lose_from_there(void) {
  char command[160];
  (void)snprintf(command, sizeof command,
                 "nsenter -t %d -n ip neigh replace 10.213.78.1" NOWHERE
                 "there",
                 (int)cell_other_host);
  run_command(command);
}

/* Restores address resolution on both hosts. */
void cell_heal_network(cell_run *run) {
  char command[160];
  (void)run;
  run_command("ip neigh flush nud permanent dev here");
  (void)snprintf(command, sizeof command,
                 "nsenter -t %d -n ip neigh flush nud permanent dev there",
                 (int)cell_other_host);
  run_command(command);
}

void cell_strike_blackhole(cell_run *run) {
  (void)run;
  lose_from_here();
  lose_from_there();
}

void cell_strike_loss_from_victim(cell_run *run) {
  (void)run;
  lose_from_there();
}

void cell_strike_loss_to_victim(cell_run *run) {
  (void)run;
  lose_from_here();
}

/* Acts as a power failure: the peers of the killed ranks see no end of their
 * connections. */
void cell_strike_half_open(cell_run *run) {
  cell_strike_blackhole(run);
  for (int rank = 0; rank < run->c->ranks; rank++)
    if (cell_is_there(run->c, rank)) (void)kill(run->pids[rank], SIGKILL);
}
