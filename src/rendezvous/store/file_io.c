/* Reading and writing the files of a file store. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/signals.h"
#include "core/text.h"
#include "rendezvous/store/file_store.h"
#include "rendezvous/store/value.h"

#define PART_MAX ((size_t)200) /* part of a name; NAME_MAX is at most 255 */

/* The location of a key's file: a name in an open directory. */
typedef struct place {
  int parent;
  bool owned; /* true if `parent` is to be closed */
  char name[2 + 200 + 1];
} place;

static gloo_status file_io_failed(const gli_file_dir *dir, const char *what,
                                  const char *key, int reason,
                                  gloo_error *error) {
  bool lacks = reason == EMFILE || reason == ENFILE;
  return gli_fail(error, GLOO_ERR_IO, -1,
                  "cannot %s key '%s' in the file store in %.200s: %s", what,
                  gli_quote(key).text, dir->path,
                  lacks ? gli_exhaustion_text(reason)
                        : uv_strerror(uv_translate_sys_error(reason)));
}

/* ---- names --------------------------------------------------------------- */

static size_t file_io_encode(const char *key, char *out) {
  static const char hex[] = "0123456789abcdef";
  char *at = out;
  for (; *key != '\0'; key++) {
    unsigned char c = (unsigned char)*key;
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
        c == '_' || c == '-') {
      *at++ = (char)c;
    } else {
      *at++ = '%';
      *at++ = hex[c >> 4];
      *at++ = hex[c & 15];
    }
  }
  return (size_t)(at - out);
}

static void place_close(place *p) {
  if (p->owned) close(p->parent);
  p->owned = false;
}

/* Descends into `name`, and creates it if `create` is set and it is absent. */
static int file_io_descend(place *p, const char *name, bool create) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (create && mkdirat(p->parent, name, 0700) != 0 && errno != EEXIST)
    return -1;
  int fd = gli_fd_keep(openat(p->parent, name, flags));
  if (fd < 0) return -1;
  place_close(p);
  p->parent = fd;
  p->owned = true;
  return 0;
}

/* Finds the place of `key`. Returns -1 with errno on failure. */
static int place_of(const gli_file_dir *dir, const char *key, bool create,
                    place *p) {
  char encoded[3 * 1024];
  size_t bytes = file_io_encode(key, encoded);
  const char *at = encoded;
  *p = (place){.parent = dir->fd};
  for (; bytes > PART_MAX; bytes -= PART_MAX, at += PART_MAX) {
    snprintf(p->name, sizeof p->name, "d-%.200s", at);
    if (file_io_descend(p, p->name, create) == 0) continue;
    int reason = errno;
    place_close(p);
    errno = reason;
    return -1;
  }
  snprintf(p->name, sizeof p->name, "k-%.*s", (int)bytes, at);
  return 0;
}

/* Returns true if the file is absent. NFS may report ESTALE for a file that
 * another host has just replaced. */
static bool is_absent(int reason) {
  return reason == ENOENT || reason == ESTALE;
}

/* ---- reading ------------------------------------------------------------- */

int gli_file_read_all(int fd, size_t max_bytes, gloo_value *value) {
  struct stat info;
  size_t got = 0;
  if (fstat(fd, &info) != 0) return -1;
  if (!S_ISREG(info.st_mode) || info.st_size < 0 ||
      (uintmax_t)info.st_size > max_bytes) {
    errno = S_ISREG(info.st_mode) ? EFBIG : EINVAL;
    return -1;
  }
  size_t bytes = (size_t)info.st_size;
  char *data = bytes > 0 ? malloc(bytes) : NULL;
  if (data == NULL && bytes > 0) {
    errno = ENOMEM;
    return -1;
  }
  while (got < bytes) {
    ssize_t n = read(fd, data + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO; /* truncated meanwhile */
    if (n <= 0) {
      int reason = errno;
      free(data);
      errno = reason;
      return -1;
    }
    got += (size_t)n;
  }
  *value = (gloo_value){data, bytes};
  return 0;
}

gloo_status gli_file_exists(const gli_file_dir *dir, const char *key,
                            gloo_error *error) {
  place p;
  struct stat info;
  int rc = place_of(dir, key, false, &p);
  if (rc == 0) rc = fstatat(p.parent, p.name, &info, AT_SYMLINK_NOFOLLOW);
  int reason = errno;
  place_close(&p);
  if (rc == 0) return GLOO_OK;
  if (is_absent(reason)) return GLOO_ERR_NOT_FOUND;
  return file_io_failed(dir, "look for", key, reason, error);
}

gloo_status gli_file_read(const gli_file_dir *dir, const char *key,
                          gloo_value *value, gloo_error *error) {
  place p;
  int fd = -1;
  int rc = place_of(dir, key, false, &p);
  if (rc == 0)
    fd = gli_fd_keep(openat(p.parent, p.name,
                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  rc = fd < 0 ? -1 : gli_file_read_all(fd, GLOO_STORE_VALUE_MAX, value);
  int reason = errno;
  if (fd >= 0) close(fd);
  place_close(&p);
  if (rc == 0) return GLOO_OK;
  if (is_absent(reason)) return GLOO_ERR_NOT_FOUND;
  return file_io_failed(dir, "read", key, reason, error);
}

/* ---- writing ------------------------------------------------------------- */

int gli_file_open_temp(const gli_file_dir *dir, const void *data,
                       size_t bytes) {
  gli_signal_guard guard;
  /* A process that was killed may have left one behind. */
  if (unlinkat(dir->fd, GLI_FILE_TEMP, 0) != 0 && errno != ENOENT) return -1;
  int fd = gli_fd_keep(
      openat(dir->fd, GLI_FILE_TEMP,
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd < 0) return -1;
  gli_signal_guard_enter(&guard);
  int rc = gli_fd_write_all(fd, data, bytes);
  int reason = errno;
  gli_signal_guard_leave(&guard);
  if (rc == 0) return fd;
  close(fd);
  unlinkat(dir->fd, GLI_FILE_TEMP, 0);
  errno = reason;
  return -1;
}

int gli_file_write_temp(const gli_file_dir *dir, const void *data,
                        size_t bytes) {
  int fd = gli_file_open_temp(dir, data, bytes);
  if (fd < 0) return -1;
  if (close(fd) == 0) return 0;
  int reason = errno;
  unlinkat(dir->fd, GLI_FILE_TEMP, 0);
  errno = reason;
  return -1;
}

gloo_status gli_file_write(const gli_file_dir *dir, const char *key,
                           const void *data, size_t bytes, gloo_error *error) {
  place p;
  int rc = gli_file_write_temp(dir, data, bytes);
  if (rc != 0) return file_io_failed(dir, "write", key, errno, error);
  rc = place_of(dir, key, true, &p);
  if (rc == 0) rc = renameat(dir->fd, GLI_FILE_TEMP, p.parent, p.name);
  int reason = errno;
  place_close(&p);
  if (rc == 0) return GLOO_OK;
  unlinkat(dir->fd, GLI_FILE_TEMP, 0);
  return file_io_failed(dir, "publish", key, reason, error);
}

gloo_status gli_file_remove(const gli_file_dir *dir, const char *key,
                            gloo_error *error) {
  place p;
  int rc = place_of(dir, key, false, &p);
  if (rc == 0) rc = unlinkat(p.parent, p.name, 0);
  int reason = errno;
  place_close(&p);
  if (rc == 0) return GLOO_OK;
  if (is_absent(reason)) return GLOO_ERR_NOT_FOUND;
  return file_io_failed(dir, "delete", key, reason, error);
}
