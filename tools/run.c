#include "tools/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/random.h"
#include "rendezvous/store/store_url.h"
#include "security/keys.h"
#include "security/secret.h"
#include "tools/run_carried.h"
#include "tools/run_control.h"
#include "tools/run_here.h"
#include "tools/run_hostlist.h"
#include "tools/tools.h"

enum {
  GRACE_MS = 2000,
  LOST_MS = 4000,
  HOSTS_AT_ONCE = 64,
  NOT_GIVEN = -1 /* value of an option */
};

static int64_t ranks = 0;
static int64_t grace_ms = NOT_GIVEN;
static int64_t min_ranks = 0, max_restarts = 0;
static int64_t port = 0;
static bool prefix = false;
static bool no_bind = false;
static const char *hosts = NULL, *hostfile = NULL, *by = NULL, *rsh = NULL,
                  *carried = NULL, *directory = NULL, *master = NULL;
static int64_t ppn = 0, lost_ms = NOT_GIVEN, parallel = 0, fanout = NOT_GIVEN;
static const char *store = NULL, *join = NULL;
static bool execute = false;
static bool is_agent = false;

static const gli_option options[] = {
    {"ranks", 'n', GLI_OPTION_INTEGER, &ranks, "N",
     "number of ranks (required without slots)", 1, GLI_RUN_RANKS_MAX},
    {"prefix", 0, GLI_OPTION_FLAG, &prefix, NULL,
     "prefix each line of output with its rank: [0] or [0 host]", 0, 0},
    {"no-bind", 0, GLI_OPTION_FLAG, &no_bind, NULL,
     "do not bind ranks to cores", 0, 0},
    {"grace-ms", 0, GLI_OPTION_INTEGER, &grace_ms, "MS",
     "time for the other ranks to exit after a failure (2000)", 0, 3600000},
    {"min-ranks", 0, GLI_OPTION_INTEGER, &min_ranks, "N",
     "continue after failures while at least N ranks are left", 1,
     GLI_RUN_RANKS_MAX},
    {"max-restarts", 0, GLI_OPTION_INTEGER, &max_restarts, "N",
     "replace ranks that fail, N times in all, by processes that join", 1,
     GLI_RUN_RANKS_MAX},
    {"store", 0, GLI_OPTION_TEXT, &store, "HOST:PORT",
     "serve a store there, by which processes can join", 0, 0},
    {"join", 0, GLI_OPTION_TEXT, &join, "HOST:PORT",
     "start ranks that join the job with this store", 0, 0},
    {"port", 0, GLI_OPTION_INTEGER, &port, "PORT", "MASTER_PORT (a free one)",
     1, 65535},
    {"hosts", 0, GLI_OPTION_TEXT, &hosts, "A,B",
     "start ranks on these hosts: a:4 has 4 slots", 0, 0},
    {"hostfile", 0, GLI_OPTION_TEXT, &hostfile, "FILE",
     "file with hosts: lines 'a slots=4' or 'a:4'", 0, 0},
    {"ppn", 0, GLI_OPTION_INTEGER, &ppn, "K", "start K ranks per host", 1,
     GLI_RUN_RANKS_MAX},
    {"rsh", 0, GLI_OPTION_TEXT, &rsh, "COMMAND",
     "command that reaches hosts, such as 'ssh -F file' (ssh)", 0, 0},
    {"env", 0, GLI_OPTION_TEXT, &carried, "A,B",
     "also carry these variables to the hosts", 0, 0},
    {"chdir", 0, GLI_OPTION_TEXT, &directory, "DIRECTORY",
     "working directory on the hosts (this one)", 0, 0},
    {"master-addr", 0, GLI_OPTION_TEXT, &master, "NAME",
     "MASTER_ADDR (rank 0's host)", 0, 0},
    {"lost-ms", 0, GLI_OPTION_INTEGER, &lost_ms, "MS",
     "time without a beat after which a host is lost (4000)", 1000, 3600000},
    {"parallel", 0, GLI_OPTION_INTEGER, &parallel, "N",
     "start at most N hosts at the same time (64)", 1, GLI_RUN_HOSTS_MAX},
    {"fanout", 0, GLI_OPTION_INTEGER, &fanout, "N",
     "start N hosts from here, and others from them; 0: all from here", 0,
     GLI_RUN_HOSTS_MAX},
    {"by", 0, GLI_OPTION_TEXT, &by, "WAY",
     "print the command of srun, mpirun (Open MPI) or mpiexec (MPICH)", 0, 0},
    {"execute", 0, GLI_OPTION_FLAG, &execute, NULL,
     "with --by: run that command", 0, 0},
    {"agent", 0, GLI_OPTION_FLAG, &is_agent, NULL,
     "run as the agent of a host (used by --hosts)", 0, 0},
};

static const gli_command command = {
    .name = "run",
    .usage = "gloo run -n N [options] [--] program [arguments]",
    .about =
        "Starts the program N times, on this host or on several, and waits "
        "for\n"
        "all processes. Each gets RANK, WORLD_SIZE, LOCAL_RANK,\n"
        "LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GLOO_JOB_ID and, unless "
        "it\n"
        "is already set, a random GLOO_JOB_SECRET. The program name 'gloo' "
        "means\n"
        "this command. Rank 0 reads the standard input. SIGINT, SIGTERM, "
        "SIGHUP,\n"
        "SIGUSR1 and SIGUSR2 are forwarded; a third SIGINT or SIGTERM kills "
        "the\n"
        "ranks. If ranks outnumber the cores of a host and divide evenly "
        "among\n"
        "them, each rank is bound to one core, neighbours together (Linux),\n"
        "unless you pass --no-bind. When a rank fails, the others get time to\n"
        "report it (--grace-ms), then SIGTERM, then SIGKILL. The exit status "
        "is\n"
        "that of the rank that failed first (128 + signal for a signal). The\n"
        "others continue (gloo_context_shrink) with --min-ranks until fewer "
        "are\n"
        "left; the status is then that of the rank whose failure caused this.\n"
        "\n"
        "With --max-restarts another process takes the place of a rank that\n"
        "fails. It has GLOO_JOIN=1, so the program must be an elastic loop, as "
        "by\n"
        "gloo_elastic_next. This command then serves the store that "
        "GLOO_STORE\n"
        "names, unless the user has set GLOO_STORE. With --store HOST:PORT "
        "others\n"
        "can add ranks, from any host that holds the same GLOO_JOB_SECRET:\n"
        "gloo run -n N --join HOST:PORT.\n"
        "\n"
        "With --hosts a:4,b:2 four ranks run on host a and two on b, by ssh; "
        "a\n"
        "host that is this one needs no ssh. Without slots, ranks are divided\n"
        "evenly. With a user, the first number is the port of ssh:\n"
        "user@a:2222:4; addresses of IPv6 stand in brackets: [fd00::1]:4. ssh\n"
        "must log in without a password, and the same version of gloo_c must "
        "be\n"
        "on all hosts. Ranks get all GLOO_ variables, PATH, LD_LIBRARY_PATH,\n"
        "PYTHONPATH, VIRTUAL_ENV, CONDA_PREFIX and OMP_ variables of this "
        "host,\n"
        "through ssh's standard input: all users can read command lines. When "
        "a\n"
        "connection ends, the ranks of that host end. From 33 hosts on, hosts\n"
        "start others (--fanout). The status is 1 if a host is lost, and 126 "
        "or\n"
        "127 if one cannot start its ranks.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .stop_at_operand = true,
};

/* ---- the job's name and secret ------------------------------------------- */

enum { JOB_BYTES = 16, SECRET_BYTES = 32 };

/* Writes `bytes` random bytes in hexadecimal; `text` has room for two
 * characters per byte and a 0. */
static bool make_random(size_t bytes, const char *meaning, char *text,
                        gloo_error *error) {
  unsigned char random[SECRET_BYTES];
  const char *what = "";
  int code = gli_random(random, bytes, &what);
  if (code != 0) {
    gli_fail(error, GLOO_ERR_IO, -1, "cannot get random bytes for %s: %s: %s",
             meaning, what, strerror(code));
    return false;
  }
  for (size_t i = 0; i < bytes; i++)
    snprintf(text + 2 * i, 3, "%02x", random[i]);
  gli_wipe(random, sizeof random);
  return true;
}

/* Makes a secret for this job, unless the user has set one. With `carry`, the
 * secret of the user's own file becomes the job's: other hosts may lack it.
 * Reports a wrong or missing setting once, instead of from every rank. */
static bool make_secret(gli_run_environment *job, bool carry,
                        gloo_error *error) {
  gli_security security;
  gli_secret said;
  gli_key key;
  if (gli_security_read(&security, error) != GLOO_OK) return false;
  if (security == GLI_SECURITY_OFF) return true;
  if (gli_secret_read(NULL, 0, &said, error) != GLOO_OK) return false;
  bool has_one = said.n_bytes > 0;
  for (size_t i = 0; carry && i < said.n_bytes; i++)
    snprintf(job->secret + 2 * i, 3, "%02x", said.bytes[i]);
  gli_secret_release(&said);
  if (security == GLI_SECURITY_REQUIRE &&
      gli_key_extract("", 0, "gloo run", 8, &key, error) != GLOO_OK) {
    gli_error_prefix(error, "GLOO_SECURITY=required: ");
    return false;
  }
  /* Newcomers need the secret of the job. */
  if (has_one || join != NULL || gli_openssl_version() == NULL) return true;
  return make_random(SECRET_BYTES, "the job's secret", job->secret, error);
}

/* Makes the job's name and secret. `elsewhere`: ranks run on other hosts, where
 * a file with the secret may exist only; agents carry the secret. */
static bool name_job(gli_run_environment *job, bool elsewhere,
                     gloo_error *error) {
  if (!make_random(JOB_BYTES, "a job id", job->job, error)) return false;
  bool has_file = gli_environment_read("GLOO_JOB_SECRET_FILE") != NULL;
  return (elsewhere && has_file) ||
         make_secret(job, elsewhere && by == NULL, error);
}

/* Sets the store of the job to join, from its URL or address. */
static bool find_job(gli_run_environment *job, gloo_error *error) {
  gli_store_url url;
  const char *scheme =
      join == NULL || strstr(join, "://") != NULL ? "" : "tcp://";
  if (join == NULL) return true;
  int used = snprintf(job->store, sizeof job->store, "%s%s", scheme, join);
  if (used >= (int)sizeof job->store) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "option --join: the address has %d bytes, and the limit is %zu",
             used, sizeof job->store - 1);
    return false;
  }
  if (gli_store_url_read(job->store, &url, error) == GLOO_OK) return true;
  gli_error_prefix(error, "option --join: ");
  return false;
}

static char **copy_arguments(char **argv, int count) {
  char **copy = calloc((size_t)count + 1, sizeof *copy);
  for (int i = 0; copy != NULL && i < count; i++) copy[i] = argv[i];
  return copy;
}

static int fail(int exit_status, const gloo_error *error) {
  fprintf(stderr, "gloo run: %s\n", error->message);
  return exit_status;
}

/* ---- several hosts ------------------------------------------------------- */

/* Reads and places the hosts; sets `ranks`. */
static bool read_hosts(gli_run_hosts *list, gloo_error *error) {
  memset(list, 0, sizeof *list);
  int n = (int)ranks;
  bool good = hosts != NULL ? gli_run_hosts_parse(hosts, list, error)
                            : gli_run_hosts_read(hostfile, list, error);
  good = good && gli_run_hosts_place(list, (int)ppn, &n, error);
  ranks = n;
  return good;
}

/* Returns the name of rank 0's host for all hosts. A name of loopback means
 * another host there, so it becomes this host's name. */
static const char *master_of(const gli_run_hosts *list) {
  static char own[256];
  if (master != NULL) return master;
  const char *name = list->list[0].name;
  if (list->n == 1 || !gli_run_is_loopback(name)) return name;
  return gethostname(own, sizeof own - 1) == 0 ? own : name;
}

/* Fills the setup of all hosts. The array of variables is allocated. */
static bool make_setup(gli_run_setup *setup, const gli_run_hosts *list,
                       gli_run_environment *job, char **arguments,
                       gloo_error *error) {
  static char here[GLI_RUN_PATH_MAX], own[256], none[] = "";
  if (directory == NULL && getcwd(here, sizeof here) == NULL) {
    gli_fail(error, GLOO_ERR_IO, -1,
             "cannot find out the working directory; set one with --chdir");
    return false;
  }
  if (directory != NULL) snprintf(here, sizeof here, "%s", directory);
  snprintf(own, sizeof own, "%s", master_of(list));
  *setup = (gli_run_setup){
      .world = (uint32_t)ranks,
      .port = (uint32_t)port,
      .bind = !no_bind,
      .lines = prefix,
      .grace_ms = (uint32_t)(grace_ms == NOT_GIVEN ? GRACE_MS : grace_ms),
      .lost_ms = (uint32_t)(lost_ms == NOT_GIVEN ? LOST_MS : lost_ms),
      .directory = here,
      .chosen = directory == NULL ? none : here,
      .master = own,
      .job = job->job,
      .secret = job->secret,
      .arguments = arguments,
      .variables = gli_run_carried(carried, error)};
  return setup->variables != NULL;
}

static int run_by_ssh(gli_run_hosts *list, gli_run_environment *job,
                      char **arguments, gloo_error *error) {
  gli_run_plan plan = {.hosts = *list,
                       .prefix = prefix,
                       .parallel = parallel > 0 ? (int)parallel : HOSTS_AT_ONCE,
                       .min_ranks = (int)min_ranks,
                       .fanout = (int)fanout};
  int status = GLI_EXIT_USAGE;
  if (!make_setup(&plan.setup, list, job, arguments, error))
    return fail(status, error);
  if (gli_run_rsh_parse(rsh != NULL ? rsh : "ssh", &plan.rsh, &status, error))
    status = gli_run_session(gli_run_control, &plan);
  else
    (void)fail(status, error);
  gli_run_rsh_free(&plan.rsh);
  free(plan.setup.variables);
  return status;
}

static int run_on_hosts(char **argv, int n_operands) {
  gloo_error error;
  gli_run_hosts list;
  gli_run_options job = {.environment = {.port = (uint16_t)port}};
  int status = GLI_EXIT_FAILED;
  job.arguments = copy_arguments(argv, n_operands);
  if (job.arguments == NULL) {
    fprintf(stderr, "gloo run: out of memory\n");
    return status;
  }
  if (!read_hosts(&list, &error)) {
    status = fail(GLI_EXIT_USAGE, &error);
  } else if (min_ranks > ranks) {
    status = gli_usage_error(&command, "--min-ranks exceeds the ranks");
  } else if (!name_job(&job.environment, true, &error)) {
    status = fail(GLI_EXIT_FAILED, &error);
  } else if (by == NULL) {
    status = run_by_ssh(&list, &job.environment, job.arguments, &error);
  } else {
    job.ranks = (int)ranks;
    status = gli_run_by(by, execute, &list, &job, &error);
    if (status != GLI_EXIT_OK) (void)fail(status, &error);
  }
  gli_wipe(job.environment.secret, sizeof job.environment.secret);
  free(job.arguments);
  gli_run_hosts_free(&list);
  return status;
}

/* ---- one host ------------------------------------------------------------ */

static int run_here(char **argv, int n_operands) {
  gloo_error error;
  char path[GLI_RUN_PATH_MAX];
  int status = GLI_EXIT_FAILED, reservation = -1;
  if (!gli_run_find(argv[0], path, &status, &error))
    return fail(status, &error);
  gli_run_options job = {
      .ranks = (int)ranks,
      .prefix = prefix,
      .piped = prefix,
      .bind = !no_bind,
      .grace_ms = grace_ms == NOT_GIVEN ? GRACE_MS : grace_ms,
      .min_ranks = (int)min_ranks,
      .max_restarts = (int)max_restarts,
      .joins = join != NULL,
      .serves = store != NULL || (max_restarts > 0 && join == NULL &&
                                  gli_environment_read("GLOO_STORE") == NULL),
      .store = store,
      .path = path,
      .environment = {.ranks = (int)ranks,
                      .here = (int)ranks,
                      .port = (uint16_t)port,
                      .master = "127.0.0.1"}};
  if (!name_job(&job.environment, false, &error) ||
      !find_job(&job.environment, &error))
    return fail(status, &error);
  if (port == 0 &&
      !gli_run_pick_port(false, &job.environment.port, &reservation, &error))
    return fail(status, &error);
  job.arguments = copy_arguments(argv, n_operands);
  if (job.arguments != NULL) status = gli_run_session(gli_run_local, &job);
  if (job.arguments == NULL) fprintf(stderr, "gloo run: out of memory\n");
  gli_wipe(job.environment.secret, sizeof job.environment.secret);
  free(job.arguments);
  if (reservation >= 0) close(reservation);
  return status;
}

/* ---- the command --------------------------------------------------------- */

/* Returns the name of an option for agents that is given, or NULL. */
static const char *only_for_agents(void) {
  if (rsh != NULL) return "rsh";
  if (carried != NULL) return "env";
  if (directory != NULL) return "chdir";
  if (master != NULL) return "master-addr";
  if (lost_ms != NOT_GIVEN) return "lost-ms";
  if (fanout != NOT_GIVEN) return "fanout";
  return parallel > 0 ? "parallel" : NULL;
}

/* Returns the name of an option that has no effect with --by, or NULL. */
static const char *not_with_by(void) {
  if (prefix) return "prefix";
  if (no_bind) return "no-bind";
  if (grace_ms != NOT_GIVEN) return "grace-ms";
  if (min_ranks > 0) return "min-ranks";
  return port > 0 ? "port" : only_for_agents();
}

/* Returns the name of an option that needs hosts, or NULL. */
static const char *only_with_hosts(void) {
  if (by != NULL) return "by";
  if (execute) return "execute";
  return ppn > 0 ? "ppn" : only_for_agents();
}

/* Returns the name of an option for a job of one host, or NULL. */
static const char *only_here(void) {
  if (max_restarts > 0) return "max-restarts";
  if (store != NULL) return "store";
  return join != NULL ? "join" : NULL;
}

/* Checks combinations of options; returns GLI_EXIT_OK or GLI_EXIT_USAGE. */
static int check_options(int n_operands) {
  bool several = hosts != NULL || hostfile != NULL;
  const char *wrong = several ? NULL : only_with_hosts();
  if (wrong != NULL)
    return gli_usage_error(&command, "--%s requires --hosts or --hostfile",
                           wrong);
  wrong = several ? only_here() : NULL;
  if (wrong != NULL)
    return gli_usage_error(&command,
                           "--%s cannot be combined with several hosts: start "
                           "the job on one host with --store, and add ranks on "
                           "the others with --join",
                           wrong);
  if (join != NULL && store != NULL)
    return gli_usage_error(&command, "give either --store or --join");
  if (hosts != NULL && hostfile != NULL)
    return gli_usage_error(&command, "give either --hosts or --hostfile");
  if (execute && by == NULL)
    return gli_usage_error(&command,
                           "--execute requires --by; without it --hosts "
                           "starts the ranks by itself");
  wrong = by != NULL ? not_with_by() : NULL;
  if (wrong != NULL)
    return gli_usage_error(&command,
                           "--%s cannot be combined with --by: %s starts the "
                           "ranks",
                           wrong, by);
  if (!several && ranks == 0)
    return gli_usage_error(&command,
                           "option -n is required: the number of ranks");
  if (n_operands == 0)
    return gli_usage_error(&command, "the program is missing; usage: %s",
                           command.usage);
  if (!several && min_ranks > ranks)
    return gli_usage_error(&command, "--min-ranks exceeds -n");
  return GLI_EXIT_OK;
}

int gli_tool_run(int argc, char **argv) {
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (is_agent) return gli_run_agent();
  int status = check_options(n_operands);
  if (status != GLI_EXIT_OK) return status;
  return hosts != NULL || hostfile != NULL ? run_on_hosts(argv, n_operands)
                                           : run_here(argv, n_operands);
}
