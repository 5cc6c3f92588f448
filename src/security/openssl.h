/* Rules of the files in this folder that call OpenSSL. */
#ifndef GLI_SECURITY_OPENSSL_H
#define GLI_SECURITY_OPENSSL_H

#include <stdbool.h>

#include "gloo_c/status.h"

/* OpenSSL has an error queue per thread, which the program's own calls read
 * too. Calls that add to it are between ERR_set_mark and ERR_pop_to_mark. A
 * handshake clears the queue at its beginning, and so does reading a file of
 * certificates: OpenSSL does so itself (state_machine, and
 * use_certificate_chain_file), and the old contents cannot be restored. */

/* Enclose calls that look up algorithms, by any number of threads; a fork waits
 * until no thread is between them. OpenSSL guards the lookup with its own
 * locks. If another thread held them at a fork, the child would block on them
 * (this happens in programs that fork soon after their start). A mutex would
 * block the thread that makes pairs while another one serves strangers. Tags,
 * and records of an established connection, look up nothing, except when the
 * other end changes its key, after some millions of records. Errors:
 * GLOO_ERR_NO_MEMORY; GLOO_ERR_FORKED if this process was forked meanwhile;
 * then gli_openssl_end must not be called. */
gloo_status gli_openssl_begin(gloo_error *error);
void gli_openssl_end(void);

/* Returns GLOO_OK if `good`; otherwise GLOO_ERR_NO_MEMORY, or
 * GLOO_ERR_UNSUPPORTED with OpenSSL's reason. `what` names the object that
 * OpenSSL was to make. */
gloo_status gli_openssl_made(bool good, const char *what, gloo_error *error);

#endif
