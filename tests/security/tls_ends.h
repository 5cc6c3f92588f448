/* Two ends of a connection with TLS, in one thread, and a wire between them
 * that can be told to change or to cut what it carries. */
#ifndef TESTS_SECURITY_TLS_ENDS_H
#define TESTS_SECURITY_TLS_ENDS_H

/* cmocka.h needs the first four. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdbool.h>

#include "net/tls.h"

/* The end that connects, and the one that accepts. */
enum { HERE, THERE, ENDS };

#define ENDS_NEVER SIZE_MAX

typedef struct tls_end {
  int fd, wire; /* its socket, and the wire's end of that */
  gli_tls *tls;
  gli_tls_step step;
  int code;       /* errno, of FAILED */
  size_t carried; /* bytes from it that the wire has taken */
  size_t flip_at; /* which of them is changed; ENDS_NEVER: none */
  uint8_t flip;   /* by these bits */
  size_t cut_at;  /* nothing from there on is carried */
  bool hung_up;   /* the wire has said so to the other end */
} tls_end;

typedef struct tls_ends {
  tls_end end[ENDS];
} tls_ends;

/* No variable of the environment says anything about TLS. */
void ends_forget_environment(void);
gli_tls_settings *ends_settings(const gloo_tls_options *options);
gli_tls_settings *ends_by_secret(void);
/* A certificate with its key in the one file. */
gli_tls_settings *ends_by_certificate(const char *file, const char *authority);

gli_key ends_key(uint8_t first);
/* The settings stay the caller's. */
tls_ends ends_open(gli_tls_settings *here, gli_tls_settings *there,
                   const gli_key *key_here, const gli_key *key_there);
/* ... on a socket of each end, which are connected without a wire. */
tls_ends ends_open_on(const int fds[ENDS], gli_tls_settings *here,
                      gli_tls_settings *there, const gli_key *key);
void ends_close(tls_ends *ends);
/* What the wire has is carried; how many bytes that were. */
size_t ends_carry(tls_ends *ends);
/* Until both have done it, or failed, or nothing more comes. True: both have
 * done it. */
bool ends_shake_hands(tls_ends *ends);
/* The handshake ends for this one with that reason, or part of it. */
void ends_assert_why(const tls_ends *ends, int which, const char *why);
/* Both have done it: a text arrives either way. */
void ends_assert_talk(tls_ends *ends);

/* One part; as gli_tls_send and gli_tls_receive. */
ssize_t ends_send(gli_tls *tls, const void *data, size_t bytes);
ssize_t ends_receive(gli_tls *tls, void *data, size_t bytes);

#endif
