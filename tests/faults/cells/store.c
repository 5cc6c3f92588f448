/* The store of a cell: a directory, or a separate server, which may be the
 * victim. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell.h"

static const char *store_host(const cell *c) {
  return c->over == CELL_HOSTS ? "10.213.78.1" : "127.0.0.1";
}

static void serve(const cell *c, cell_board *board) {
  gloo_store *store;
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("GLOO_LOG_LEVEL", "error", 0);
  o.host = store_host(c);
  o.serve = 1;
  if (gloo_store_tcp_create(&o, &store, NULL) != GLOO_OK) _exit(90);
  atomic_store(&board->store_port, gloo_store_tcp_port(store));
  for (;;) pause();
}

void cell_store_begin(cell_run *run) {
  if (!run->c->fault->served) return;
  run->store = fork();
  if (run->store == 0) serve(run->c, run->board);
  while (atomic_load(&run->board->store_port) == 0) cell_nap_ns(1000000);
}

void cell_store_end(cell_run *run) {
  if (run->store <= 0) return;
  (void)kill(run->store, SIGKILL);
  (void)waitpid(run->store, NULL, 0);
  run->store = 0;
}

gloo_status cell_store_open(const cell *c, const char *directory,
                            const cell_board *board, gloo_store **store,
                            gloo_error *error) {
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  f.directory = directory;
  if (!c->fault->served) return gloo_store_file_create(&f, store, error);
  o.host = store_host(c);
  o.port = (uint16_t)atomic_load(&board->store_port);
  o.timeout_ns = c->fault->timeout_ns;
  return gloo_store_tcp_create(&o, store, error);
}
