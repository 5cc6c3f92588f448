#include "api/tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/environment.h"

#define FILE_MAX_BYTES ((size_t)1 << 20)

/* Reads the whole file as text, for free(). */
static gloo_status tuning_read_text(FILE *file, const char *name, char **out,
                                    gloo_error *error) {
  char *text = malloc(FILE_MAX_BYTES + 1);
  if (text == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "GLOO_TUNING_FILE: out of memory");
  }
  size_t bytes = fread(text, 1, FILE_MAX_BYTES + 1, file);
  gloo_status status = GLOO_OK;
  if (ferror(file) != 0) {
    status = gli_fail(error, GLOO_ERR_IO, -1,
                      "GLOO_TUNING_FILE: cannot read %.200s: %s", name,
                      strerror(errno));
  } else if (bytes > FILE_MAX_BYTES) {
    status = gli_fail(error, GLOO_ERR_INVALID, -1,
                      "GLOO_TUNING_FILE: %.200s is longer than %zu bytes", name,
                      FILE_MAX_BYTES);
  } else if (memchr(text, 0, bytes) != NULL) {
    status = gli_fail(error, GLOO_ERR_INVALID, -1,
                      "GLOO_TUNING_FILE: %.200s is not text", name);
  }
  if (status != GLOO_OK) {
    free(text);
    return status;
  }
  text[bytes] = 0;
  *out = text;
  return GLOO_OK;
}

static gloo_status cannot_open(const char *name, gloo_error *error) {
  return gli_fail(error, GLOO_ERR_IO, -1,
                  "GLOO_TUNING_FILE: cannot open %.200s: %s", name,
                  strerror(errno));
}

/* Opens the file. O_NONBLOCK: a named pipe may have no writer. Other files than
 * regular ones are refused: a device may have no end. */
static gloo_status open_file(const char *name, FILE **file, gloo_error *error) {
  struct stat info;
  int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return cannot_open(name, error);
  gloo_status status = GLOO_OK;
  if (fstat(fd, &info) != 0) {
    status = cannot_open(name, error);
  } else if (!S_ISREG(info.st_mode)) {
    status = gli_fail(error, GLOO_ERR_INVALID, -1,
                      "GLOO_TUNING_FILE: %.200s is not a regular file; name "
                      "one written by `gloo tune`",
                      name);
  } else {
    *file = fdopen(fd, "r");
    if (*file == NULL) status = cannot_open(name, error);
  }
  if (status != GLOO_OK) close(fd);
  return status;
}

static gloo_status tuning_read_file(const char *name, char **text,
                                    gloo_error *error) {
  FILE *file = NULL;
  gloo_status opened = open_file(name, &file, error);
  if (opened != GLOO_OK) return opened;
  gloo_status status = tuning_read_text(file, name, text, error);
  fclose(file);
  return status;
}

gloo_status gli_tuning_load(gli_tuning **tuning, gloo_error *error) {
  const char *words = gli_environment_read("GLOO_ALGORITHM");
  const char *file = gli_environment_read("GLOO_TUNING_FILE");
  gli_tuning_text texts[2];
  size_t n = 0;
  char *text = NULL;
  if (words != NULL) {
    texts[n++] = (gli_tuning_text){"GLOO_ALGORITHM", words, true};
  }
  if (file != NULL) {
    gloo_status status = tuning_read_file(file, &text, error);
    if (status != GLOO_OK) return status;
    texts[n++] = (gli_tuning_text){file, text, false};
  }
  gloo_status status = GLOO_OK;
  if (n > 0) {
    status = gli_tuning_parse(texts, n, tuning, error);
  } else {
    *tuning = NULL;
  }
  free(text);
  return status;
}
