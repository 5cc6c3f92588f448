/* The command that starts an agent on another host (--rsh), and sentences about
 * its failures. */
#ifndef GLI_TOOLS_RUN_RSH_H
#define GLI_TOOLS_RUN_RSH_H

#include "tools/run.h"
#include "tools/run_hostlist.h"

enum { GLI_RUN_RSH_WORDS = 62 };

typedef struct gli_run_rsh {
  char *text;                         /* holds the words */
  char *words[GLI_RUN_RSH_WORDS + 1]; /* ended by NULL */
  const char *name;                   /* last part of the first word */
  bool is_ssh;                        /* it is named ssh */
  char path[GLI_RUN_PATH_MAX];        /* of the command */
  char self[GLI_RUN_PATH_MAX];        /* of this command */
} gli_run_rsh;

/* Splits `text` ("ssh -F file") at blanks, and finds the command. Returns
 * false with the exit status and an error. gli_run_rsh_free releases it after
 * errors, too. */
bool gli_run_rsh_parse(const char *text, gli_run_rsh *rsh, int *exit_status,
                       gloo_error *error);
void gli_run_rsh_free(gli_run_rsh *rsh);

/* Returns argv for a host, ended by NULL, for gli_run_words_free; NULL if out
 * of memory. `local`: for this host, without the command. */
char **gli_run_rsh_words(const gli_run_rsh *rsh, const gli_run_host *host,
                         bool local);
void gli_run_words_free(char **words);

/* The end of the child that connects to a host. */
typedef struct gli_run_child_end {
  bool greeted; /* the agent had started */
  bool local;   /* there was no command in between */
  bool exited;  /* false: it still ran */
  int status, signum;
  char *said; /* its standard error; is modified */
} gli_run_child_end;

/* Writes why the connection to a host ended, and what to do. */
void gli_run_rsh_explain(const gli_run_rsh *rsh, const gli_run_host *host,
                         gli_run_child_end *end, char *text, size_t room);

#endif
