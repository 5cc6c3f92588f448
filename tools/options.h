/* The option parser of all subcommands.
 *
 * Understands --name value, --name=value, --flag, -x value, -xvalue, and `--`,
 * after which everything is an operand. --help always exists. An error names
 * the option, the value and the expected form. */
#ifndef GLI_TOOLS_OPTIONS_H
#define GLI_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef enum gli_option_kind {
  GLI_OPTION_FLAG,    /* bool *: set to true */
  GLI_OPTION_TEXT,    /* const char ** */
  GLI_OPTION_INTEGER, /* int64_t *, from min to max */
  GLI_OPTION_BYTES,   /* uint64_t *, from min to max: 4, 16K, 64M, 1G */
  GLI_OPTION_SECONDS  /* double *, above 0, up to max: 1, 0.25 */
} gli_option_kind;

typedef struct gli_option {
  const char *name; /* without the dashes */
  char letter;      /* 0: no short form */
  gli_option_kind kind;
  void *value;          /* unchanged if the option is not given */
  const char *argument; /* name of the value in the help; NULL for flags */
  const char *help;
  int64_t min, max;
} gli_option;

typedef struct gli_command {
  const char *name;  /* "bench": messages start with "gloo bench: " */
  const char *usage; /* first line of the help, without "usage: " */
  const char *about; /* a paragraph for the help, ending in a newline */
  const gli_option *options;
  size_t n_options;
  bool stop_at_operand; /* true to leave everything after the first operand
                           unparsed */
} gli_command;

typedef enum gli_parse {
  GLI_PARSE_OK,
  GLI_PARSE_HELP, /* the help was printed: exit with 0 */
  GLI_PARSE_BAD   /* an error was printed: exit with GLI_EXIT_USAGE */
} gli_parse;

/* Parses argv[1 ..]. Moves operands to the front: argv[0 .. *n_operands - 1].
 * n_operands is NULL if no operand is allowed. */
gli_parse gli_options_parse(const gli_command *command, int argc, char **argv,
                            int *n_operands);

/* Replaces the output of --help: `show` gets the table of the command; NULL
 * restores it. */
typedef void gli_help(const gli_command *command, void *to);
void gli_options_on_help(gli_help *show, void *to);

/* Greatest distance of a guess (gli_word_distance). */
enum { GLI_TYPING_ERRORS = 2 };

/* Prints "gloo NAME: " and a sentence to standard error, and returns
 * GLI_EXIT_USAGE, so that a caller can write `return gli_usage_error(...)`. */
int gli_usage_error(const gli_command *command, const char *format, ...)
    GLI_PRINTF(2, 3);

/* Parses a size: digits, then an optional K, M or G (powers of 1,024; a
 * following "B" or "iB" is accepted). Returns false if it is malformed, or over
 * 2^63 - 1. */
bool gli_parse_bytes(const char *text, uint64_t *bytes);

/* Writes the shortest exact form of a size: "16K", "4M", "100". */
#define GLI_BYTES_TEXT 24
const char *gli_format_bytes(uint64_t bytes, char text[GLI_BYTES_TEXT]);

#endif
