/* Two ends of a TLS connection in one thread, and a wire between them that can
 * change or cut the data. */
#ifndef TESTS_SECURITY_TLS_ENDS_H
#define TESTS_SECURITY_TLS_ENDS_H

/* cmocka.h needs the first four headers. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdbool.h>

#include "net/tls.h"

/* The connecting and the accepting end. */
enum { HERE, THERE, ENDS };

#define ENDS_NEVER SIZE_MAX

typedef struct tls_end {
  int fd, wire; /* the end's socket, and its peer on the wire */
  gli_tls *tls;
  gli_tls_step step;
  int code;       /* errno after GLI_TLS_FAILED */
  size_t carried; /* bytes that the wire has taken from this end */
  size_t flip_at; /* index of the byte to change; ENDS_NEVER: none */
  uint8_t flip;   /* mask of the bits to flip */
  size_t cut_at;  /* the wire drops all bytes from this index on */
  bool hung_up;   /* the wire has shut down the other end */
} tls_end;

typedef struct tls_ends {
  tls_end end[ENDS];
} tls_ends;

/* Unsets the environment variables of TLS. */
void ends_forget_environment(void);
gli_tls_settings *ends_settings(const gloo_tls_options *options);
gli_tls_settings *ends_by_secret(void);
/* Returns settings with a certificate and its key in one file. */
gli_tls_settings *ends_by_certificate(const char *file, const char *authority);

gli_key ends_key(uint8_t first);
/* Opens two ends with a wire between them. The caller keeps the settings. */
tls_ends ends_open(gli_tls_settings *here, gli_tls_settings *there,
                   const gli_key *key_here, const gli_key *key_there);
/* Opens two ends on sockets that are connected directly, without a wire. */
tls_ends ends_open_on(const int fds[ENDS], gli_tls_settings *here,
                      gli_tls_settings *there, const gli_key *key);
void ends_close(tls_ends *ends);
/* Carries all data on the wire. Returns the number of bytes. */
size_t ends_carry(tls_ends *ends);
/* Drives the handshake until both ends have completed it or failed, or no more
 * data arrives. Returns true if both have completed it. */
bool ends_shake_hands(tls_ends *ends);
/* Fails unless the handshake of this end failed with a reason that contains
 * `why`. */
void ends_assert_why(const tls_ends *ends, int which, const char *why);
/* Fails unless a text arrives in both directions. */
void ends_assert_talk(tls_ends *ends);

/* Like gli_tls_send() and gli_tls_receive(), with one part. */
ssize_t ends_send(gli_tls *tls, const void *data, size_t bytes);
ssize_t ends_receive(gli_tls *tls, void *data, size_t bytes);

#endif
