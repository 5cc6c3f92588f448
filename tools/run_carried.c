#include "tools/run_carried.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

extern char **environ;

size_t gli_run_carried_name(const char *variable) {
  static const char fine[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  static const char *const own[] = {"GLOO_JOB_ID=", "GLOO_RANK=", "GLOO_SIZE="};
  size_t bytes = strspn(variable, fine);
  if (strncmp(variable, "GLOO_", 5) != 0 || variable[bytes] != '=') return 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strncmp(variable, own[i], strlen(own[i])) == 0) return 0;
  return bytes;
}

static bool is_usual(const char *variable) {
  static const char *const usual[] = {
      "PATH=", "LD_LIBRARY_PATH=", "PYTHONPATH=", "VIRTUAL_ENV=",
      "CONDA_PREFIX="};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strncmp(variable, usual[i], strlen(usual[i])) == 0) return true;
  return strncmp(variable, "OMP_", 4) == 0 ||
         gli_run_carried_name(variable) > 0;
}

/* Returns the variable with a name of `bytes` characters, or NULL. */
static char *find_variable(const char *name, size_t bytes) {
  for (char **at = environ; *at != NULL; at++)
    if (strncmp(*at, name, bytes) == 0 && (*at)[bytes] == '=') return *at;
  return NULL;
}

/* Adds the variables of a list. */
static bool add_named(const char *more, char **all, size_t n,
                      gloo_error *error) {
  for (const char *at = more; at != NULL;) {
    size_t bytes = strcspn(at, ",");
    char *variable = bytes > 0 ? find_variable(at, bytes) : NULL;
    if (variable == NULL) {
      gli_fail(error, GLOO_ERR_INVALID, -1,
               "option --env: the variable '%.*s' is not set here",
               (int)(bytes < 200 ? bytes : 200), at);
      return false;
    }
    size_t i = 0;
    while (i < n && all[i] != variable) i++;
    if (i == n) all[n++] = variable;
    at = at[bytes] == ',' ? at + bytes + 1 : NULL;
  }
  return true;
}

char **gli_run_carried(const char *more, gloo_error *error) {
  size_t n = 0, kept = 0, named = more == NULL ? 0 : strlen(more) / 2 + 1;
  while (environ[n] != NULL) n++;
  char **all = calloc(n + named + 1, sizeof *all);
  if (all == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory");
    return NULL;
  }
  for (size_t i = 0; i < n; i++)
    if (is_usual(environ[i])) all[kept++] = environ[i];
  if (add_named(more, all, kept, error)) return all;
  free(all);
  return NULL;
}
