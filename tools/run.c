#include "tools/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/random.h"
#include "security/keys.h"
#include "security/secret.h"
#include "tools/tools.h"

enum { MAX_RANKS = 16384 };

static int64_t ranks = 0;
static int64_t grace_ms = 2000;
static int64_t min_ranks = 0;
static int64_t port = 0;
static bool prefix = false;
static bool no_bind = false;
static const char *hosts = NULL, *by = NULL;
static bool execute = false;

static const gli_option options[] = {
    {"ranks", 'n', GLI_OPTION_INTEGER, &ranks, "N",
     "number of ranks (required)", 1, MAX_RANKS},
    {"prefix", 0, GLI_OPTION_FLAG, &prefix, NULL,
     "prefix each line of output with its rank: [0]", 0, 0},
    {"no-bind", 0, GLI_OPTION_FLAG, &no_bind, NULL,
     "do not bind ranks to cores", 0, 0},
    {"grace-ms", 0, GLI_OPTION_INTEGER, &grace_ms, "MS",
     "time for the other ranks to exit after a failure (2000)", 0, 3600000},
    {"min-ranks", 0, GLI_OPTION_INTEGER, &min_ranks, "N",
     "continue after failures while at least N ranks are left", 1, MAX_RANKS},
    {"port", 0, GLI_OPTION_INTEGER, &port, "PORT", "MASTER_PORT (a free one)",
     1, 65535},
    {"hosts", 0, GLI_OPTION_TEXT, &hosts, "A,B",
     "print the commands that start the ranks on these hosts", 0, 0},
    {"by", 0, GLI_OPTION_TEXT, &by, "WAY",
     "with --hosts: ssh, srun, mpirun (Open MPI) or mpiexec (MPICH)", 0, 0},
    {"execute", 0, GLI_OPTION_FLAG, &execute, NULL,
     "with --hosts: run these commands", 0, 0},
};

static const gli_command command = {
    .name = "run",
    .usage = "gloo run -n N [options] [--] program [arguments]",
    .about =
        "Starts the program N times on this host and waits for all processes.\n"
        "On other hosts use ssh, srun or mpirun: --hosts prints the commands.\n"
        "Each process gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,\n"
        "MASTER_ADDR, MASTER_PORT, GLOO_JOB_ID and, unless it is already set,\n"
        "a random GLOO_JOB_SECRET. The program name 'gloo' means this "
        "command.\n"
        "Rank 0 reads the standard input. SIGINT, SIGTERM, SIGHUP, SIGUSR1 "
        "and\n"
        "SIGUSR2 are forwarded; a third SIGINT or SIGTERM kills the ranks. If\n"
        "ranks outnumber the cores and divide evenly among them, each rank is\n"
        "bound to one core, neighbours together (Linux); see --no-bind. When "
        "a\n"
        "rank fails, the others get time to report it (--grace-ms), then\n"
        "SIGTERM, then SIGKILL. The exit status is that of the rank that\n"
        "failed first (128 + signal for a signal). With --min-ranks the "
        "others\n"
        "continue (gloo_context_shrink) until fewer are left; the status is\n"
        "then that of the rank whose failure caused this. All users can read\n"
        "command lines, so --hosts puts no variable's value on one: ssh "
        "passes\n"
        "GLOO_* variables through its standard input, the others through the\n"
        "environment. If no secret is set, the printed commands generate "
        "one.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .stop_at_operand = true,
};

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

static bool make_job_id(gli_run_environment *job, gloo_error *error) {
  return make_random(JOB_BYTES, "a job id", job->job, error);
}

/* Makes a secret for this job, unless the user has set one. Reports a wrong or
 * missing setting once, instead of from every rank. */
static bool make_secret(gli_run_environment *job, gloo_error *error) {
  gli_security security;
  gli_secret said;
  gli_key key;
  if (gli_security_read(&security, error) != GLOO_OK) return false;
  if (security == GLI_SECURITY_OFF) return true;
  if (gli_secret_read(NULL, 0, &said, error) != GLOO_OK) return false;
  bool has_one = said.n_bytes > 0;
  gli_secret_release(&said);
  if (security == GLI_SECURITY_REQUIRE &&
      gli_key_extract("", 0, "gloo run", 8, &key, error) != GLOO_OK) {
    gli_error_prefix(error, "GLOO_SECURITY=required: ");
    return false;
  }
  if (has_one || gli_openssl_version() == NULL) return true;
  return make_random(SECRET_BYTES, "the job's secret", job->secret, error);
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

static int run_on_hosts(char **argv, int n_operands) {
  gloo_error error;
  gli_run_options job = {.ranks = (int)ranks,
                         .environment = {.port = (uint16_t)port}};
  /* The file may exist on the hosts only. */
  bool elsewhere = gli_environment_read("GLOO_JOB_SECRET_FILE") != NULL;
  if (!make_job_id(&job.environment, &error) ||
      (!elsewhere && !make_secret(&job.environment, &error)))
    return fail(GLI_EXIT_FAILED, &error);
  char *list = strdup(hosts);
  int status = GLI_EXIT_FAILED;
  job.arguments = copy_arguments(argv, n_operands);
  if (list == NULL || job.arguments == NULL) {
    fprintf(stderr, "gloo run: out of memory\n");
  } else {
    status = gli_run_hosts(list, by, execute, &job, &error);
    if (status != GLI_EXIT_OK) (void)fail(status, &error);
  }
  gli_wipe(job.environment.secret, sizeof job.environment.secret);
  free(job.arguments);
  free(list);
  return status;
}

int gli_tool_run(int argc, char **argv) {
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (ranks == 0) {
    return gli_usage_error(&command,
                           "option -n is required: the number of ranks");
  }
  if (n_operands == 0) {
    return gli_usage_error(&command, "the program is missing; usage: %s",
                           command.usage);
  }

  if (min_ranks > ranks || (min_ranks > 0 && hosts != NULL)) {
    return gli_usage_error(
        &command, "--min-ranks %s",
        hosts == NULL
            ? "exceeds -n"
            : "cannot be combined with --hosts: the launcher there decides");
  }
  if (hosts == NULL && (by != NULL || execute)) {
    return gli_usage_error(&command, "%s requires --hosts",
                           by != NULL ? "--by" : "--execute");
  }
  if (hosts != NULL) return run_on_hosts(argv, n_operands);
  gloo_error error;
  char path[GLI_RUN_PATH_MAX];
  int status = GLI_EXIT_FAILED;
  if (!gli_run_find(argv[0], path, &status, &error)) {
    return fail(status, &error);
  }
  gli_run_options job = {.ranks = (int)ranks,
                         .prefix = prefix,
                         .bind = !no_bind,
                         .grace_ms = grace_ms,
                         .min_ranks = (int)min_ranks,
                         .path = path,
                         .environment = {.ranks = (int)ranks}};
  if (!make_job_id(&job.environment, &error) ||
      !make_secret(&job.environment, &error)) {
    return fail(status, &error);
  }
  int reservation = -1;
  job.environment.port = (uint16_t)port;
  if (port == 0 &&
      !gli_run_pick_port(&job.environment.port, &reservation, &error)) {
    return fail(status, &error);
  }
  job.arguments = copy_arguments(argv, n_operands);
  if (job.arguments != NULL) status = gli_run_session(&job);
  if (job.arguments == NULL) fprintf(stderr, "gloo run: out of memory\n");
  gli_wipe(job.environment.secret, sizeof job.environment.secret);
  free(job.arguments);
  if (reservation >= 0) close(reservation);
  return status;
}
