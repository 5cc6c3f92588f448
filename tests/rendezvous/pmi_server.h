/* A launcher for tests: processes that each hold one end of a socket pair, and
 * a PMI-1 server at the other ends. A script may replace one answer. */
#ifndef TESTS_RENDEZVOUS_PMI_SERVER_H
#define TESTS_RENDEZVOUS_PMI_SERVER_H

#include <stddef.h>
#include <stdint.h>

#define PMI_RANKS_MAX 4

/* A wrong answer to lines that begin with `command`. */
typedef struct pmi_trick {
  const char *command;
  const char *answer; /* instead of the right one; NULL: close the socket */
  size_t bytes;       /* length of the answer; 0: up to its terminating 0 */
} pmi_trick;

typedef struct pmi_script {
  int ranks;
  const pmi_trick *trick; /* or NULL */
  unsigned value_max;     /* 0: 1024 */
} pmi_script;

/* Counts of the requests that the server received. */
typedef struct pmi_seen {
  int inits, puts, barriers, finalizes;
} pmi_seen;

/* Runs body(rank, argument) in `script->ranks` processes, which exit with its
 * result, and serves them until all have ended. A result other than 0 or a rank
 * that takes longer than a minute fails the test. */
void pmi_run(const pmi_script *script, int (*body)(int rank, void *argument),
             void *argument, pmi_seen *seen);

#endif
