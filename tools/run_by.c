/* `gloo run --hosts`: writes the command that starts ranks on several hosts,
 * with a launcher that is installed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "tools/run.h"
#include "tools/tools.h"

extern char **environ;

enum { HOSTS_MAX = 4096, PORT_USUAL = 29500 };

typedef struct hosts {
  int n;
  char *names[HOSTS_MAX];
} hosts;

/* Returns true if the name has only characters without meaning to shells and
 * ssh. */
static bool is_host(const char *name) {
  static const char fine[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@%-";
  size_t bytes = strlen(name);
  return bytes > 0 && name[0] != '-' && strspn(name, fine) == bytes;
}

/* Splits `list` in place. */
static bool split_hosts(char *list, hosts *found, gloo_error *error) {
  found->n = 0;
  for (char *at = list; at != NULL;) {
    char *comma = strchr(at, ',');
    if (comma != NULL) *comma = '\0';
    if (!is_host(at) || found->n == HOSTS_MAX) {
      gli_fail(error, GLOO_ERR_INVALID, -1,
               "option --hosts: '%s' is not a host name; separate names by "
               "commas, such as a,b",
               at);
      return false;
    }
    found->names[found->n++] = at;
    at = comma == NULL ? NULL : comma + 1;
  }
  return true;
}

/* Returns the number of ranks on host i of n: as many as on the others, or one
 * more. */
static int ranks_on(const hosts *h, int ranks, int i) {
  return ranks / h->n + (i < ranks % h->n);
}

/* ---- words of a shell ---------------------------------------------------- */

static void put_quoted(FILE *out, const char *word) {
  fputc('\'', out);
  for (; *word != '\0'; word++) {
    if (*word == '\'') {
      fputs("'\\''", out);
    } else {
      fputc(*word, out);
    }
  }
  fputc('\'', out);
}

static void put_program(FILE *out, char **arguments) {
  for (; *arguments != NULL; arguments++) {
    fputc(' ', out);
    put_quoted(out, *arguments);
  }
}

/* ---- the secret ---------------------------------------------------------- */

/* Variables that must be passed to launchers which pass on none by themselves.
 */
static const char *const secret_names[] = {"GLOO_SECURITY", "GLOO_JOB_SECRET",
                                           "GLOO_JOB_SECRET_FILE"};
enum { SECRET = 1, SECRET_NAMES = sizeof secret_names / sizeof *secret_names };

/* Writes a shell line that puts a random secret into the environment of the
 * ranks' starter, unless one is set. */
static void put_secret(FILE *out) {
  fputs(
      "[ -n \"$GLOO_JOB_SECRET\" ] || GLOO_JOB_SECRET=$(openssl rand -hex 32) "
      "|| exit\nexport GLOO_JOB_SECRET\n",
      out);
}

/* ---- variables ----------------------------------------------------------- */

/* All users of a host can read its command lines, so these have no variable's
 * value: a store's URL may have a password. Programs started by ssh read
 * variables from their standard input, and printed commands refer to the
 * variables of the shell that runs them. */
#define END_OF_VARIABLES "END_OF_VARIABLES"
#define READ_VARIABLES "while IFS= read -r v; do export \"$v\"; done; "

/* Returns the length of the name of a variable that is passed to ranks, else 0:
 * a variable of this library that is not set for each rank. */
static size_t passed_name(const char *variable) {
  static const char fine[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  static const char *const own[] = {"GLOO_JOB_ID=", "GLOO_RANK=", "GLOO_SIZE="};
  size_t bytes = strspn(variable, fine);
  if (strncmp(variable, "GLOO_", 5) != 0 || variable[bytes] != '=') return 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strncmp(variable, own[i], strlen(own[i])) == 0) return 0;
  return bytes;
}

/* Checks that no variable has a line break. */
static bool variables_are_lines(gloo_error *error) {
  for (char **at = environ; *at != NULL; at++) {
    int bytes = (int)passed_name(*at);
    if (bytes == 0 || strchr(*at, '\n') == NULL) continue;
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "the environment variable %.*s has a line break, which cannot be "
             "passed through ssh: unset it, or remove the line break",
             bytes, *at);
    return false;
  }
  return true;
}

/* Writes checks that stop if the shell that runs the command lacks a variable.
 */
static void put_check(FILE *out) {
  for (char **at = environ; *at != NULL; at++) {
    int bytes = (int)passed_name(*at);
    if (bytes > 0)
      fprintf(out, ": \"${%.*s?is not set here, but was set for gloo run}\"\n",
              bytes, *at);
  }
}

static void put_variables(FILE *out, const gli_run_options *job) {
  fputs(" <<" END_OF_VARIABLES " &\n", out);
  bool has_secret = job->environment.secret[0] == '\0';
  for (char **at = environ; *at != NULL; at++) {
    int bytes = (int)passed_name(*at);
    if (bytes == 0) continue;
    has_secret = has_secret || strncmp(*at, "GLOO_JOB_SECRET=", 16) == 0;
    fprintf(out, "%.*s=$%.*s\n", bytes, *at, bytes, *at);
  }
  if (!has_secret) fputs("GLOO_JOB_SECRET=$GLOO_JOB_SECRET\n", out);
  fputs(END_OF_VARIABLES "\n", out);
}

/* ---- the launchers ------------------------------------------------------- */

static void put_list(FILE *out, const hosts *h, int ranks, bool slots) {
  for (int i = 0; i < h->n; i++) {
    fprintf(out, "%s%s", i == 0 ? "" : ",", h->names[i]);
    if (slots) fprintf(out, ":%d", ranks_on(h, ranks, i));
  }
}

static void put_srun(FILE *out, const hosts *h, const gli_run_options *job) {
  fprintf(out, "srun --nodes=%d --ntasks=%d --nodelist=", h->n, job->ranks);
  put_list(out, h, job->ranks, false);
  fputs(" --", out);
  put_program(out, job->arguments);
  fputc('\n', out);
}

/* mpirun's -x also takes a value, but then every user can read it. */
static void put_mpirun(FILE *out, const hosts *h, const gli_run_options *job) {
  fprintf(out, "mpirun -np %d --host ", job->ranks);
  put_list(out, h, job->ranks, true);
  for (int i = 0; i < SECRET_NAMES; i++)
    if (gli_environment_read(secret_names[i]) != NULL ||
        (i == SECRET && job->environment.secret[0] != '\0'))
      fprintf(out, " -x %s", secret_names[i]);
  put_program(out, job->arguments);
  fputc('\n', out);
}

static void put_mpiexec(FILE *out, const hosts *h, const gli_run_options *job) {
  fprintf(out, "mpiexec -n %d -hosts ", job->ranks);
  put_list(out, h, job->ranks, true);
  put_program(out, job->arguments);
  fputc('\n', out);
}

/* Writes the variables of one rank. */
static void put_rank(FILE *out, const hosts *h, const gli_run_options *job,
                     int host, int local, int rank) {
  fprintf(out,
          " RANK=%d WORLD_SIZE=%d LOCAL_RANK=%d LOCAL_WORLD_SIZE=%d "
          "MASTER_ADDR=%s MASTER_PORT=%u GLOO_JOB_ID=%s",
          rank, job->ranks, local, ranks_on(h, job->ranks, host),
          strchr(h->names[0], '@') != NULL ? strchr(h->names[0], '@') + 1
                                           : h->names[0],
          (unsigned)job->environment.port, job->environment.job);
}

/* `word` is a command for sh, whichever shell the user has on that host. */
static void put_one_ssh(FILE *out, const char *host, const char *word,
                        const gli_run_options *job) {
  char *line = NULL;
  size_t bytes = 0;
  FILE *inner = open_memstream(&line, &bytes);
  if (inner == NULL) return;
  fputs("exec sh -c ", inner);
  put_quoted(inner, word);
  if (fclose(inner) == 0) {
    fprintf(out, "ssh %s ", host);
    put_quoted(out, line);
    put_variables(out, job);
    fputs("pids=\"$pids $!\"\n", out);
  }
  free(line);
}

/* Writes a line for each rank; the first rank that fails determines the status.
 */
static void put_ssh(FILE *out, const hosts *h, const gli_run_options *job) {
  char here[GLI_RUN_PATH_MAX];
  if (getcwd(here, sizeof here) == NULL) snprintf(here, sizeof here, "/");
  int rank = 0;
  put_check(out);
  fputs("pids=\n", out);
  for (int i = 0; i < h->n; i++) {
    for (int local = 0; local < ranks_on(h, job->ranks, i); local++) {
      char *words = NULL;
      size_t bytes = 0;
      FILE *inner = open_memstream(&words, &bytes);
      if (inner == NULL) return;
      fputs(READ_VARIABLES "cd ", inner);
      put_quoted(inner, here);
      fputs(" && exec env", inner);
      put_rank(inner, h, job, i, local, rank++);
      put_program(inner, job->arguments);
      if (fclose(inner) == 0) put_one_ssh(out, h->names[i], words, job);
      free(words);
    }
  }
  fputs(
      "status=0\n"
      "for pid in $pids; do wait $pid || { s=$?; [ $status != 0 ] || "
      "status=$s; }; done\n"
      "exit $status\n",
      out);
}

typedef struct way {
  const char *name;
  void (*put)(FILE *out, const hosts *h, const gli_run_options *job);
} way;

static const way ways[] = {{"ssh", put_ssh},
                           {"srun", put_srun},
                           {"mpirun", put_mpirun},
                           {"mpiexec", put_mpiexec}};

static const way *find_way(const char *name) {
  if (name == NULL)
    name = gli_environment_read("SLURM_JOB_ID") != NULL ? "srun" : "ssh";
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (strcmp(ways[i].name, name) == 0) return &ways[i];
  return NULL;
}

int gli_run_hosts(char *list, const char *by, bool execute,
                  gli_run_options *job, gloo_error *error) {
  static hosts found;
  if (!split_hosts(list, &found, error)) return GLI_EXIT_USAGE;
  const way *w = find_way(by);
  if (w == NULL) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "option --by: '%s' is not one of ssh, srun, mpirun, mpiexec", by);
    return GLI_EXIT_USAGE;
  }
  if (job->ranks < found.n) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%d ranks cannot run on %d hosts: use fewer hosts, or more ranks",
             job->ranks, found.n);
    return GLI_EXIT_USAGE;
  }
  if (w->put == put_ssh && !variables_are_lines(error)) return GLI_EXIT_USAGE;
  if (job->environment.port == 0) job->environment.port = PORT_USUAL;
  bool makes_one = job->environment.secret[0] != '\0';
  if (!execute) {
    if (makes_one) put_secret(stdout);
    w->put(stdout, &found, job);
    return GLI_EXIT_OK;
  }
  if (makes_one && setenv("GLOO_JOB_SECRET", job->environment.secret, 1) != 0) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return GLI_EXIT_FAILED;
  }
  char *script = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&script, &bytes);
  if (out != NULL) {
    w->put(out, &found, job);
    if (fclose(out) == 0) execl("/bin/sh", "sh", "-c", script, (char *)NULL);
  }
  gli_fail(error, GLOO_ERR_IO, -1, "cannot run sh: %s", strerror(errno));
  free(script);
  return GLI_EXIT_CANNOT_RUN;
}
