/* Illegal content that a peer sends with the right keys. The keys of both ends
 * are obtained as a debugger would (SSLKEYLOGFILE). */
#ifndef TESTS_FUZZ_TLS_KEYS_H
#define TESTS_FUZZ_TLS_KEYS_H

#include "fuzz.h"
#include "net/tls.h"

enum {
  KEYS_SAYING = 23, /* record type of application data */
  KEYS_CONTENT_MAX = 255,
  KEYS_RECORD_MAX = KEYS_CONTENT_MAX + 22
};

/* Resets OpenSSL's random numbers, to the same sequence in every process. */
void keys_draw_again(void);

/* Records the keys of connections made with these settings. */
void keys_listen(const gli_tls_settings *settings);

/* Starts with end `e` of a new connection. */
void keys_begin(int e, const gli_tls *tls);
/* Called after the end has continued its handshake. */
void keys_go_on(int e);
/* Called with the bytes that the end's socket has taken. */
void keys_see_sent(int e, const void *data, size_t bytes);

/* Writes a record with that content and type, as end `e` would send it next.
 * Returns 0 if the end has no key, or stopped within a record. */
size_t keys_seal(int e, uint8_t type, const fuzz_input *content,
                 uint8_t record[KEYS_RECORD_MAX]);

#endif
