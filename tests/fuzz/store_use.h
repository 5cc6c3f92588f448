/* Uses a store; the input holds the data of its servers, files or callbacks. */
#ifndef TESTS_FUZZ_STORE_USE_H
#define TESTS_FUZZ_STORE_USE_H

#include "fuzz.h"
#include "gloo_c/store.h"

/* Calls all operations, without waiting. */
void fuzz_use_store(gloo_store *store);

/* ---- said.c: in place of net/socket.c ------------------------------
 */

/* Sets the bytes that a connection receives, in pieces of a few bytes, before
 * it ends. Sent bytes are dropped, and no call waits. */
void said_by_server(const void *data, size_t bytes);

#endif
