/* `gloo run --by`: writes the command by which another launcher starts the
 * ranks on several hosts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "tools/run.h"
#include "tools/run_carried.h"
#include "tools/run_control.h"
#include "tools/tools.h"

extern char **environ;

typedef struct by_job {
  const gli_run_hosts *hosts;
  int ranks;
  char **arguments;
  bool makes_secret;
} by_job;

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
  fputc('\n', out);
}

/* Writes a shell line that puts a random secret into the environment of the
 * ranks' starter, unless one is set. */
static void put_secret(FILE *out) {
  fputs(
      "[ -n \"$GLOO_JOB_SECRET\" ] || GLOO_JOB_SECRET=$(openssl rand -hex 32) "
      "|| exit\nexport GLOO_JOB_SECRET\n",
      out);
}

/* ---- the launchers ------------------------------------------------------- */

static void put_list(FILE *out, const gli_run_hosts *hosts, bool slots) {
  for (int i = 0; i < hosts->n; i++) {
    fprintf(out, "%s%s", i == 0 ? "" : ",", hosts->list[i].name);
    if (slots) fprintf(out, ":%d", hosts->list[i].ranks);
  }
}

static void put_srun(FILE *out, const by_job *job) {
  fprintf(out, "srun --nodes=%d --ntasks=%d --nodelist=", job->hosts->n,
          job->ranks);
  put_list(out, job->hosts, false);
  fputs(" --", out);
  put_program(out, job->arguments);
}

/* mpirun passes on no variable by itself. Its -x also takes a value, but then
 * every user can read it. */
static void put_mpirun(FILE *out, const by_job *job) {
  bool has_secret = false;
  fprintf(out, "mpirun -np %d --host ", job->ranks);
  put_list(out, job->hosts, true);
  for (char **at = environ; *at != NULL; at++) {
    int bytes = (int)gli_run_carried_name(*at);
    if (bytes == 0) continue;
    fprintf(out, " -x %.*s", bytes, *at);
    has_secret = has_secret || strncmp(*at, "GLOO_JOB_SECRET=", 16) == 0;
  }
  if (job->makes_secret && !has_secret) fputs(" -x GLOO_JOB_SECRET", out);
  put_program(out, job->arguments);
}

static void put_mpiexec(FILE *out, const by_job *job) {
  fprintf(out, "mpiexec -n %d -hosts ", job->ranks);
  put_list(out, job->hosts, true);
  put_program(out, job->arguments);
}

typedef struct way {
  const char *name;
  void (*put)(FILE *out, const by_job *job);
} way;

static const way ways[] = {
    {"srun", put_srun}, {"mpirun", put_mpirun}, {"mpiexec", put_mpiexec}};

static const way *find_way(const char *name) {
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (strcmp(ways[i].name, name) == 0) return &ways[i];
  return NULL;
}

/* Checks that the launcher can do what the list of hosts says. */
static bool can_place(const way *w, const gli_run_hosts *hosts, int ranks,
                      gloo_error *error) {
  for (int i = 0; i < hosts->n; i++) {
    const gli_run_host *h = &hosts->list[i];
    if (h->user[0] != '\0' || h->port != 0 || strchr(h->name, ':') != NULL) {
      gli_fail(error, GLOO_ERR_INVALID, -1,
               "option --by: %s takes host names only, without user, port or "
               "brackets, but got host %s",
               w->name, h->name);
      return false;
    }
    int evenly = ranks / hosts->n + (i < ranks % hosts->n);
    if (w->put != put_srun || h->ranks == evenly) continue;
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "option --by: srun distributes ranks evenly, but host %s has %d "
             "of %d: give hosts equal slots",
             h->name, h->ranks, ranks);
    return false;
  }
  return true;
}

int gli_run_by(const char *by, bool execute, const gli_run_hosts *hosts,
               const gli_run_options *job, gloo_error *error) {
  const way *w = find_way(by);
  if (w == NULL) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "option --by: '%s' is not one of srun, mpirun, mpiexec; without "
             "--by ranks are started by ssh",
             by);
    return GLI_EXIT_USAGE;
  }
  if (!can_place(w, hosts, job->ranks, error)) return GLI_EXIT_USAGE;
  by_job words = {hosts, job->ranks, job->arguments,
                  job->environment.secret[0] != '\0'};
  if (!execute) {
    if (words.makes_secret) put_secret(stdout);
    w->put(stdout, &words);
    return GLI_EXIT_OK;
  }
  if (words.makes_secret &&
      setenv("GLOO_JOB_SECRET", job->environment.secret, 1) != 0) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return GLI_EXIT_FAILED;
  }
  char *script = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&script, &bytes);
  if (out != NULL) {
    w->put(out, &words);
    if (fclose(out) == 0) execl("/bin/sh", "sh", "-c", script, (char *)NULL);
  }
  gli_fail(error, GLOO_ERR_IO, -1, "cannot run sh: %s", strerror(errno));
  free(script);
  return GLI_EXIT_CANNOT_RUN;
}
