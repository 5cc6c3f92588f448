/* Environment variables: lines of NAME=VALUE. Variables through which a
 * launcher is reached or a library is loaded are left out: see fuzz_pmi.c. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/ports.h"
#include "net/published.h"
#include "rendezvous/join/host.h"
#include "rendezvous/launch/launch.h"
#include "security/secret.h"
#include "security/trust.h"
#if GLI_LINUX
#include "transport_shm/shm.h"
#endif

static const char *const names[] = {"GLOO_RANK",
                                    "GLOO_SIZE",
                                    "GLOO_STORE",
                                    "GLOO_JOB_ID",
                                    "GLOO_EPOCH",
                                    "GLOO_SERVICE",
                                    "RANK",
                                    "WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "TORCHELASTIC_RUN_ID",
                                    "TORCHELASTIC_RESTART_COUNT",
                                    "TORCHELASTIC_USE_AGENT_STORE",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_PROCID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "JOB_COMPLETION_INDEX",
                                    "HOSTNAME",
                                    "GLOO_PORT_RANGE",
                                    "GLOO_JOB_SECRET",
                                    "GLOO_SECURITY",
                                    "GLOO_SOCKET_IFNAME",
                                    "GLOO_BIND_ADDR",
                                    "GLOO_PUBLISH_ADDR",
                                    "GLOO_HOST_ID",
                                    "GLOO_SHM_READ"};
enum { NAMES = sizeof names / sizeof *names };

/* Other variables that the library would read from the program's
 * environment. */
static const char *const others[] = {"PMI_FD",         "PMI_RANK",
                                     "PMIX_NAMESPACE", "PMIX_RANK",
                                     "HOME",           "GLOO_JOB_SECRET_FILE"};
enum { OTHERS = sizeof others / sizeof *others };

static void unset_all(void) {
  for (int i = 0; i < NAMES; i++) unsetenv(names[i]);
  for (int i = 0; i < OTHERS; i++) unsetenv(others[i]);
}

/* Returns true if the value is a host name, whose look-up would use the
 * network. */
static bool asks_the_network(const char *name, const char *value) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *list;
  if (strcmp(name, "GLOO_BIND_ADDR") != 0 &&
      strcmp(name, "GLOO_PUBLISH_ADDR") != 0)
    return false;
  if (getaddrinfo(value, NULL, &hints, &list) != 0) return true;
  freeaddrinfo(list);
  return false;
}

static void set_one(char *line) {
  char *value = strchr(line, '=');
  if (value == NULL) return;
  *value++ = '\0';
  for (int i = 0; i < NAMES; i++)
    if (strcmp(line, names[i]) == 0 && !asks_the_network(line, value))
      setenv(line, value, 1);
}

static void read_numbers(void) {
  gloo_error error;
  uint64_t number;
  gloo_status status = gli_host_key(NULL, "shm", &number, &error);
  fuzz_check_error(status, &error);
#if GLI_LINUX
  gli_shm_reading reading;
  status = gli_shm_reading_read(&reading, &error);
  fuzz_check_error(status, &error);
#endif
}

static void read_all(void) {
  gloo_error error;
  gli_launch launch;
  gli_ports ports;
  gli_endpoints bound;
  gli_published published;
  gli_trust trust;
  gli_choice choice;
  uint32_t mark;
  gloo_status status = gli_launch_read(&launch, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) {
    gli_store_url url;
    fuzz_check(launch.rank < launch.size, "a rank is below the size");
    fuzz_check(launch.store[0] == '\0' ||
                   gli_store_url_read(launch.store, &url, &error) == GLOO_OK,
               "where ranks meet is a URL of a store");
  }
  status = gli_ports_read(0, &ports, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) {
    uint32_t n = gli_ports_count(&ports);
    fuzz_check(n >= 1 && n <= 65535, "there are ports to try");
    uint16_t last = gli_ports_at(&ports, n - 1);
    fuzz_check(last >= ports.first && last <= ports.last, "of the range");
  }
  status = gli_bind_read(&bound, &error);
  fuzz_check_error(status, &error);
  status = gli_published_given(&published, &error);
  fuzz_check_error(status, &error);
  if (getenv("GLOO_SOCKET_IFNAME") != NULL) {
    status = gli_choice_read(getenv("GLOO_SOCKET_IFNAME"), "the environment",
                             &choice, &error);
    fuzz_check_error(status, &error);
  }
  status = gli_trust_read(NULL, 0, &trust, &error);
  fuzz_check_error(status, &error);
  if (status != GLOO_OK) return;
  if (trust.asks) (void)gli_trust_mark(&trust, &mark, &error);
  gli_trust_release(&trust);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  char *line;
  unset_all();
  while ((line = fuzz_take_line(&input)) != NULL) {
    set_one(line);
    free(line);
  }
  read_all();
  read_numbers();
  unset_all();
  return 0;
}
