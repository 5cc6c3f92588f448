/* gloo completion: collects commands, options and words from the tables of the
 * help. */
#include "tools/completion.h"

#include <string.h>

#include "algorithms/registry.h"
#include "gloo_c/types.h"
#include "tools/bench_case.h"
#include "tools/tools.h"
#include "transport/transport.h"

static const gli_command command = {
    .name = "completion",
    .usage = "gloo completion bash|zsh|fish",
    .about =
        "Prints the completion of this command for a shell. Packages install\n"
        "it; without one:\n"
        "  bash   source <(gloo completion bash)\n"
        "  zsh    gloo completion zsh > _gloo, in a directory of $fpath\n"
        "  fish   gloo completion fish | source\n",
};

/* ---- commands ------------------------------------------------------------ */

static void add_command(const gli_command *found, void *to) {
  gli_completions *all = to;
  if (all->n == GLI_COMPLETED_MAX) return;
  all->commands[all->n++].command = found;
}

/* Calls a command with --help, which leads to add_command. */
static void ask_command(const gli_tool *tool, const char *inner) {
  char name[32], word[32], help[] = "--help";
  char *argv[] = {name, word, help, NULL};
  snprintf(name, sizeof name, "%s", tool->name);
  snprintf(word, sizeof word, "%s", inner);
  if (*inner == 0) argv[1] = help;
  tool->main(*inner == 0 ? 2 : 3, argv);
}

/* Asks for each WORD of "gloo COMMAND WORD [options]" in the usage. */
static void ask_inner(const gli_tool *tool, const char *usage) {
  char prefix[48], word[32];
  snprintf(prefix, sizeof prefix, "gloo %s ", tool->name);
  for (const char *at = usage; (at = strstr(at, prefix)) != NULL;) {
    at += strlen(prefix);
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (length == 0 || length >= sizeof word ||
        strncmp(at + length, " [", 2) != 0)
      continue;
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    ask_command(tool, word);
  }
}

static void ask_all(gli_completions *all) {
  gli_options_on_help(add_command, all);
  for (size_t i = 0; i < gli_tool_count; i++) {
    size_t at = all->n;
    ask_command(&gli_tools[i], "");
    if (at == all->n) continue;
    all->commands[at].summary = gli_tools[i].summary;
    ask_inner(&gli_tools[i], all->commands[at].command->usage);
  }
  gli_options_on_help(NULL, NULL);
}

bool gli_completion_is_inner(const gli_command *inner) {
  return strchr(inner->name, ' ') != NULL;
}

const char *gli_completion_inner_of(const gli_command *outer,
                                    const gli_command *inner) {
  size_t length = strlen(outer->name);
  bool has = strncmp(inner->name, outer->name, length) == 0 &&
             inner->name[length] == ' ';
  return has ? inner->name + length + 1 : NULL;
}

/* ---- values -------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const *words) {
  while (*words != NULL && strcmp(word, *words) != 0) words++;
  return *words != NULL;
}

gli_completed_kind gli_completion_kind(const gli_option *option) {
  static const char *const files[] = {"FILE", "DIRECTORY", "PATH", NULL};
  static const char *const listed[] = {"dtype",  "op", "algorithm", "transport",
                                       "memory", "by", NULL};
  if (option->kind != GLI_OPTION_TEXT) return GLI_COMPLETE_NOTHING;
  if (is_one_of(option->argument, files)) return GLI_COMPLETE_FILES;
  if (is_one_of(option->name, listed)) return GLI_COMPLETE_WORDS;
  return GLI_COMPLETE_NOTHING;
}

/* Prints each name of an algorithm once. */
static void print_algorithms(FILE *to) {
  const char *space = "";
  for (size_t i = 0; i < gli_algorithm_count; i++) {
    size_t before = 0;
    while (strcmp(gli_algorithms[before].name, gli_algorithms[i].name) != 0)
      before++;
    if (before < i) continue;
    fprintf(to, "%s%s", space, gli_algorithms[i].name);
    space = " ";
  }
}

void gli_completion_values(FILE *to, const gli_option *option) {
  const char *name = option->name;
  if (strcmp(name, "dtype") == 0)
    for (int i = 0; i < GLOO_DTYPE_COUNT; i++)
      fprintf(to, "%s%s", i > 0 ? " " : "", gloo_dtype_name((gloo_dtype)i));
  if (strcmp(name, "op") == 0)
    for (int i = 0; i < GLOO_OP_COUNT; i++)
      fprintf(to, "%s%s", i > 0 ? " " : "", gloo_op_name((gloo_op)i));
  if (strcmp(name, "algorithm") == 0) print_algorithms(to);
  if (strcmp(name, "transport") == 0)
    for (size_t i = 0; gli_transport_at(i) != NULL; i++)
      fprintf(to, "%s%s", i > 0 ? " " : "", gli_transport_at(i)->name);
  if (strcmp(name, "memory") == 0) fprintf(to, "malloc gloo_alloc cuda hip");
  if (strcmp(name, "by") == 0) fprintf(to, "srun mpirun mpiexec");
}

gli_completed_kind gli_completion_operands(const gli_command *of) {
  if (strstr(of->usage, "COLLECTIVE") != NULL || of == &command)
    return GLI_COMPLETE_WORDS;
  if (strstr(of->usage, "] program") != NULL) return GLI_COMPLETE_PROGRAM;
  bool files = strstr(of->usage, " FILE") != NULL ||
               strstr(of->usage, "DIRECTORY]") != NULL;
  return files ? GLI_COMPLETE_FILES : GLI_COMPLETE_NOTHING;
}

static bool has_algorithms(gli_collective collective) {
  size_t i = 0;
  while (i < gli_algorithm_count && gli_algorithms[i].collective != collective)
    i++;
  return i < gli_algorithm_count;
}

void gli_completion_operand_words(FILE *to, const gli_completions *all,
                                  const gli_command *of) {
  const char *space = "";
  if (of == &command) fprintf(to, "bash zsh fish");
  if (strstr(of->usage, "COLLECTIVE") == NULL) return;
  bool plans = strcmp(of->name, "plan") == 0;
  for (int i = 0; i < GLI_COLLECTIVES; i++) {
    gli_collective c = (gli_collective)i;
    if (plans ? !has_algorithms(c) : !gli_case_knows(c)) continue;
    fprintf(to, "%s%s", space, gli_collective_name(c));
    space = " ";
  }
  if (plans) fprintf(to, " bootstrap");
  for (size_t i = 0; i < all->n; i++) {
    const char *word = gli_completion_inner_of(of, all->commands[i].command);
    if (word != NULL) fprintf(to, " %s", word);
  }
}

/* ---- the command --------------------------------------------------------- */

int gli_tool_completion(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(FILE *to, const gli_completions *all);
  } shells[] = {{"bash", gli_completion_bash},
                {"zsh", gli_completion_zsh},
                {"fish", gli_completion_fish}};
  int n_operands;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n_operands);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n_operands != 1)
    return gli_usage_error(&command, "usage: %s", command.usage);
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
    if (strcmp(argv[0], shells[i].name) != 0) continue;
    gli_completions all = {.n = 0};
    ask_all(&all);
    shells[i].print(stdout, &all);
    return fflush(stdout) == 0 ? GLI_EXIT_OK : GLI_EXIT_FAILED;
  }
  return gli_usage_error(&command, "'%s' is not one of bash, zsh, fish",
                         argv[0]);
}
