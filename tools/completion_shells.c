/* Writers of the completion of each shell. */
#include <string.h>

#include "tools/completion.h"

/* Prints a text within quotes of the shell, with a backslash before each of
 * `special`; `quote` is the text for a quote. */
static void print_quoted(FILE *to, const char *text, const char *special,
                         const char *quote) {
  for (; *text != 0; text++) {
    if (*text == '\'') {
      fputs(quote, to);
      continue;
    }
    if (strchr(special, *text) != NULL) fputc('\\', to);
    fputc(*text, to);
  }
}

/* Prints the name of a function or state: "bench_limits". */
static void print_name(FILE *to, const gli_command *command) {
  for (const char *c = command->name; *c != 0; c++)
    fputc(*c == ' ' ? '_' : *c, to);
}

/* ---- bash ---------------------------------------------------------------- */

static const char bash_head[] =
    "# Completion of the gloo command in bash, by 'gloo completion bash'.\n"
    "_gloo() {\n"
    "  local current=$2 previous=$3 at first=0 command='' own=true\n"
    "  local options='' operands='' kind='' values=''\n"
    "  COMPREPLY=()\n"
    "  for ((at = 0; at < COMP_CWORD; at++)); do\n"
    "    if [[ ${COMP_WORDS[at]##*/} == gloo ]]; then first=$at own=true; fi\n"
    "    if [[ ${COMP_WORDS[at]} == -- ]]; then own=false; fi\n"
    "  done\n"
    "  # 'gloo bench --dtype=f' is five words.\n"
    "  if [[ $current == = ]]; then\n"
    "    current='' previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "  elif [[ $previous == = ]]; then\n"
    "    previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "  fi\n"
    "  if ((COMP_CWORD > first + 1)); then command=${COMP_WORDS[first + 1]}; "
    "fi\n"
    "  if ((COMP_CWORD > first + 2)); then\n"
    "    case \"$command ${COMP_WORDS[first + 2]}\" in\n";

static const char bash_tail[] =
    "  esac\n"
    "  if [[ $own == false ]]; then options='' values=''; fi\n"
    "  case $values in\n"
    "    nothing) return ;;\n"
    "    files) kind=files options='' operands='' ;;\n"
    "    ?*) options='' operands=$values kind='' ;;\n"
    "  esac\n"
    "  if [[ $current == -* && -n $options ]]; then operands=$options "
    "kind=''; fi\n"
    "  case $kind in\n"
    "    files) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
    "    program) mapfile -t COMPREPLY < <(compgen -cf -- \"$current\") ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"$operands\" -- "
    "\"$current\") ;;\n"
    "  esac\n"
    "  if [[ -n $kind ]]; then compopt -o filenames 2>/dev/null; fi\n"
    "}\n"
    "complete -F _gloo gloo\n";

static void bash_value(FILE *to, const gli_option *option) {
  if (option->kind == GLI_OPTION_FLAG) return;
  fprintf(to, "        ");
  if (option->letter != 0) fprintf(to, "-%c | ", option->letter);
  fprintf(to, "--%s) values=", option->name);
  switch (gli_completion_kind(option)) {
    case GLI_COMPLETE_WORDS:
      fprintf(to, "'");
      gli_completion_values(to, option);
      fprintf(to, "'");
      break;
    case GLI_COMPLETE_FILES:
      fprintf(to, "files");
      break;
    default:
      fprintf(to, "nothing");
  }
  fprintf(to, " ;;\n");
}

static void bash_command(FILE *to, const gli_completions *all,
                         const gli_command *command) {
  fprintf(to, "    '%s')\n      options='", command->name);
  for (size_t i = 0; i < command->n_options; i++)
    fprintf(to, "--%s ", command->options[i].name);
  fprintf(to, "--help'\n");
  gli_completed_kind kind = gli_completion_operands(command);
  if (kind == GLI_COMPLETE_WORDS) {
    fprintf(to, "      operands='");
    gli_completion_operand_words(to, all, command);
    fprintf(to, "'\n");
  }
  if (kind == GLI_COMPLETE_FILES) fprintf(to, "      kind=files\n");
  if (kind == GLI_COMPLETE_PROGRAM) fprintf(to, "      kind=program\n");
  bool valued = false;
  for (size_t i = 0; i < command->n_options; i++)
    valued = valued || command->options[i].kind != GLI_OPTION_FLAG;
  if (valued) {
    fprintf(to, "      case $previous in\n");
    for (size_t i = 0; i < command->n_options; i++)
      bash_value(to, &command->options[i]);
    fprintf(to, "      esac\n");
  }
  fprintf(to, "      ;;\n");
}

void gli_completion_bash(FILE *to, const gli_completions *all) {
  fputs(bash_head, to);
  for (size_t i = 0; i < all->n; i++) {
    const gli_command *c = all->commands[i].command;
    if (gli_completion_is_inner(c))
      fprintf(to, "      '%s') command='%s' ;;\n", c->name, c->name);
  }
  fprintf(to, "    esac\n  fi\n  case $command in\n    '') operands='");
  for (size_t i = 0; i < all->n; i++)
    if (!gli_completion_is_inner(all->commands[i].command))
      fprintf(to, "%s ", all->commands[i].command->name);
  fprintf(to, "help' options='--help --version' ;;\n");
  for (size_t i = 0; i < all->n; i++)
    bash_command(to, all, all->commands[i].command);
  fputs(bash_tail, to);
}

/* ---- zsh ----------------------------------------------------------------- */

static void zsh_option(FILE *to, const gli_option *option) {
  bool valued = option->kind != GLI_OPTION_FLAG;
  fprintf(to, "    ");
  if (option->letter != 0)
    fprintf(to, "'(-%c --%s)'{-%c%s,--%s%s}", option->letter, option->name,
            option->letter, valued ? "+" : "", option->name, valued ? "=" : "");
  else
    fprintf(to, "--%s%s", option->name, valued ? "=" : "");
  fprintf(to, "'[");
  print_quoted(to, option->help, "[]:\\", "'\\''");
  fprintf(to, "]");
  if (valued) {
    fprintf(to, ":");
    print_quoted(to, option->argument, ":\\", "'\\''");
    fprintf(to, ":");
    gli_completed_kind kind = gli_completion_kind(option);
    if (kind == GLI_COMPLETE_NOTHING) fprintf(to, " ");
    if (kind == GLI_COMPLETE_FILES) fprintf(to, "_files");
    if (kind == GLI_COMPLETE_WORDS) {
      fprintf(to, "(");
      gli_completion_values(to, option);
      fprintf(to, ")");
    }
  }
  fprintf(to, "' \\\n");
}

/* Prints the lines that pass on to a subcommand. */
static void zsh_inner(FILE *to, const gli_completions *all,
                      const gli_command *outer) {
  for (size_t i = 0; i < all->n; i++) {
    const gli_command *c = all->commands[i].command;
    const char *word = gli_completion_inner_of(outer, c);
    if (word == NULL) continue;
    fprintf(to, "  if [[ $words[2] == %s && $CURRENT -gt 2 ]]; then\n", word);
    fprintf(to, "    shift words; (( CURRENT-- )); _gloo_");
    print_name(to, c);
    fprintf(to, "; return\n  fi\n");
  }
}

static void zsh_command(FILE *to, const gli_completions *all,
                        const gli_command *command) {
  fprintf(to, "_gloo_");
  print_name(to, command);
  fprintf(to, "() {\n");
  zsh_inner(to, all, command);
  fprintf(to, "  _arguments -S \\\n");
  for (size_t i = 0; i < command->n_options; i++)
    zsh_option(to, &command->options[i]);
  switch (gli_completion_operands(command)) {
    case GLI_COMPLETE_WORDS:
      fprintf(to, "    '1:operand:(");
      gli_completion_operand_words(to, all, command);
      fprintf(to, ")' \\\n");
      break;
    case GLI_COMPLETE_FILES:
      fprintf(to, "    '*:file:_files' \\\n");
      break;
    case GLI_COMPLETE_PROGRAM:
      fprintf(to, "    '*::program:_normal' \\\n");
      break;
    case GLI_COMPLETE_NOTHING:
      break;
  }
  fprintf(to, "    '(- *)'{-h,--help}'[print this help]'\n}\n\n");
}

void gli_completion_zsh(FILE *to, const gli_completions *all) {
  fprintf(to,
          "#compdef gloo\n"
          "# Completion of the gloo command in zsh, by 'gloo completion "
          "zsh'.\n\n");
  for (size_t i = 0; i < all->n; i++)
    zsh_command(to, all, all->commands[i].command);
  fprintf(to,
          "_gloo() {\n  local curcontext=$curcontext state line\n"
          "  local -a commands=(\n");
  for (size_t i = 0; i < all->n; i++) {
    const gli_completed *c = &all->commands[i];
    if (c->summary == NULL) continue;
    fprintf(to, "    '%s:", c->command->name);
    print_quoted(to, c->summary, "\\", "'\\''");
    fprintf(to, "'\n");
  }
  fprintf(to,
          "    'help:list the commands'\n  )\n"
          "  _arguments -C '(- *)'{-h,--help}'[list the commands]' \\\n"
          "    '(- *)'{-V,--version}'[print the version]' \\\n"
          "    '1:command:->command' '*::argument:->arguments'\n"
          "  case $state in\n"
          "    command) _describe 'command' commands ;;\n"
          "    arguments) (( $+functions[_gloo_$words[1]] )) && "
          "_gloo_$words[1] ;;\n"
          "  esac\n}\n\n"
          "if [[ $funcstack[1] == _gloo ]]; then _gloo \"$@\"; "
          "else compdef _gloo gloo; fi\n");
}

/* ---- fish ---------------------------------------------------------------- */

static const char fish_head[] =
    "# Completion of the gloo command in fish, by 'gloo completion fish'.\n"
    "function __gloo_is\n"
    "    set -l words (commandline -opc)\n"
    "    set -l command \"$words[2]\"\n"
    "    contains -- \"$words[2] $words[3]\" $__gloo_inner\n"
    "    and set command \"$words[2] $words[3]\"\n"
    "    test \"$command\" = \"$argv\"\n"
    "end\n"
    "function __gloo_program\n"
    "    set -l words (commandline -opc)\n"
    "    set -l at (contains -i -- -- $words)\n"
    "    or return\n"
    "    set -l given (string escape -- $words[$at..-1])[2..-1] "
    "(commandline -ct)\n"
    "    complete -C (string join ' ' -- $given)\n"
    "end\n"
    "set -g __gloo_inner";

static void fish_text(FILE *to, const char *text) {
  fprintf(to, "'");
  print_quoted(to, text, "\\", "\\'");
  fprintf(to, "'");
}

static void fish_option(FILE *to, const gli_command *command,
                        const gli_option *option) {
  fprintf(to, "complete -c gloo -n '__gloo_is %s' -l %s", command->name,
          option->name);
  if (option->letter != 0) fprintf(to, " -s %c", option->letter);
  if (option->kind != GLI_OPTION_FLAG) {
    gli_completed_kind kind = gli_completion_kind(option);
    fprintf(to, kind == GLI_COMPLETE_FILES ? " -r -F" : " -x");
    if (kind == GLI_COMPLETE_WORDS) {
      fprintf(to, " -a '");
      gli_completion_values(to, option);
      fprintf(to, "'");
    }
  }
  fprintf(to, " -d ");
  fish_text(to, option->help);
  fprintf(to, "\n");
}

static void fish_command(FILE *to, const gli_completions *all,
                         const gli_command *command) {
  for (size_t i = 0; i < command->n_options; i++)
    fish_option(to, command, &command->options[i]);
  fprintf(to,
          "complete -c gloo -n '__gloo_is %s' -l help -s h -d 'print this "
          "help'\n",
          command->name);
  gli_completed_kind kind = gli_completion_operands(command);
  if (kind == GLI_COMPLETE_NOTHING) return;
  fprintf(to, "complete -c gloo -n '__gloo_is %s' ", command->name);
  if (kind == GLI_COMPLETE_FILES) fprintf(to, "-F");
  if (kind == GLI_COMPLETE_PROGRAM) fprintf(to, "-F -a '(__gloo_program)'");
  if (kind == GLI_COMPLETE_WORDS) {
    fprintf(to, "-a '");
    gli_completion_operand_words(to, all, command);
    fprintf(to, "'");
  }
  fprintf(to, "\n");
}

void gli_completion_fish(FILE *to, const gli_completions *all) {
  fputs(fish_head, to);
  for (size_t i = 0; i < all->n; i++)
    if (gli_completion_is_inner(all->commands[i].command))
      fprintf(to, " '%s'", all->commands[i].command->name);
  fprintf(to, "\ncomplete -c gloo -f\n");
  for (size_t i = 0; i < all->n; i++) {
    const gli_completed *c = &all->commands[i];
    if (c->summary == NULL) continue;
    fprintf(to, "complete -c gloo -n '__gloo_is \"\"' -a %s -d ",
            c->command->name);
    fish_text(to, c->summary);
    fprintf(to, "\n");
  }
  fprintf(to,
          "complete -c gloo -n '__gloo_is \"\"' -a help -d 'list the "
          "commands'\n"
          "complete -c gloo -n '__gloo_is \"\"' -s h -l help -d 'list the "
          "commands'\n"
          "complete -c gloo -n '__gloo_is \"\"' -s V -l version -d 'print the "
          "version'\n");
  for (size_t i = 0; i < all->n; i++)
    fish_command(to, all, all->commands[i].command);
}
