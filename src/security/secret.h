/* The secret that the ranks of a job share, and the security level. */
#ifndef GLI_SECURITY_SECRET_H
#define GLI_SECURITY_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "gloo_c/status.h"

/* Length in bytes; the text form has two hexadecimal digits per byte. */
enum { GLI_SECRET_MIN = 16, GLI_SECRET_MAX = 64 };

typedef struct gli_secret {
  uint8_t bytes[GLI_SECRET_MAX];
  size_t n_bytes; /* 0 if there is no secret */
  /* For log lines, which never have the bytes: "options", the name of a
   * variable or a file, or "none". */
  const char *source;
} gli_secret;

/* Reads the secret from the first existing source:
 *   `given`, from the program's options; NULL if there is none
 *   GLOO_JOB_SECRET: 32 to 128 hexadecimal digits
 *   GLOO_JOB_SECRET_FILE: the name of a file with these digits and an optional
 *     newline, inaccessible to other users
 *   $HOME/.config/gloo_c/secret: the same, but not a symbolic link
 *   none
 * An invalid source is an error, and later ones are not tried:
 * GLOO_ERR_INVALID, or GLOO_ERR_IO if it cannot be read. Errors name the
 * variable or the file, the fault and the remedy, and quote no digit. `secret`
 * is set on success only; release it then.
 * Threads: any, while none changes the environment. */
gloo_status gli_secret_read(const void *given, size_t given_bytes,
                            gli_secret *secret, gloo_error *error);

/* Decodes `n` hexadecimal digits. `from` names their source in the message,
 * which quotes no digit. GLOO_ERR_INVALID. */
gloo_status gli_secret_decode(const char *digits, size_t n, const char *from,
                              gli_secret *secret, gloo_error *error);

/* Wipes the secret. */
void gli_secret_release(gli_secret *secret);

/* The security level, from GLOO_SECURITY. */
typedef enum gli_security {
  GLI_SECURITY_AUTH,    /* default: ranks with a secret authenticate peers */
  GLI_SECURITY_REQUIRE, /* also an error without a secret or OpenSSL */
  GLI_SECURITY_OFF      /* secrets are ignored */
} gli_security;

gloo_status gli_security_read(gli_security *security, gloo_error *error);

#endif
