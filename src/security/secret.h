/* The secret that the ranks of a job share, and how much is asked of peers. */
#ifndef GLI_SECURITY_SECRET_H
#define GLI_SECURITY_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* As bytes; as text it is two hexadecimal digits for each. */
enum { GLI_SECRET_MIN = 16, GLI_SECRET_MAX = 64 };

typedef struct gli_secret {
  uint8_t bytes[GLI_SECRET_MAX];
  size_t n_bytes;     /* 0: there is none */
  const char *source; /* for log lines, which never have the bytes: "options",
                         the name of a variable or a file, or "none" */
} gli_secret;

/* The first of these that is there:
 *   what the program gave in options: `given`, NULL for nothing
 *   GLOO_JOB_SECRET: 32 to 128 hexadecimal digits
 *   GLOO_JOB_SECRET_FILE: the name of a file with such digits, and perhaps a
 *     newline, which no other user can read or write
 *   $HOME/.config/gloo_c/secret: such a file, and not a symbolic link
 *   none
 * One that is there and is no good is an error, and the next is not looked for:
 * GLOO_ERR_INVALID, or GLOO_ERR_IO if it cannot be read. Errors name the
 * variable or the file, what is wrong and what to do, and have no digit of it.
 * `secret` is set on success only, and then is to be released.
 * Threads: any, while none changes the environment. */
gloo_status gli_secret_read(const void *given, size_t given_bytes,
                            gli_secret *secret, gloo_error *error);

/* `n` hexadecimal digits. `from` names their source, as the subject of a
 * message, which has no digit. GLOO_ERR_INVALID. */
gloo_status gli_secret_decode(const char *digits, size_t n, const char *from,
                              gli_secret *secret, gloo_error *error);

/* Wipes it. */
void gli_secret_release(gli_secret *secret);

/* GLOO_SECURITY. */
typedef enum gli_security {
  GLI_SECURITY_AUTH,    /* the default: ranks with a secret ask for it */
  GLI_SECURITY_REQUIRE, /* and to have none, or no OpenSSL, is an error */
  GLI_SECURITY_OFF      /* secrets are not looked at */
} gli_security;

gloo_status gli_security_read(gli_security *security, gloo_error *error);

#endif
