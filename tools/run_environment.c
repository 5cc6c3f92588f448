#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/environment.h"
#include "net/ports.h"
#include "rendezvous/store/tcp/tcp_local.h"
#include "security/keys.h"
#include "tools/run.h"
#include "tools/tools.h"

extern char **environ;

/* ---- the port ------------------------------------------------------------ */

/* Returns a socket of a family, bound to an address, or -1, with errno. Its
 * actual address replaces that. */
static int bind_address(struct sockaddr_storage *address, socklen_t length) {
  int fd = socket(address->ss_family, SOCK_STREAM, 0), no = 0;
  if (fd < 0) return -1;
  if (address->ss_family == AF_INET6)
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
      bind(fd, (const struct sockaddr *)address, length) == 0 &&
      getsockname(fd, (struct sockaddr *)address, &length) == 0)
    return fd;
  gli_fd_close(fd);
  return -1;
}

/* Returns a socket bound to a port of the loopback interface, or of all
 * interfaces; port 0: any free one. */
static int bind_port(bool everywhere, uint16_t port,
                     struct sockaddr_storage *address) {
  memset(address, 0, sizeof *address);
  if (everywhere) { /* both families, if the host has both */
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    six->sin6_family = AF_INET6;
    six->sin6_addr = in6addr_any;
    six->sin6_port = htons(port);
    int fd = bind_address(address, sizeof *six);
    if (fd >= 0 || errno == EADDRINUSE || errno == EACCES) return fd;
    memset(address, 0, sizeof *address);
  }
  struct sockaddr_in *four = (struct sockaddr_in *)address;
  four->sin_family = AF_INET;
  four->sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
  four->sin_port = htons(port);
  return bind_address(address, sizeof *four);
}

static uint16_t port_of(const struct sockaddr_storage *address) {
  return ntohs(address->ss_family == AF_INET6
                   ? ((const struct sockaddr_in6 *)address)->sin6_port
                   : ((const struct sockaddr_in *)address)->sin_port);
}

/* Returns true if another process has the name of the local socket for a store
 * at that port of 127.0.0.1. */
static bool local_name_is_taken(uint16_t port) {
  struct sockaddr_storage at;
  memset(&at, 0, sizeof at);
  struct sockaddr_in *four = (struct sockaddr_in *)&at;
  four->sin_family = AF_INET;
  four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  four->sin_port = htons(port);
  int fd = gli_tcp_local_listen(&at);
  bool taken = fd < 0 && errno == EADDRINUSE;
  gli_fd_close(fd);
  return taken;
}

bool gli_run_pick_port(bool everywhere, uint16_t *port, int *reservation,
                       gloo_error *error) {
  enum { TRIES = 16 }; /* at last the store works without the name */
  gli_ports ports = {0};
  if (everywhere && gli_ports_read(0, &ports, error) != GLOO_OK) return false;
  uint32_t tries = gli_ports_count(&ports);
  if (tries < TRIES) tries = TRIES;
  struct sockaddr_storage address;
  int fd = -1;
  for (uint32_t i = 0; i < tries; i++) {
    gli_fd_close(fd);
    fd = bind_port(everywhere,
                   gli_ports_at(&ports, i % gli_ports_count(&ports)), &address);
    if (fd >= 0 && !local_name_is_taken(port_of(&address))) break;
    if (fd < 0 && errno != EADDRINUSE) break;
  }
  if (fd < 0) goto failed;
  *port = port_of(&address);
#if GLI_LINUX
  /* Bound, but never listening: Linux then assigns the port to no socket that
   * does not ask for it, and lets a socket with SO_REUSEADDR listen. */
  int yes = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) {
    goto failed;
  }
  *reservation = fd;
#else
  close(fd);
  *reservation = -1;
#endif
  return true;
failed:
  gli_fail(error, GLOO_ERR_ADDRESS, -1,
           "cannot find a free port%s: %s; set one with --port",
           everywhere ? "" : " on 127.0.0.1", strerror(errno));
  gli_fd_close(fd);
  return false;
}

/* ---- the variables ------------------------------------------------------- */

enum { N_VARIABLES = 10 };
static const char *const variable_names[N_VARIABLES] = {
    "RANK",        "WORLD_SIZE",     "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT",    "GLOO_JOB_ID", "GLOO_STORE",
    "GLOO_JOIN",   "GLOO_JOB_SECRET"};

/* Returns the value of a variable, or NULL if it is not set here. */
static const char *variable_value(const gli_run_environment *shared,
                                  const gli_run_place *place, size_t i,
                                  char number[16]) {
  const int numbers[] = {place->rank, shared->ranks,
                         place->rank - shared->first, shared->here};
  const char *const texts[] = {shared->job, shared->store,
                               place->joins ? "1" : "", shared->secret};
  if (i == 4) return shared->master;
  if (i > 5) return texts[i - 6][0] != '\0' ? texts[i - 6] : NULL;
  snprintf(number, 16, "%d", i == 5 ? (int)shared->port : numbers[i]);
  return number;
}

/* Returns "NAME=value", allocated. */
static char *make_variable(const char *name, const char *value) {
  size_t bytes = strlen(name) + strlen(value) + 2;
  char *text = malloc(bytes);
  if (text != NULL) snprintf(text, bytes, "%s=%s", name, value);
  return text;
}

/* Variables of an outer job, which would take precedence over ours. */
static const char *const removed[] = {"GLOO_RANK", "GLOO_SIZE",
                                      "TORCHELASTIC_USE_AGENT_STORE"};

static bool is_named(const char *variable, const char *name) {
  size_t length = strcspn(variable, "=");
  return strlen(name) == length && strncmp(name, variable, length) == 0;
}

static bool is_passed_on(const char *variable,
                         const gli_run_environment *shared,
                         const gli_run_place *place) {
  char number[16];
  for (size_t i = 0; i < N_VARIABLES; i++) {
    if (is_named(variable, variable_names[i]))
      return variable_value(shared, place, i, number) == NULL;
  }
  for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
    if (is_named(variable, removed[i])) return false;
  }
  return true;
}

/* The first entries, which are the variables set here, are allocated; the
 * others are borrowed. */
char **gli_run_environment_make(const gli_run_environment *shared,
                                const gli_run_place *place) {
  size_t inherited = 0, used = 0;
  char number[16];
  while (environ[inherited] != NULL) inherited++;
  char **all = calloc(inherited + N_VARIABLES + 1, sizeof *all);
  if (all == NULL) return NULL;
  for (size_t i = 0; i < N_VARIABLES; i++) {
    const char *value = variable_value(shared, place, i, number);
    if (value == NULL) continue;
    all[used] = make_variable(variable_names[i], value);
    if (all[used++] != NULL) continue;
    gli_run_environment_free(shared, place, all);
    return NULL;
  }
  for (size_t i = 0; i < inherited; i++) {
    if (is_passed_on(environ[i], shared, place)) all[used++] = environ[i];
  }
  return all;
}

void gli_run_environment_free(const gli_run_environment *shared,
                              const gli_run_place *place, char **environment) {
  char number[16];
  if (environment == NULL) return;
  for (size_t i = 0, used = 0; i < N_VARIABLES; i++) {
    if (variable_value(shared, place, i, number) == NULL) continue;
    char *text = environment[used++];
    if (text != NULL) gli_wipe(text, strlen(text));
    free(text);
  }
  free(environment);
}

char **gli_run_plain_environment(char *first) {
  size_t n = 0, kept = 0;
  while (environ[n] != NULL) n++;
  char **all = calloc(n + 2, sizeof *all);
  if (all == NULL) return NULL;
  if (first != NULL) all[kept++] = first;
  for (size_t i = 0; i < n; i++)
    if (strncmp(environ[i], "GLOO_", 5) != 0) all[kept++] = environ[i];
  return all;
}
