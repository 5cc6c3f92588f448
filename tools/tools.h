/* The `gloo` command: its subcommands, and shared parts. */
#ifndef GLI_TOOLS_TOOLS_H
#define GLI_TOOLS_TOOLS_H

#include "tools/options.h"

/* Exit statuses of the command itself. `gloo run` adds those of its program,
 * and the two that shells use. */
enum {
  GLI_EXIT_OK = 0,
  GLI_EXIT_FAILED = 1, /* it ran, and the result is negative */
  GLI_EXIT_USAGE = 2,  /* its arguments are wrong */
  GLI_EXIT_CANNOT_RUN = 126,
  GLI_EXIT_NOT_FOUND = 127
};

/* One function per subcommand; argv[0] is its name. They return the exit
 * status. */
int gli_tool_run(int argc, char **argv);
int gli_tool_bench(int argc, char **argv);
int gli_tool_plan(int argc, char **argv);
int gli_tool_info(int argc, char **argv);
int gli_tool_doctor(int argc, char **argv);
int gli_tool_store(int argc, char **argv);
int gli_tool_tune(int argc, char **argv);
int gli_tool_trace(int argc, char **argv);
int gli_tool_top(int argc, char **argv);
int gli_tool_metrics(int argc, char **argv);
int gli_tool_completion(int argc, char **argv);

/* The subcommands, in the order of the help. */
typedef struct gli_tool {
  const char *name;
  int (*main)(int argc, char **argv);
  const char *summary;
} gli_tool;

extern const gli_tool gli_tools[];
extern const size_t gli_tool_count;

#endif
