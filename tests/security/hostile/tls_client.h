/* Clients of TLS that are not who they should be. */
#ifndef TESTS_SECURITY_HOSTILE_TLS_CLIENT_H
#define TESTS_SECURITY_HOSTILE_TLS_CLIENT_H

#include "hostile.h"

/* Those of a job's ranks, "rankN.pem", and of its authority, "ca.pem", and what
 * the clients below have. */
void hostile_write_papers(const char *folder);

enum {
  TLS_WITHOUT_PAPERS,
  TLS_OF_RANK_2,
  TLS_OF_ANOTHER_HOST,
  TLS_EXPIRED,
  TLS_EARLY,
  TLS_UNBELIEVED,
  TLS_1_2
};

/* That client, on a connection where TLS is next: it may think that TLS is
 * made, but nothing is ever said to it. Closes fd. */
void hostile_tls_is_refused(hostile *h, int fd, size_t which);

#endif
