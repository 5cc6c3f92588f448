/* gloo: the command-line tool of gloo_c. */
#include <stdio.h>
#include <string.h>

#include "gloo_c/version.h"
#include "tools/run.h"
#include "tools/tools.h"

typedef struct tool {
  const char *name;
  int (*main)(int argc, char **argv);
  const char *summary;
} tool;

static const tool tools[] = {
    {"run", gli_tool_run, "start a program as the ranks of one job"},
    {"bench", gli_tool_bench, "measure collectives, and the machine's limits"},
    {"plan", gli_tool_plan, "print, check and simulate plans"},
    {"tune", gli_tool_tune, "measure which algorithms are best here"},
    {"doctor", gli_tool_doctor, "find problems of a job"},
    {"trace", gli_tool_trace,
     "compare the last operations of ranks and find the one behind"},
    {"top", gli_tool_top, "show live activity of running jobs"},
    {"store", gli_tool_store, "serve a store for the ranks of jobs"},
    {"info", gli_tool_info, "show the features of this build and its defaults"},
};
enum { N_TOOLS = sizeof tools / sizeof tools[0] };

static void print_help(FILE *to) {
  fprintf(to, "usage: gloo COMMAND [options]\n\ncommands:\n");
  for (int i = 0; i < N_TOOLS; i++) {
    fprintf(to, "  %-8s %s\n", tools[i].name, tools[i].summary);
  }
  fprintf(to,
          "\n"
          "'gloo COMMAND --help' describes a command; 'gloo --version' prints "
          "the version.\n");
}

/* Returns the number of letters to insert, delete, replace or swap with the
 * next one to turn one word into the other (Damerau, 1964); `room` if longer.
 */
static int word_distance(const char *a, const char *b) {
  enum { ROOM = 16 };
  int d[ROOM][ROOM];
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n >= ROOM || m >= ROOM) return ROOM;
  for (int i = 0; i <= n; i++)
    for (int k = 0; k <= m; k++) {
      int best = i == 0 ? k : i;
      if (i > 0 && k > 0) {
        bool same = a[i - 1] == b[k - 1];
        best = d[i - 1][k - 1] + (same ? 0 : 1);
        if (d[i - 1][k] + 1 < best) best = d[i - 1][k] + 1;
        if (d[i][k - 1] + 1 < best) best = d[i][k - 1] + 1;
      }
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
          d[i - 2][k - 2] + 1 < best)
        best = d[i - 2][k - 2] + 1;
      d[i][k] = best;
    }
  return d[n][m];
}

/* Returns the command within two typing errors of `name`, or NULL. */
static const char *closest_tool(const char *name) {
  const char *closest = NULL;
  int least = 3;
  for (int i = 0; i < N_TOOLS; i++) {
    int distance = word_distance(name, tools[i].name);
    if (distance >= least) continue;
    least = distance;
    closest = tools[i].name;
  }
  return closest;
}

static void print_unknown(const char *name) {
  fprintf(stderr, "gloo: unknown command '%s'; the commands are", name);
  for (int i = 0; i < N_TOOLS; i++)
    fprintf(stderr, "%s %s", i == 0 ? "" : ",", tools[i].name);
  fprintf(stderr, " (gloo --help)\n");
}

int main(int argc, char **argv) {
  if (argc > 0 && strcmp(argv[0], GLI_RUN_EXEC_NAME) == 0) {
    return gli_run_exec(argc, argv);
  }
  if (argc < 2) {
    print_help(stderr);
    return GLI_EXIT_USAGE;
  }
  const char *name = argv[1];
  for (int i = 0; i < N_TOOLS; i++) {
    if (strcmp(name, tools[i].name) != 0) continue;
    return tools[i].main(argc - 1, argv + 1);
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
      strcmp(name, "help") == 0) {
    print_help(stdout);
    return GLI_EXIT_OK;
  }
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    printf("gloo_c %s\n", gloo_version());
    return GLI_EXIT_OK;
  }
  const char *guess = closest_tool(name);
  if (guess != NULL)
    fprintf(stderr,
            "gloo: unknown command '%s'; did you mean '%s'? "
            "(gloo --help)\n",
            name, guess);
  else
    print_unknown(name);
  return GLI_EXIT_USAGE;
}
