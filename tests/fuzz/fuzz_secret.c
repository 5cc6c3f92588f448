/* Files with a secret: contents and types. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "security/secret.h"

static void check_secret(gloo_status status, gli_secret *secret,
                         const gloo_error *error) {
  fuzz_check_error(status, error);
  if (status != GLOO_OK) return;
  fuzz_check(secret->n_bytes == 0 || (secret->n_bytes >= GLI_SECRET_MIN &&
                                      secret->n_bytes <= GLI_SECRET_MAX),
             "a secret is as long as it may be");
  gli_secret_release(secret);
}

static char path[] = "/tmp/gloo_c-fuzz-XXXXXX";

static void remove_file(void) {
  (void)unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static int file = -1;
  fuzz_input input = {data, bytes};
  gli_secret secret;
  gloo_error error;
  if (file < 0) {
    file = mkstemp(path);
    fuzz_check(file >= 0 && atexit(remove_file) == 0, path);
  }
  uint16_t mode = fuzz_take_u16(&input) & 0777;
  (void)fchmod(file, mode);
  fuzz_check(ftruncate(file, 0) == 0 &&
                 pwrite(file, input.at, input.left, 0) == (ssize_t)input.left,
             "the file can be written");
  unsetenv("GLOO_JOB_SECRET");
  setenv("GLOO_JOB_SECRET_FILE", path, 1);
  gloo_status status = gli_secret_read(NULL, 0, &secret, &error);
  fuzz_check(status != GLOO_OK || (mode & 0037) == 0, "others could read it");
  check_secret(status, &secret, &error);
  char *text = fuzz_text(&input);
  setenv("GLOO_JOB_SECRET", text, 1);
  check_secret(gli_secret_read(NULL, 0, &secret, &error), &secret, &error);
  check_secret(gli_secret_read(data, bytes, &secret, &error), &secret, &error);
  free(text);
  unsetenv("GLOO_JOB_SECRET");
  unsetenv("GLOO_JOB_SECRET_FILE");
  return 0;
}
