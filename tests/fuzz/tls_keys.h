/* What a peer says with the right keys, and has no business to say: the keys of
 * both ends are learned as a debugger would (SSLKEYLOGFILE). */
#ifndef TESTS_FUZZ_TLS_KEYS_H
#define TESTS_FUZZ_TLS_KEYS_H

#include "fuzz.h"
#include "net/tls.h"

enum {
  KEYS_SAYING = 23, /* the type of a record with bytes of the program */
  KEYS_CONTENT_MAX = 255,
  KEYS_RECORD_MAX = KEYS_CONTENT_MAX + 22
};

/* OpenSSL draws the same numbers after this as it did after the last time: in
 * any process. */
void keys_draw_again(void);

/* Connections by these settings tell their keys. */
void keys_listen(const gli_tls_settings *settings);

/* A new connection's end `e`. */
void keys_begin(int e, const gli_tls *tls);
/* It has gone on with the handshake. */
void keys_go_on(int e);
/* Its socket has taken this. */
void keys_see_sent(int e, const void *data, size_t bytes);

/* A record of that content and type as end `e` would send it next; 0: it has no
 * key, or stopped in the middle of a record. */
size_t keys_seal(int e, uint8_t type, const fuzz_input *content,
                 uint8_t record[KEYS_RECORD_MAX]);

#endif
