/* A launcher for tests: processes, each with one end of a socket, and a server
 * of PMI-1 at the others. It can be told to answer something else. */
#ifndef TESTS_RENDEZVOUS_PMI_SERVER_H
#define TESTS_RENDEZVOUS_PMI_SERVER_H

#include <stddef.h>
#include <stdint.h>

#define PMI_RANKS_MAX 4

/* What to do when a line begins with `command`. */
typedef struct pmi_trick {
  const char *command;
  const char *answer; /* instead of the right one; NULL: close the socket */
  size_t bytes;       /* of the answer; 0: up to its end */
} pmi_trick;

typedef struct pmi_script {
  int ranks;
  const pmi_trick *trick; /* or NULL */
  unsigned value_max;     /* 0: 1024 */
} pmi_script;

/* What the server saw. */
typedef struct pmi_seen {
  int inits, puts, barriers, finalizes;
} pmi_seen;

/* Run body(rank, argument) in so many processes, which exit with its result,
 * and serve them until all are gone. Results that are not 0 fail the test, and
 * so does a rank that takes longer than a minute. */
void pmi_run(const pmi_script *script, int (*body)(int rank, void *argument),
             void *argument, pmi_seen *seen);

#endif
