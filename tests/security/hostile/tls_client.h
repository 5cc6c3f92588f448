/* TLS clients with wrong or missing certificates. */
#ifndef TESTS_SECURITY_HOSTILE_TLS_CLIENT_H
#define TESTS_SECURITY_HOSTILE_TLS_CLIENT_H

#include "hostile.h"

/* Writes the certificates of the job's ranks ("rankN.pem"), of its authority
 * ("ca.pem"), and of the clients below. */
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

/* Runs that client on a connection where TLS comes next. The handshake may
 * succeed for the client, but the server must send it nothing. Closes fd. */
void hostile_tls_is_refused(hostile *h, int fd, size_t which);

#endif
