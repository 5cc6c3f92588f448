/* Certificates and keys of ranks 0 and 1 of one job at 127.0.0.1, the same in
 * each process. */
#ifndef TESTS_FUZZ_TLS_PAPERS_H
#define TESTS_FUZZ_TLS_PAPERS_H

#include "net/endpoint.h"
#include "net/tls.h"

typedef struct tls_papers {
  gli_tls_settings *secret;
  gli_tls_settings *rank[2];
  gli_tls_settings *stranger[2]; /* their authority is not the job's */
  gli_tls_settings *other_rank;  /* rank 7, at any address */
  gli_endpoint at;
} tls_papers;

/* Makes them once, and removes the files: settings keep what they have read,
 * and an input that ends the process leaves no file behind. */
void tls_papers_make(tls_papers *papers);

#endif
