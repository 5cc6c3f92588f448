#include "rendezvous/launch/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/environment.h"
#include "core/log.h"
#include "core/text.h"
#include "net/host_name.h"
#include "rendezvous/launch/pmi.h"

/* Default port of the rendezvous, the same as torchrun's. */
#define PORT_USUAL 29500u
/* Ports of Slurm jobs: below the ephemeral ports of systems. */
#define PORT_FIRST 20000u
#define PORTS 12000u
/* Maximum length of a host name; each byte may take three in a URL. */
#define HOST_MAX ((size_t)255)

/* ---- reading variables --------------------------------------------------- */

/* Reads a decimal number, digits only, between `min` and `max`. */
static gloo_status launch_read_number(const char *name, const char *meaning,
                                      uint64_t min, uint64_t max,
                                      uint64_t *number, gloo_error *error) {
  const char *text = gli_environment_read(name);
  uint64_t value = 0;
  bool good = true;
  for (const char *at = text; *at != '\0' && good; at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    good = *at >= '0' && *at <= '9' && gli_mul_u64(value, 10, &value) &&
           gli_add_u64(value, digit, &value);
  }
  if (!good || value < min || value > max)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the environment variable %s is '%s', expected %s: a "
                    "number from %" PRIu64 " to %" PRIu64,
                    name, gli_quote(text).text, meaning, min, max);
  *number = value;
  return GLOO_OK;
}

/* Reads a text. An error quotes a URL without its password. */
static gloo_status launch_read_text(const char *name, const char *meaning,
                                    size_t max_bytes, char *out,
                                    gloo_error *error) {
  const char *text = gli_environment_read(name);
  size_t bytes = strlen(text);
  if (bytes > max_bytes)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the environment variable %s is '%s' (%zu bytes), expected "
                    "%s of at most %zu bytes",
                    name, gli_store_url_shown(text).text, bytes, meaning,
                    max_bytes);
  memcpy(out, text, bytes + 1);
  return GLOO_OK;
}

/* Reads the host that MASTER_ADDR names. */
static gloo_status launch_read_host(char host[HOST_MAX + 1],
                                    gloo_error *error) {
  gloo_status status =
      launch_read_text("MASTER_ADDR", "the host name or address of rank 0",
                       HOST_MAX, host, error);
  const char *fault = status == GLOO_OK ? gli_host_name_fault(host) : NULL;
  if (fault == NULL) return status;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the environment variable MASTER_ADDR is '%s', expected the "
                  "host name or address of rank 0: it %s",
                  gli_quote(host).text, fault);
}

static gloo_status launch_take_place(gli_launch *launch, uint64_t rank,
                                     uint64_t size) {
  launch->rank = (uint32_t)rank;
  launch->size = (uint32_t)size;
  return GLOO_OK;
}

/* ---- URLs ---------------------------------------------------------------- */

/* Writes a host name or address in a URL: percent-encoded, and in brackets if
 * it has colons. `host` may have brackets. */
static void write_host(const char *host, char out[3 * HOST_MAX + 3]) {
  static const char odd[] = "%/@[]#? ", digits[] = "0123456789ABCDEF";
  size_t bytes = strlen(host);
  if (bytes > 1 && host[0] == '[' && host[bytes - 1] == ']') {
    host++;
    bytes -= 2;
  }
  bool colons = memchr(host, ':', bytes) != NULL;
  if (colons) *out++ = '[';
  for (size_t i = 0; i < bytes; i++) {
    if (strchr(odd, host[i]) != NULL) {
      *out++ = '%';
      *out++ = digits[(unsigned char)host[i] >> 4];
      *out++ = digits[(unsigned char)host[i] & 15];
    } else {
      *out++ = host[i];
    }
  }
  if (colons) *out++ = ']';
  *out = '\0';
}

static void launch_meet_at(gli_launch *launch, const char *scheme,
                           const char *host, uint64_t port, const char *path) {
  char shown[3 * HOST_MAX + 3];
  write_host(host, shown);
  snprintf(launch->store, sizeof launch->store, "%s://%s:%u%s", scheme, shown,
           (unsigned)port, path);
}

/* ---- this library's variables -------------------------------------------- */

static gloo_status rank_from_gloo(gli_launch *launch, gloo_error *error) {
  uint64_t size, rank;
  gloo_status status = launch_read_number("GLOO_SIZE", "the number of ranks", 1,
                                          GLI_RANKS_MAX, &size, error);
  if (status == GLOO_OK)
    status = launch_read_number("GLOO_RANK", "the rank, below GLOO_SIZE", 0,
                                size - 1, &rank, error);
  return status == GLOO_OK ? launch_take_place(launch, rank, size) : status;
}

/* ---- torchrun ------------------------------------------------------------ */

static gloo_status rank_from_torchrun(gli_launch *launch, gloo_error *error) {
  uint64_t size, rank;
  gloo_status status = launch_read_number("WORLD_SIZE", "the number of ranks",
                                          1, GLI_RANKS_MAX, &size, error);
  if (status == GLOO_OK)
    status = launch_read_number("RANK", "the rank, below WORLD_SIZE", 0,
                                size - 1, &rank, error);
  /* Other programs, such as `gloo run`, set these four variables too. */
  if (gli_environment_read("TORCHELASTIC_RUN_ID") != NULL)
    launch->launcher = "torchrun";
  return status == GLOO_OK ? launch_take_place(launch, rank, size) : status;
}

/* Uses the store that torchrun's agent serves there, and keeps while it
 * restarts its workers. On one host each start has its own keys. Agents of
 * several hosts count restarts differently, as only those whose workers failed
 * count: there each start replaces the record of the one before. */
static gloo_status torchrun_agent(gli_launch *launch, const char *host,
                                  uint64_t port, gloo_error *error) {
  uint64_t restart = 0;
  char path[64];
  if (gli_environment_read("TORCHELASTIC_RESTART_COUNT") != NULL) {
    gloo_status status = launch_read_number("TORCHELASTIC_RESTART_COUNT",
                                            "the number of restarts", 0,
                                            UINT32_MAX, &restart, error);
    if (status != GLOO_OK) return status;
  }
  const char *local = gli_environment_read("LOCAL_WORLD_SIZE");
  const char *all = gli_environment_read("WORLD_SIZE");
  launch->agent = true;
  launch->here = local != NULL && strcmp(local, all) == 0;
  /* A change of size does not count as a restart, so the path has the size. */
  snprintf(path, sizeof path, "/gloo_c/%" PRIu64 "/%u",
           launch->here ? restart : 0, launch->size);
  launch_meet_at(launch, "c10d", host, port, path);
  return GLOO_OK;
}

static gloo_status store_from_torchrun(gli_launch *launch, gloo_error *error) {
  char host[HOST_MAX + 1];
  uint64_t port;
  gloo_status status = launch_read_host(host, error);
  if (status == GLOO_OK)
    status =
        launch_read_number("MASTER_PORT", "the port that rank 0 listens on", 1,
                           65535, &port, error);
  if (status != GLOO_OK) return status;
  const char *agent = gli_environment_read("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != NULL && strcmp(agent, "True") == 0)
    return torchrun_agent(launch, host, port, error);
  launch_meet_at(launch, "tcp", host, port, "");
  launch->serves = true;
  return GLOO_OK;
}

/* ---- PMI-1 and PMIx ------------------------------------------------------ */

/* Time limit for joining: the launcher is on this host. */
#define JOIN_NS INT64_C(10000000000)

static gloo_status who_by(gli_pmi_kind kind, gli_launch *launch,
                          gloo_error *error) {
  gli_pmi_job job;
  gloo_status status = gli_pmi_join(kind, JOIN_NS, &job, error);
  if (status != GLOO_OK) return status;
  if (job.size > GLI_RANKS_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the launcher started %u ranks; the limit is %u",
                    (unsigned)job.size, (unsigned)GLI_RANKS_MAX);
  return launch_take_place(launch, job.rank, job.size);
}

static gloo_status rank_from_pmi(gli_launch *launch, gloo_error *error) {
  return who_by(GLI_PMI_SIMPLE, launch, error);
}

static gloo_status store_from_pmi(gli_launch *launch, gloo_error *error) {
  (void)error;
  memcpy(launch->store, "pmi:", 5);
  return GLOO_OK;
}

static gloo_status rank_from_pmix(gli_launch *launch, gloo_error *error) {
  return who_by(GLI_PMI_PMIX, launch, error);
}

static gloo_status store_from_pmix(gli_launch *launch, gloo_error *error) {
  (void)error;
  memcpy(launch->store, "pmix:", 6);
  return GLOO_OK;
}

/* Reads rank and size without PMIx; the user sets GLOO_STORE. */
static gloo_status rank_from_open_mpi(gli_launch *launch, gloo_error *error) {
  uint64_t size, rank;
  gloo_status status =
      launch_read_number("OMPI_COMM_WORLD_SIZE", "the number of ranks", 1,
                         GLI_RANKS_MAX, &size, error);
  if (status == GLOO_OK)
    status = launch_read_number("OMPI_COMM_WORLD_RANK", "the rank", 0, size - 1,
                                &rank, error);
  return status == GLOO_OK ? launch_take_place(launch, rank, size) : status;
}

/* ---- Slurm --------------------------------------------------------------- */

static gloo_status rank_from_slurm(gli_launch *launch, gloo_error *error) {
  uint64_t size, rank;
  gloo_status status =
      launch_read_number("SLURM_STEP_NUM_TASKS", "the number of ranks", 1,
                         GLI_RANKS_MAX, &size, error);
  if (status == GLOO_OK)
    status = launch_read_number("SLURM_PROCID", "the rank", 0, size - 1, &rank,
                                error);
  return status == GLOO_OK ? launch_take_place(launch, rank, size) : status;
}

/* Reads the first host of a list: rack1-n07 of "rack1-n[07-12,20],gpu3". */
static gloo_status first_node(char host[HOST_MAX + 1], gloo_error *error) {
  const char *list = gli_environment_read("SLURM_STEP_NODELIST");
  const char *at = list;
  size_t n = 0;
  while (*at != '\0' && *at != ',' && n < HOST_MAX) {
    if (*at != '[') {
      host[n++] = *at++;
      continue;
    }
    for (at++; *at >= '0' && *at <= '9' && n < HOST_MAX; at++) host[n++] = *at;
    at = strchr(at, ']');
    if (at == NULL) break;
    at++;
  }
  host[n] = '\0';
  if (at != NULL && n > 0 && (*at == '\0' || *at == ',')) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the environment variable SLURM_STEP_NODELIST is '%s', "
                  "expected the hosts of the step such as n[1-4]; or set "
                  "GLOO_STORE to the URL of a store",
                  gli_quote(list).text);
}

static gloo_status store_from_slurm(gli_launch *launch, gloo_error *error) {
  char host[HOST_MAX + 1];
  uint64_t job, step;
  gloo_status status = launch_read_number("SLURM_JOB_ID", "the job's number", 0,
                                          UINT32_MAX, &job, error);
  if (status == GLOO_OK)
    status = launch_read_number("SLURM_STEP_ID", "the step's number", 0,
                                UINT32_MAX, &step, error);
  if (status == GLOO_OK) status = first_node(host, error);
  if (status != GLOO_OK) return status;
  /* Consecutive jobs, and steps of a job, get different ports. */
  launch_meet_at(launch, "tcp", host, PORT_FIRST + (job * 61 + step) % PORTS,
                 "");
  launch->serves = true;
  snprintf(launch->job, sizeof launch->job, "slurm-%" PRIu64 ".%" PRIu64, job,
           step);
  return GLOO_OK;
}

/* ---- Kubernetes ---------------------------------------------------------- */

static gloo_status rank_from_kubernetes(gli_launch *launch, gloo_error *error) {
  uint64_t size, rank;
  gloo_status status = launch_read_number("GLOO_SIZE", "the number of ranks", 1,
                                          GLI_RANKS_MAX, &size, error);
  if (status == GLOO_OK)
    status =
        launch_read_number("JOB_COMPLETION_INDEX", "the rank, below GLOO_SIZE",
                           0, size - 1, &rank, error);
  return status == GLOO_OK ? launch_take_place(launch, rank, size) : status;
}

/* Forms the name of rank 0's pod: pods of an indexed job are called
 * <job>-<index>, and the headless service resolves <job>-0.<service>. */
static gloo_status store_from_kubernetes(gli_launch *launch,
                                         gloo_error *error) {
  char name[HOST_MAX + 1], service[HOST_MAX + 1], host[2 * HOST_MAX + 4];
  gloo_status status = launch_read_text("HOSTNAME", "the name of this pod",
                                        HOST_MAX, name, error);
  if (status == GLOO_OK)
    status = launch_read_text("GLOO_SERVICE", "the name of a headless service",
                              HOST_MAX, service, error);
  if (status != GLOO_OK) return status;
  char own[16];
  int bytes = snprintf(own, sizeof own, "-%u", (unsigned)launch->rank);
  size_t left = strlen(name) - (size_t)bytes;
  if (strlen(name) <= (size_t)bytes || strcmp(name + left, own) != 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the environment variable HOSTNAME is '%s', expected the "
                    "name of a pod of an indexed job, which ends in '%s'; or "
                    "set GLOO_STORE to the URL of a store",
                    gli_quote(name).text, own);
  snprintf(host, sizeof host, "%.*s-0.%s", (int)left, name, service);
  if (strlen(host) > HOST_MAX)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the name of rank 0's pod, '%s', has more than %zu bytes",
                    gli_quote(host).text, HOST_MAX);
  launch_meet_at(launch, "tcp", host, PORT_USUAL, "");
  launch->serves = true;
  return GLOO_OK;
}

/* ---- the launchers ------------------------------------------------------- */

#define VARIABLES_MAX 4

/* A launcher, recognised by any of `signs`. It needs all of `needs`, and also
 * `places` unless GLOO_STORE is set. */
typedef struct launcher {
  const char *name;
  const char *signs[VARIABLES_MAX];
  const char *needs[VARIABLES_MAX], *places[VARIABLES_MAX];
  gloo_status (*who)(gli_launch *launch, gloo_error *error);
  gloo_status (*where)(gli_launch *launch, gloo_error *error);
  const char *advice; /* for missing variables */
} launcher;

static const launcher launchers[] = {
    {"GLOO_RANK",
     {"GLOO_RANK"},
     {"GLOO_RANK", "GLOO_SIZE"},
     {NULL},
     rank_from_gloo,
     NULL,
     "set all of them, or none for a job of one rank"},
    {"RANK",
     {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
     {"RANK", "WORLD_SIZE"},
     {"MASTER_ADDR", "MASTER_PORT"},
     rank_from_torchrun,
     store_from_torchrun,
     "set all of them, or none for a job of one rank"},
    {"PMI-1",
     {"PMI_FD", "PMI_RANK"},
     {"PMI_FD"},
     {NULL},
     rank_from_pmi,
     store_from_pmi,
     "mpiexec sets it and keeps the descriptor open; for a job of one rank set "
     "GLOO_RANK=0 and GLOO_SIZE=1"},
    {"PMIx",
     {"PMIX_NAMESPACE", "PMIX_RANK"},
     {"PMIX_NAMESPACE", "PMIX_RANK"},
     {NULL},
     rank_from_pmix,
     store_from_pmix,
     "mpirun and srun set both; for a job of one rank set GLOO_RANK=0 and "
     "GLOO_SIZE=1"},
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     {"PMIX_NAMESPACE", "PMIX_RANK"},
     rank_from_open_mpi,
     store_from_pmix,
     "ranks started by mpirun connect through PMIx, which is not available; "
     "set GLOO_STORE to the URL of a store, or for a job of one rank "
     "GLOO_RANK=0 and GLOO_SIZE=1"},
    {"Slurm",
     {"SLURM_STEP_NUM_TASKS"},
     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
     {"SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID"},
     rank_from_slurm,
     store_from_slurm,
     "srun sets all of them; for a job of one rank set GLOO_RANK=0 and "
     "GLOO_SIZE=1"},
    {"Kubernetes",
     {"JOB_COMPLETION_INDEX"},
     {"JOB_COMPLETION_INDEX", "GLOO_SIZE"},
     {"GLOO_SERVICE", "HOSTNAME"},
     rank_from_kubernetes,
     store_from_kubernetes,
     "an indexed job of Kubernetes needs them (GLOO_SIZE: the number of pods, "
     "GLOO_SERVICE: its headless service); for a job of one rank set "
     "GLOO_RANK=0 and GLOO_SIZE=1"},
    /* Incomplete settings of the first, which another launcher's variables may
     * complete. */
    {"GLOO_RANK",
     {"GLOO_SIZE", "GLOO_STORE"},
     {"GLOO_RANK", "GLOO_SIZE"},
     {NULL},
     rank_from_gloo,
     NULL,
     "set all of them, or none for a job of one rank"},
};

static const launcher *find_launcher(void) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    for (size_t k = 0; k < VARIABLES_MAX && launchers[i].signs[k] != NULL; k++)
      if (gli_environment_read(launchers[i].signs[k]) != NULL)
        return &launchers[i];
  return NULL;
}

typedef struct variables {
  char set[192], missing[192];
} variables;

static void list_name(char list[192], const char *name) {
  size_t used = strlen(list);
  snprintf(list + used, 192 - used, "%s%s", used > 0 ? ", " : "", name);
}

static void list_variables(const char *const names[VARIABLES_MAX],
                           variables *found) {
  for (size_t i = 0; i < VARIABLES_MAX && names[i] != NULL; i++) {
    bool set = gli_environment_read(names[i]) != NULL;
    list_name(set ? found->set : found->missing, names[i]);
  }
}

static gloo_status check_complete(const launcher *l, bool place,
                                  gloo_error *error) {
  variables found = {"", ""};
  list_variables(l->needs, &found);
  if (place) list_variables(l->places, &found);
  if (found.missing[0] == '\0') return GLOO_OK;
  variables signs = {"", ""};
  list_variables(l->signs, &signs);
  return gli_fail(
      error, GLOO_ERR_INVALID, -1, "the environment has %s, but not %s: %s",
      found.set[0] != '\0' ? found.set : signs.set, found.missing, l->advice);
}

/* ---- the job ------------------------------------------------------------- */

/* Reads job and epoch. The job id of torchrun is "none" by default. */
static gloo_status launch_read_job(char job[GLI_JOB_MAX + 1], uint64_t *epoch,
                                   gloo_error *error) {
  const char *run = gli_environment_read("TORCHELASTIC_RUN_ID");
  gloo_status status = GLOO_OK;
  if (gli_environment_read("GLOO_JOB_ID") != NULL) {
    status = launch_read_text("GLOO_JOB_ID", "the name of the job", GLI_JOB_MAX,
                              job, error);
  } else if (run != NULL && strcmp(run, "none") != 0) {
    status = launch_read_text("TORCHELASTIC_RUN_ID", "the name of the job",
                              GLI_JOB_MAX, job, error);
  }
  if (status == GLOO_OK && gli_environment_read("GLOO_EPOCH") != NULL)
    status = launch_read_number("GLOO_EPOCH", "the number of the attempt", 0,
                                UINT64_MAX, epoch, error);
  return status;
}

/* Reads GLOO_STORE, or takes the launcher's store. */
static gloo_status read_place(const launcher *l, gli_launch *launch,
                              gloo_error *error) {
  if (gli_environment_read("GLOO_STORE") == NULL) {
    if (l->where != NULL) return l->where(launch, error);
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "the environment has GLOO_RANK, GLOO_SIZE, but not GLOO_STORE: %u "
        "ranks need a store, such as tcp://host:port",
        (unsigned)launch->size);
  }
  gli_store_url url;
  gloo_status status =
      launch_read_text("GLOO_STORE", "the URL of a store", GLI_STORE_URL_MAX,
                       launch->store, error);
  if (status == GLOO_OK)
    status = gli_store_url_read(launch->store, &url, error);
  if (status == GLOO_OK && strcmp(url.scheme, "env") == 0)
    status = gli_fail(error, GLOO_ERR_INVALID, -1,
                      "the environment variable GLOO_STORE is 'env:', which "
                      "refers to itself: set it to the URL of a store");
  return status;
}

gloo_status gli_launch_read(gli_launch *out, gloo_error *error) {
  gli_environment_check();
  const launcher *l = find_launcher();
  gli_launch launch = {.launcher = "none", .size = 1};
  gloo_status status = GLOO_OK;
  if (l != NULL) {
    bool elsewhere = gli_environment_read("GLOO_STORE") != NULL;
    launch.launcher = l->name;
    status = check_complete(l, !elsewhere, error);
    if (status == GLOO_OK) status = l->who(&launch, error);
    /* A job of one rank needs no store, but an invalid one is an error. */
    if (status == GLOO_OK && (launch.size > 1 || l->where != NULL || elsewhere))
      status = read_place(l, &launch, error);
  }
  if (status == GLOO_OK)
    status = launch_read_job(launch.job, &launch.epoch, error);
  if (status != GLOO_OK) return status;
  if (l == NULL)
    gli_log(GLOO_LOG_INFO,
            "no launcher found in the environment: running as a job of one "
            "rank");
  else
    gli_log(GLOO_LOG_INFO, "rank %u of %u (launcher: %s), store: %s",
            (unsigned)launch.rank, (unsigned)launch.size, launch.launcher,
            launch.size == 1 ? "none" : gli_store_url_shown(launch.store).text);
  *out = launch;
  return GLOO_OK;
}
