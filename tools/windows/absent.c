/* Commands that need what Windows lacks: an error says what that is. */
#include <stdio.h>
#include <string.h>

#include "tools/limits.h"
#include "tools/start.h"
#include "tools/tools.h"

#define NOT_ON_WINDOWS "Does not exist on Windows. "
#define OBSERVER                               \
  NOT_ON_WINDOWS                               \
  "It reads Unix sockets of the ranks. Call\n" \
  "gloo_context_metrics in the program.\n"
#define READER   \
  NOT_ON_WINDOWS \
  "Run it on another system: the files that GLOO_TRACE names are the same.\n"
#define FORKS                                                               \
  NOT_ON_WINDOWS                                                            \
  "It measures processes that are forked. gloo bench COLLECTIVE measures\n" \
  "there.\n"

static const gli_command commands[] = {
    {.name = "top", .usage = "gloo top", .about = OBSERVER},
    {.name = "trace", .usage = "gloo trace", .about = READER},
    {.name = "metrics", .usage = "gloo metrics", .about = OBSERVER},
    {.name = "bench limits", .usage = "gloo bench limits", .about = FORKS},
    {.name = "bench start", .usage = "gloo bench start", .about = FORKS},
};

static int absent(int which, int argc, char **argv) {
  const gli_command *command = &commands[which];
  if (argc > 1 && strcmp(argv[1], "--help") == 0)
    return gli_options_parse(command, argc, argv, NULL) == GLI_PARSE_HELP
               ? GLI_EXIT_OK
               : GLI_EXIT_USAGE;
  (void)fprintf(stderr, "gloo %s: %s", command->name, command->about);
  return GLI_EXIT_USAGE;
}

int gli_tool_top(int argc, char **argv) {
  return absent(0, argc, argv);
}

int gli_tool_trace(int argc, char **argv) {
  return absent(1, argc, argv);
}

int gli_tool_metrics(int argc, char **argv) {
  return absent(2, argc, argv);
}

int gli_bench_limits(int argc, char **argv) {
  return absent(3, argc, argv);
}

int gli_bench_start(int argc, char **argv) {
  return absent(4, argc, argv);
}
