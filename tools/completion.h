/* `gloo completion`: completion of the command line in bash, zsh and fish. */
#ifndef GLI_TOOLS_COMPLETION_H
#define GLI_TOOLS_COMPLETION_H

#include <stdio.h>

#include "tools/options.h"

/* A command or subcommand, such as "bench" or "bench limits". */
typedef struct gli_completed {
  const gli_command *command;
  const char *summary; /* NULL for a subcommand */
} gli_completed;

enum { GLI_COMPLETED_MAX = 32 };
typedef struct gli_completions {
  gli_completed commands[GLI_COMPLETED_MAX]; /* each before its subcommands */
  size_t n;
} gli_completions;

/* The kind of an operand, or of the value of an option. */
typedef enum gli_completed_kind {
  GLI_COMPLETE_NOTHING, /* a number, a name */
  GLI_COMPLETE_WORDS,   /* one of the words of gli_completion_values */
  GLI_COMPLETE_FILES,
  GLI_COMPLETE_PROGRAM /* a program and its arguments */
} gli_completed_kind;

gli_completed_kind gli_completion_kind(const gli_option *option);
gli_completed_kind gli_completion_operands(const gli_command *command);

/* Print the words, each with a blank before it except for the first. */
void gli_completion_values(FILE *to, const gli_option *option);
void gli_completion_operand_words(FILE *to, const gli_completions *all,
                                  const gli_command *command);

/* Returns true for a command of two words. */
bool gli_completion_is_inner(const gli_command *command);
/* Returns the second word of `inner` if it is a subcommand of `outer`, else
 * NULL. */
const char *gli_completion_inner_of(const gli_command *outer,
                                    const gli_command *inner);

/* ---- completion_shells.c ------------------------------------------------- */

void gli_completion_bash(FILE *to, const gli_completions *all);
void gli_completion_zsh(FILE *to, const gli_completions *all);
void gli_completion_fish(FILE *to, const gli_completions *all);

#endif
