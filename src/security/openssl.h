/* How OpenSSL is called: for the files of this folder that do. */
#ifndef GLI_SECURITY_OPENSSL_H
#define GLI_SECURITY_OPENSSL_H

#include <stdbool.h>

#include "gloo_c/status.h"

/* OpenSSL keeps a list of errors for each thread, in which a program's own
 * calls look, too. Whatever adds to it here stands between ERR_set_mark and
 * ERR_pop_to_mark. A handshake empties it at its beginning, and so does reading
 * a file of certificates: that is OpenSSL's own doing (state_machine, and
 * use_certificate_chain_file), and nothing brings back what was in it. */

/* OpenSSL looks algorithms up behind locks of its own. A child would find them
 * locked for ever if another thread held them at the fork (which is seen in a
 * program that forks soon after its start). So all that looks something up is
 * done between these two, by as many threads as like, and a fork waits until
 * none is there. (A mutex instead would keep out the thread that makes pairs
 * for as long as another one serves strangers.) Tags, and records of a
 * connection that is up, look nothing up, but for the one in some millions
 * after which the other end has another key. GLOO_ERR_NO_MEMORY;
 * GLOO_ERR_FORKED where this process was forked meanwhile: then there is
 * nothing to end. */
gloo_status gli_openssl_begin(gloo_error *error);
void gli_openssl_end(void);

/* The status of what OpenSSL was to make, and has not unless `good`: out of
 * memory, or GLOO_ERR_UNSUPPORTED with its reason. */
gloo_status gli_openssl_made(bool good, const char *what, gloo_error *error);

#endif
