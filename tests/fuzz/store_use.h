/* A store is used: what its servers, files or callbacks say is the input. */
#ifndef TESTS_FUZZ_STORE_USE_H
#define TESTS_FUZZ_STORE_USE_H

#include "fuzz.h"
#include "gloo_c/store.h"

/* All operations, none of which waits. */
void fuzz_use_store(gloo_store *store);

/* ---- said.c: in place of net/socket.c ------------------------------
 */

/* Whoever connects is told this, in pieces of a few bytes, and then that the
 * connection has ended. Nothing goes out, and nobody waits. */
void said_by_server(const void *data, size_t bytes);

#endif
