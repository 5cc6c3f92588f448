/* gloo: the command-line tool of gloo_c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "gloo_c/version.h"
#include "tools/run.h"
#include "tools/tools.h"

const gli_tool gli_tools[] = {
    {"run", gli_tool_run, "start a program as the ranks of one job"},
    {"bench", gli_tool_bench, "measure collectives, and the machine's limits"},
    {"plan", gli_tool_plan, "print, check and simulate plans"},
    {"tune", gli_tool_tune, "measure which algorithms are best here"},
    {"doctor", gli_tool_doctor, "find problems of a job"},
    {"trace", gli_tool_trace,
     "compare the last operations of ranks and find the one behind"},
    {"top", gli_tool_top, "show live activity of running jobs"},
    {"metrics", gli_tool_metrics, "serve the metrics of ranks to Prometheus"},
    {"store", gli_tool_store, "serve a store for the ranks of jobs"},
    {"info", gli_tool_info, "show the features of this build and its defaults"},
    {"completion", gli_tool_completion, "print the completion of a shell"},
};
enum { N_TOOLS = sizeof gli_tools / sizeof gli_tools[0] };
const size_t gli_tool_count = N_TOOLS;

static void print_help(FILE *to) {
  fprintf(to, "usage: gloo COMMAND [options]\n\ncommands:\n");
  for (int i = 0; i < N_TOOLS; i++) {
    fprintf(to, "  %-10s %s\n", gli_tools[i].name, gli_tools[i].summary);
  }
  fprintf(to,
          "\n"
          "'gloo COMMAND --help' describes a command; 'gloo --version' prints "
          "the version.\n");
}

/* Returns the command within two typing errors of `name`, or NULL. */
static const char *closest_tool(const char *name) {
  const char *closest = NULL;
  size_t least = GLI_TYPING_ERRORS + 1;
  for (int i = 0; i < N_TOOLS; i++) {
    size_t distance = gli_word_distance(name, gli_tools[i].name);
    if (distance >= least) continue;
    least = distance;
    closest = gli_tools[i].name;
  }
  return closest;
}

static void print_unknown(const char *name) {
  fprintf(stderr, "gloo: unknown command '%s'; the commands are", name);
  for (int i = 0; i < N_TOOLS; i++)
    fprintf(stderr, "%s %s", i == 0 ? "" : ",", gli_tools[i].name);
  fprintf(stderr, " (gloo --help)\n");
}

/* Opens the null device in place of standard descriptors that are closed: other
 * files would get their numbers, and libuv refuses to close these. */
static void open_standard_descriptors(void) {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

/* Returns the status of a command; that of a failure if its output could not be
 * written, which stdio remembers. */
static int run_tool(const gli_tool *tool, int argc, char **argv) {
  int status = tool->main(argc, argv);
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "gloo %s: cannot write standard output: %s\n", tool->name,
          errno != 0 ? strerror(errno) : "an earlier write failed");
  return status == GLI_EXIT_OK ? GLI_EXIT_FAILED : status;
}

int main(int argc, char **argv) {
  open_standard_descriptors();
  if (argc > 0 && strcmp(argv[0], GLI_RUN_EXEC_NAME) == 0) {
    return gli_run_exec(argc, argv);
  }
  if (argc < 2) {
    print_help(stderr);
    return GLI_EXIT_USAGE;
  }
  const char *name = argv[1];
  for (int i = 0; i < N_TOOLS; i++) {
    if (strcmp(name, gli_tools[i].name) != 0) continue;
    return run_tool(&gli_tools[i], argc - 1, argv + 1);
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
