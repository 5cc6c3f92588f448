/* `gloo store`: a standalone server of a TCP store. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "gloo_c/store.h"
#include "tools/tools.h"

static const char *host = "127.0.0.1";
static int64_t port = 29500;

static const gli_option options[] = {
    {"host", 0, GLI_OPTION_TEXT, &host, "HOST",
     "address to listen on; 0.0.0.0 or :: for all (127.0.0.1)", 0, 0},
    {"port", 'p', GLI_OPTION_INTEGER, &port, "PORT",
     "port to listen on; 0 for a free one (29500)", 0, 65535},
};

static const gli_command command = {
    .name = "store",
    .usage = "gloo store [options]",
    .about =
        "Serves a store for the ranks of jobs: set "
        "GLOO_STORE=tcp://HOST:PORT,\n"
        "GLOO_RANK, GLOO_SIZE and a different GLOO_JOB_ID for each job. "
        "Prints\n"
        "its address and serves any number of jobs until SIGINT or SIGTERM.\n"
        "Any process that can reach the port can read and write the store.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

/* Raises the limit, because each client takes a descriptor or more. */
static void raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int gli_tool_store(int argc, char **argv) {
  gli_parse parsed = gli_options_parse(&command, argc, argv, NULL);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, NULL); /* before the server has a thread */
  raise_limit();
  gloo_store_tcp_options o = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_store *store;
  gloo_error error;
  o.host = host;
  o.port = (uint16_t)port;
  o.serve = 1;
  if (gloo_store_tcp_create(&o, &store, &error) != GLOO_OK) {
    fprintf(stderr, "gloo store: %s\n", error.message);
    return GLI_EXIT_FAILED;
  }
  bool brackets = strchr(host, ':') != NULL && host[0] != '[';
  printf("GLOO_STORE=tcp://%s%s%s:%u\n", brackets ? "[" : "", host,
         brackets ? "]" : "", (unsigned)gloo_store_tcp_port(store));
  fflush(stdout);
  int signum;
  while (sigwait(&ends, &signum) == EINTR) continue;
  gloo_store_destroy(store);
  return GLI_EXIT_OK;
}
