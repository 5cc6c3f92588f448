#define _XOPEN_SOURCE 700 /* realpath */
#include "security/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/exhaustion.h"
#include "security/keys.h"

#define PER_USER ".config/gloo_c/secret"
#define PATH_BYTES 4096
#define FILE_BYTES 4096
#define FROM_BYTES 256
#define EXPECTED                                                          \
  "a secret is 32 to 128 hexadecimal digits, two for each byte, such as " \
  "`openssl rand -hex 32` prints"

/* ---- digits -------------------------------------------------------------- */

static int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool digits_only(const char *text) {
  while (digit_value(*text) >= 0) text++;
  return *text == '\0';
}

gloo_status gli_secret_decode(const char *digits, size_t n, const char *from,
                              gli_secret *secret, gloo_error *error) {
  if (n < 2 * GLI_SECRET_MIN || n > 2 * GLI_SECRET_MAX || n % 2 != 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s has %zu characters; %s",
                    from, n, EXPECTED);
  for (size_t i = 0; i < n; i++) {
    int value = digit_value(digits[i]);
    if (value < 0)
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "character %zu of %s is not a hexadecimal digit; %s",
                      i + 1, from, EXPECTED);
    uint8_t *byte = &secret->bytes[i / 2];
    *byte = (uint8_t)(i % 2 == 0 ? value << 4 : *byte | value);
  }
  secret->n_bytes = n / 2;
  return GLOO_OK;
}

/* ---- files --------------------------------------------------------------- */

static gloo_status secret_file_failed(const char *from, const char *what,
                                      int code, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_IO, -1, "%s cannot be %s: %s", from, what,
                  gli_exhaustion_text(code));
}

/* Checks type, owner and mode of a file. The group may read a file of root:
 * Kubernetes mounts secrets as root, and a container of another user reads them
 * as a member of a group that only the pod has (fsGroup). No other user can
 * make such a file. */
static gloo_status secret_check_file(int fd, const char *from,
                                     gloo_error *error) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return secret_file_failed(from, "examined", errno, error);
  if (!S_ISREG(info.st_mode))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s is not a regular file: put the secret into one", from);
  if ((uid_t)info.st_uid != geteuid() && info.st_uid != 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s belongs to user %lu: it must belong to root or to user "
                    "%lu, the user of this process",
                    from, (unsigned long)info.st_uid, (unsigned long)geteuid());
  unsigned others = info.st_uid == 0 ? 037 : 077;
  if ((info.st_mode & others) != 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "%s can be read or written by other users (mode %04o): "
                    "make it private (chmod 600), and generate a new secret if "
                    "one of them may have seen it",
                    from, (unsigned)info.st_mode & 07777u);
  return GLOO_OK;
}

static gloo_status secret_read_file(int fd, const char *from,
                                    gli_secret *secret, gloo_error *error) {
  char text[FILE_BYTES + 1];
  size_t n = 0;
  ssize_t got = 1;
  while (got != 0 && n < sizeof text) {
    got = read(fd, text + n, sizeof text - n);
    if (got > 0) n += (size_t)got;
    if (got < 0 && errno != EINTR) break;
  }
  gloo_status status;
  if (got < 0) {
    status = secret_file_failed(from, "read", errno, error);
  } else if (n > FILE_BYTES) {
    status =
        gli_fail(error, GLOO_ERR_INVALID, -1, "%s has more than %d bytes; %s",
                 from, FILE_BYTES, EXPECTED);
  } else {
    if (n > 0 && text[n - 1] == '\n') n--;
    status = gli_secret_decode(text, n, from, secret, error);
  }
  gli_wipe(text, sizeof text);
  return status;
}

/* Reads the secret from a file. O_NONBLOCK: a named pipe may have no writer. */
static gloo_status secret_from_file(const char *path, const char *from,
                                    gli_secret *secret, gloo_error *error) {
  struct stat info;
  int fd = gli_fd_keep(
      open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (fd < 0) {
    int code = errno;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "%s is a symbolic link: replace it with the file, or set "
                      "GLOO_JOB_SECRET_FILE to the file",
                      from);
    return secret_file_failed(from, "opened", code, error);
  }
  gloo_status status = secret_check_file(fd, from, error);
  if (status == GLOO_OK) status = secret_read_file(fd, from, secret, error);
  gli_fd_close(fd);
  return status;
}

/* Reads the file that the user names. Links are resolved, once and before
 * opening, because a secret that Kubernetes mounts is a link to a link to a
 * file; the owner of the file itself is checked. An attacker gains nothing by
 * redirecting a link, because they cannot make a file of this user or of root,
 * and errors do not quote the content of other files. Giving the secret in
 * place of the name is an easy mistake, so errors do not quote that either. */
static gloo_status secret_from_named_file(const char *name, gli_secret *secret,
                                          gloo_error *error) {
  char from[FROM_BYTES];
  if (strlen(name) >= 2 * GLI_SECRET_MIN && digits_only(name))
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "GLOO_JOB_SECRET_FILE contains digits instead of a file "
                    "name; put a secret into GLOO_JOB_SECRET");
  snprintf(from, sizeof from, "GLOO_JOB_SECRET_FILE: %.200s", name);
  char *path = realpath(name, NULL);
  if (path == NULL) return secret_file_failed(from, "found", errno, error);
  gloo_status status = secret_from_file(path, from, secret, error);
  free(path);
  return status;
}

/* Reads the per-user file. Most users have none, and HOME may not exist, as in
 * a container started as another user. */
static gloo_status secret_from_home(gli_secret *secret, gloo_error *error) {
  const char *home = gli_environment_read("HOME");
  char path[PATH_BYTES], from[FROM_BYTES];
  struct stat info;
  if (home == NULL || home[0] != '/') return GLOO_OK;
  int used = snprintf(path, sizeof path, "%s/" PER_USER, home);
  if (used < 0 || (size_t)used >= sizeof path) return GLOO_OK;
  snprintf(from, sizeof from, "%.200s", path);
  if (lstat(path, &info) == 0) {
    secret->source = "~/" PER_USER;
    return secret_from_file(path, from, secret, error);
  }
  if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return GLOO_OK;
  return secret_file_failed(from, "examined", errno, error);
}

/* ---- sources ------------------------------------------------------------- */

static gloo_status secret_from_options(const void *given, size_t bytes,
                                       gli_secret *secret, gloo_error *error) {
  if (bytes < GLI_SECRET_MIN || bytes > GLI_SECRET_MAX)
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "the secret in the options has %zu bytes; pass %d to %d random bytes",
        bytes, GLI_SECRET_MIN, GLI_SECRET_MAX);
  memcpy(secret->bytes, given, bytes);
  secret->n_bytes = bytes;
  return GLOO_OK;
}

gloo_status gli_secret_read(const void *given, size_t given_bytes,
                            gli_secret *secret, gloo_error *error) {
  const char *digits = gli_environment_read("GLOO_JOB_SECRET");
  const char *file = gli_environment_read("GLOO_JOB_SECRET_FILE");
  gli_secret found = {.source = "none"};
  gloo_status status;
  if (given != NULL) {
    found.source = "options";
    status = secret_from_options(given, given_bytes, &found, error);
  } else if (digits != NULL) {
    found.source = "GLOO_JOB_SECRET";
    status = gli_secret_decode(digits, strlen(digits),
                               "the environment variable GLOO_JOB_SECRET",
                               &found, error);
  } else if (file != NULL) {
    found.source = "GLOO_JOB_SECRET_FILE";
    status = secret_from_named_file(file, &found, error);
  } else {
    status = secret_from_home(&found, error);
  }
  if (status == GLOO_OK) *secret = found;
  gli_wipe(&found, sizeof found);
  return status;
}

void gli_secret_release(gli_secret *secret) {
  gli_wipe(secret, sizeof *secret);
}

/* ---- security level ------------------------------------------------------ */

gloo_status gli_security_read(gli_security *security, gloo_error *error) {
  static const struct {
    const char *word;
    gli_security security;
  } words[] = {{"auth", GLI_SECURITY_AUTH},
               {"required", GLI_SECURITY_REQUIRE},
               {"require", GLI_SECURITY_REQUIRE}, /* the older name */
               {"off", GLI_SECURITY_OFF}};
  const char *said = gli_environment_read("GLOO_SECURITY");
  if (said == NULL) said = words[0].word;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(said, words[i].word) != 0) continue;
    *security = words[i].security;
    return GLOO_OK;
  }
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "the environment variable GLOO_SECURITY is '%.40s'; valid: "
                  "required, auth, off",
                  said);
}
