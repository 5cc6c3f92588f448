/* What ends of TLS show each other, of ranks 0 and 1 of one job at 127.0.0.1:
 * the same in each process. */
#ifndef TESTS_FUZZ_TLS_PAPERS_H
#define TESTS_FUZZ_TLS_PAPERS_H

#include "core/endpoint.h"
#include "security/tls.h"

typedef struct tls_papers {
  gli_tls_settings *secret;
  gli_tls_settings *rank[2];
  gli_tls_settings *stranger[2]; /* of an authority that the job has not */
  gli_tls_settings *other_rank;  /* 7, wherever that is */
  gli_endpoint at;
} tls_papers;

/* Makes them once. The files are gone when this returns: settings go on with
 * what they have, and nothing is left behind when an input ends the process. */
void tls_papers_make(tls_papers *papers);

#endif
