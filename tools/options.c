#include "tools/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "tools/tools.h"

int gli_usage_error(const gli_command *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "gloo %s: ", command->name);
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
  return GLI_EXIT_USAGE;
}

/* ---- values -------------------------------------------------------------- */

bool gli_parse_bytes(const char *text, uint64_t *bytes) {
  if (*text < '0' || *text > '9') return false;
  errno = 0;
  char *end;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno != 0) return false;
  unsigned shift = 0;
  if (*end == 'K' || *end == 'k') shift = 10;
  if (*end == 'M' || *end == 'm') shift = 20;
  if (*end == 'G' || *end == 'g') shift = 30;
  if (shift != 0) end++;
  if (shift != 0 && end[0] == 'i' && end[1] == 'B') end++;
  if (*end == 'B') end++;
  if (*end != 0) return false;
  if (number > (unsigned long long)(INT64_MAX >> shift)) return false;
  *bytes = (uint64_t)number << shift;
  return true;
}

const char *gli_format_bytes(uint64_t bytes, char text[GLI_BYTES_TEXT]) {
  static const char units[] = {0, 'K', 'M', 'G'};
  unsigned unit = 0;
  while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  if (unit == 0) snprintf(text, GLI_BYTES_TEXT, "%" PRIu64, bytes);
  if (unit != 0) {
    snprintf(text, GLI_BYTES_TEXT, "%" PRIu64 "%c", bytes, units[unit]);
  }
  return text;
}

static bool parse_integer(const gli_option *option, const char *text) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (end == text || *end != 0 || errno != 0) return false;
  if (number < option->min || number > option->max) return false;
  *(int64_t *)option->value = (int64_t)number;
  return true;
}

static bool parse_size(const gli_option *option, const char *text) {
  uint64_t bytes;
  if (!gli_parse_bytes(text, &bytes)) return false;
  if (bytes < (uint64_t)option->min) return false;
  if (bytes > (uint64_t)option->max) return false;
  *(uint64_t *)option->value = bytes;
  return true;
}

static bool parse_seconds(const gli_option *option, const char *text) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end != 0 || !isfinite(seconds)) return false;
  if (seconds <= 0 || seconds > (double)option->max) return false;
  *(double *)option->value = seconds;
  return true;
}

static gli_parse bad_value(const gli_command *command, const gli_option *option,
                           const char *text) {
  char low[GLI_BYTES_TEXT], high[GLI_BYTES_TEXT];
  switch (option->kind) {
    case GLI_OPTION_INTEGER:
      gli_usage_error(command,
                      "option --%s: '%s' is not a whole number from %" PRId64
                      " to %" PRId64,
                      option->name, text, option->min, option->max);
      break;
    case GLI_OPTION_BYTES:
      gli_usage_error(command,
                      "option --%s: '%s' is not a size from %s to %s, such as "
                      "4, 16K or 64M",
                      option->name, text,
                      gli_format_bytes((uint64_t)option->min, low),
                      gli_format_bytes((uint64_t)option->max, high));
      break;
    default:
      gli_usage_error(command,
                      "option --%s: '%s' is not a number of seconds above 0, "
                      "up to %" PRId64,
                      option->name, text, option->max);
  }
  return GLI_PARSE_BAD;
}

static gli_parse store_value(const gli_command *command,
                             const gli_option *option, const char *text) {
  bool good = true;
  switch (option->kind) {
    case GLI_OPTION_FLAG:
      *(bool *)option->value = true;
      break;
    case GLI_OPTION_TEXT:
      *(const char **)option->value = text;
      break;
    case GLI_OPTION_INTEGER:
      good = parse_integer(option, text);
      break;
    case GLI_OPTION_BYTES:
      good = parse_size(option, text);
      break;
    case GLI_OPTION_SECONDS:
      good = parse_seconds(option, text);
      break;
  }
  return good ? GLI_PARSE_OK : bad_value(command, option, text);
}

/* ---- help ---------------------------------------------------------------- */

static gli_help *show_help = NULL;
static void *show_help_to = NULL;

void gli_options_on_help(gli_help *show, void *to) {
  show_help = show;
  show_help_to = to;
}

static void print_help(const gli_command *command) {
  if (show_help != NULL) {
    show_help(command, show_help_to);
    return;
  }
  printf("usage: %s\n\n%s\noptions:\n", command->usage, command->about);
  for (size_t i = 0; i < command->n_options; i++) {
    const gli_option *option = &command->options[i];
    char left[64];
    const char *argument = option->argument != NULL ? option->argument : "";
    const char *space = option->argument != NULL ? " " : "";
    if (option->letter != 0) {
      snprintf(left, sizeof left, "-%c, --%s%s%s", option->letter, option->name,
               space, argument);
    } else {
      snprintf(left, sizeof left, "    --%s%s%s", option->name, space,
               argument);
    }
    printf("  %-26s %s\n", left, option->help);
  }
  printf("  %-26s %s\n", "-h, --help", "print this help");
}

/* ---- parsing ------------------------------------------------------------- */

/* Returns true if `word` (after its dashes) names `option`. */
static bool names(const gli_option *option, const char *word, bool is_long) {
  if (!is_long) return option->letter == word[0];
  size_t length = strcspn(word, "=");
  return strlen(option->name) == length &&
         strncmp(option->name, word, length) == 0;
}

static const gli_option *find_option(const gli_command *command,
                                     const char *word, bool is_long) {
  for (size_t i = 0; i < command->n_options; i++) {
    if (names(&command->options[i], word, is_long)) return &command->options[i];
  }
  return NULL;
}

/* Returns the value that is part of `word` itself ("name=value", "n4"), or
 * NULL. */
static const char *attached_value(const char *word, bool is_long) {
  if (!is_long) return word[1] != 0 ? word + 1 : NULL;
  const char *equals = strchr(word, '=');
  return equals != NULL ? equals + 1 : NULL;
}

/* Returns the option that a word of several letters behind one dash may mean,
 * such as -np or -ranks; NULL if there is none. */
static const gli_option *one_dash_option(const gli_command *command,
                                         const char *word) {
  for (size_t i = 0; i < command->n_options; i++) {
    const gli_option *option = &command->options[i];
    if (strcmp(option->name, word) == 0) return option;
    if (strcmp(word, "np") == 0 && option->letter == 'n') return option;
  }
  return NULL;
}

/* Returns the only option whose name begins with `word`, or the one whose name
 * differs least from it; NULL if there is none. */
static const gli_option *guess_option(const gli_command *command,
                                      const char *word) {
  const gli_option *closest = NULL, *begun = NULL;
  size_t least = GLI_TYPING_ERRORS + 1;
  int n_begun = 0;
  size_t length = strlen(word);
  for (size_t i = 0; i < command->n_options && length > 1; i++) {
    const gli_option *option = &command->options[i];
    if (strncmp(option->name, word, length) == 0) {
      begun = option;
      n_begun++;
    }
    size_t distance = gli_word_distance(word, option->name);
    if (distance >= least) continue;
    least = distance;
    closest = option;
  }
  return n_begun == 1 ? begun : closest;
}

static void unknown_option(const gli_command *command, const char *given) {
  char word[64];
  const char *name = given + strspn(given, "-");
  snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
  const gli_option *guess = one_dash_option(command, word);
  bool letter = guess != NULL && guess->letter != 0 && given[1] != '-';
  if (guess == NULL) guess = guess_option(command, word);
  if (letter)
    gli_usage_error(command, "unknown option %s; did you mean -%c%s%s?", given,
                    guess->letter, guess->argument != NULL ? " " : "",
                    guess->argument != NULL ? guess->argument : "");
  else if (guess != NULL)
    gli_usage_error(command, "unknown option %s; did you mean --%s?", given,
                    guess->name);
  else
    gli_usage_error(command, "unknown option %s; 'gloo %s --help' lists them",
                    given, command->name);
}

/* Handle argv[*at], an option; *at moves to the last word it used. */
static gli_parse parse_option(const gli_command *command, int argc, char **argv,
                              int *at) {
  const char *given = argv[*at];
  bool is_long = given[1] == '-';
  const char *word = given + (is_long ? 2 : 1);
  if (strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0) {
    print_help(command);
    return GLI_PARSE_HELP;
  }
  const gli_option *option = find_option(command, word, is_long);
  if (!is_long && one_dash_option(command, word) != NULL) option = NULL;
  if (option == NULL) {
    unknown_option(command, given);
    return GLI_PARSE_BAD;
  }
  const char *value = attached_value(word, is_long);
  if (option->kind == GLI_OPTION_FLAG && value != NULL) {
    gli_usage_error(command, "option --%s takes no value, but got '%s'",
                    option->name, value);
    return GLI_PARSE_BAD;
  }
  if (option->kind != GLI_OPTION_FLAG && value == NULL) {
    if (*at + 1 >= argc) {
      gli_usage_error(command, "option --%s needs a value: --%s %s",
                      option->name, option->name, option->argument);
      return GLI_PARSE_BAD;
    }
    value = argv[++*at];
  }
  return store_value(command, option, value);
}

gli_parse gli_options_parse(const gli_command *command, int argc, char **argv,
                            int *n_operands) {
  int kept = 0;
  bool only_operands = false;
  for (int at = 1; at < argc; at++) {
    bool is_option = argv[at][0] == '-' && argv[at][1] != 0 && !only_operands;
    if (is_option && strcmp(argv[at], "--") == 0) {
      only_operands = true;
      continue;
    }
    if (is_option) {
      gli_parse result = parse_option(command, argc, argv, &at);
      if (result != GLI_PARSE_OK) return result;
      continue;
    }
    if (command->stop_at_operand) only_operands = true;
    argv[kept++] = argv[at];
  }
  if (n_operands != NULL) {
    *n_operands = kept;
    return GLI_PARSE_OK;
  }
  if (kept == 0) return GLI_PARSE_OK;
  gli_usage_error(command, "takes no operands, but got '%s'", argv[0]);
  return GLI_PARSE_BAD;
}
