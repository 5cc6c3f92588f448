/* gloo: the command that comes with gloo_c. */
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
    {"doctor", gli_tool_doctor, "what is wrong with a job, or would be"},
    {"trace", gli_tool_trace, "what ranks did last, and which is behind"},
    {"top", gli_tool_top, "what the ranks of a running job do"},
    {"store", gli_tool_store, "serve a store at which ranks meet"},
    {"info", gli_tool_info, "what this build can do, and its defaults"},
};
enum { N_TOOLS = sizeof tools / sizeof tools[0] };

static void print_help(FILE *to) {
  fprintf(to, "usage: gloo COMMAND [options]\n\ncommands:\n");
  for (int i = 0; i < N_TOOLS; i++) {
    fprintf(to, "  %-8s %s\n", tools[i].name, tools[i].summary);
  }
  fprintf(to,
          "\n'gloo COMMAND --help' describes one of them; 'gloo --version' "
          "prints the version.\n");
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
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    print_help(stdout);
    return GLI_EXIT_OK;
  }
  if (strcmp(name, "--version") == 0) {
    printf("gloo_c %s\n", gloo_version());
    return GLI_EXIT_OK;
  }
  fprintf(stderr, "gloo: there is no command '%s'; the commands are", name);
  for (int i = 0; i < N_TOOLS; i++) {
    fprintf(stderr, "%s %s", i == 0 ? "" : ",", tools[i].name);
  }
  fprintf(stderr, "\n");
  return GLI_EXIT_USAGE;
}
