/* `gloo run --hosts`: ranks on several hosts are started by what is there for
 * it; this writes the line. */
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

/* Letters that no shell and no ssh takes for something else. */
static bool is_host(const char *name) {
  static const char fine[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@%-";
  size_t bytes = strlen(name);
  return bytes > 0 && name[0] != '-' && strspn(name, fine) == bytes;
}

/* Takes `list` apart. */
static bool split_hosts(char *list, hosts *found, gloo_error *error) {
  found->n = 0;
  for (char *at = list; at != NULL;) {
    char *comma = strchr(at, ',');
    if (comma != NULL) *comma = '\0';
    if (!is_host(at) || found->n == HOSTS_MAX) {
      gli_fail(error, GLOO_ERR_INVALID, -1,
               "option --hosts: '%s' is no name of a host; give names with "
               "commas between them, as in a,b",
               at);
      return false;
    }
    found->names[found->n++] = at;
    at = comma == NULL ? NULL : comma + 1;
  }
  return true;
}

/* How many ranks are on host i of n: as many as on the others, or one more. */
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

/* What a launcher that passes on nothing by itself is to pass on. */
static const char *const secret_names[] = {"GLOO_SECURITY", "GLOO_JOB_SECRET",
                                           "GLOO_JOB_SECRET_FILE"};
enum { SECRET_NAMES = sizeof secret_names / sizeof *secret_names };

/* All users of a host can read its command lines. */
static bool secret_stays_here(gloo_error *error) {
  if (gli_environment_read("GLOO_JOB_SECRET") == NULL) return true;
  gli_fail(error, GLOO_ERR_INVALID, -1,
           "GLOO_JOB_SECRET cannot go to other hosts by ssh, whose command "
           "line everybody can read: put it into a file on each host that is "
           "yours alone (~/.config/gloo_c/secret, or one that "
           "GLOO_JOB_SECRET_FILE names), and unset it");
  return false;
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

/* Its -x takes a value as well, but then everybody can read that. */
static void put_mpirun(FILE *out, const hosts *h, const gli_run_options *job) {
  fprintf(out, "mpirun -np %d --host ", job->ranks);
  put_list(out, h, job->ranks, true);
  for (int i = 0; i < SECRET_NAMES; i++)
    if (gli_environment_read(secret_names[i]) != NULL)
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

/* What one rank gets: our variables, and those of this library that are set
 * here. */
static void put_rank(FILE *out, const hosts *h, const gli_run_options *job,
                     int host, int local, int rank) {
  fprintf(out,
          " RANK=%d WORLD_SIZE=%d LOCAL_RANK=%d LOCAL_WORLD_SIZE=%d "
          "MASTER_ADDR=%s MASTER_PORT=%u GLOO_JOB_ID=%s",
          rank, job->ranks, local, ranks_on(h, job->ranks, host),
          strchr(h->names[0], '@') != NULL ? strchr(h->names[0], '@') + 1
                                           : h->names[0],
          (unsigned)job->environment.port, job->environment.job);
  for (char **at = environ; *at != NULL; at++) {
    if (strncmp(*at, "GLOO_", 5) != 0) continue;
    if (strncmp(*at, "GLOO_JOB_ID=", 12) == 0) continue;
    if (strncmp(*at, "GLOO_JOB_SECRET=", 16) == 0) continue;
    fputc(' ', out);
    put_quoted(out, *at);
  }
}

/* A line for each rank; the first one that fails gives the status. */
static void put_ssh(FILE *out, const hosts *h, const gli_run_options *job) {
  char here[GLI_RUN_PATH_MAX];
  if (getcwd(here, sizeof here) == NULL) snprintf(here, sizeof here, "/");
  int rank = 0;
  fputs("pids=\n", out);
  for (int i = 0; i < h->n; i++) {
    for (int local = 0; local < ranks_on(h, job->ranks, i); local++) {
      char *words = NULL;
      size_t bytes = 0;
      FILE *inner = open_memstream(&words, &bytes);
      if (inner == NULL) return;
      fputs("cd ", inner);
      put_quoted(inner, here);
      fputs(" && exec env", inner);
      put_rank(inner, h, job, i, local, rank++);
      put_program(inner, job->arguments);
      if (fclose(inner) == 0) {
        fprintf(out, "ssh %s ", h->names[i]);
        put_quoted(out, words);
        fputs(" &\npids=\"$pids $!\"\n", out);
      }
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
  bool exports; /* variables get from here to the ranks */
} way;

static const way ways[] = {{"ssh", put_ssh, false},
                           {"srun", put_srun, true},
                           {"mpirun", put_mpirun, true},
                           {"mpiexec", put_mpiexec, true}};

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
             "option --by: '%s' is none of ssh, srun, mpirun, mpiexec", by);
    return GLI_EXIT_USAGE;
  }
  if (job->ranks < found.n) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%d ranks cannot be on %d hosts: give fewer hosts, or more ranks",
             job->ranks, found.n);
    return GLI_EXIT_USAGE;
  }
  if (!w->exports && !secret_stays_here(error)) return GLI_EXIT_USAGE;
  if (job->environment.port == 0) job->environment.port = PORT_USUAL;
  if (!execute) {
    w->put(stdout, &found, job);
    return GLI_EXIT_OK;
  }
  if (w->exports && job->environment.secret[0] != '\0' &&
      setenv("GLOO_JOB_SECRET", job->environment.secret, 1) != 0) {
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
