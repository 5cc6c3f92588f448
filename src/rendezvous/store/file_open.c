/* Opening the directory of a file store: its owner, lock and marker. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/text.h"
#include "rendezvous/store/file_store.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/value.h"

#define MARKER "gloo-store"
#define MARKER_FORMAT "gloo_c file store 1\nepoch %" PRIu64 "\njob %s\n"
#define MARKER_MAX (GLI_JOB_MAX + 64)
#define LOCK_TIMEOUT_NS ((int64_t)30000000000)

static gloo_status file_open_failed(const char *path, const char *what,
                                    int reason, gloo_error *error) {
  bool lacks = reason == EMFILE || reason == ENFILE;
  return gli_fail(error, GLOO_ERR_IO, -1,
                  "the file store in %.300s: cannot %s: %s", path, what,
                  lacks ? gli_exhaustion_text(reason)
                        : uv_strerror(uv_translate_sys_error(reason)));
}

/* ---- the lock ------------------------------------------------------------ */

/* Takes the lock. Each holder has its own descriptor, so that flock excludes
 * threads too. Polling instead of blocking makes a stopped holder an error in
 * the end, instead of a hang. */
gloo_status gli_file_lock(const gli_file_dir *dir, int *lock,
                          gloo_error *error) {
  uint64_t began = uv_hrtime(), deadline = began + (uint64_t)LOCK_TIMEOUT_NS;
  long pause_ns = 20000;
  if (dir->deadline_ns < deadline) deadline = dir->deadline_ns;
  int fd = gli_fd_keep(
      openat(dir->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd < 0)
    return file_open_failed(dir->path, "open its file 'lock'", errno, error);
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    int reason = errno;
    if (reason != EWOULDBLOCK && reason != EINTR) {
      close(fd);
      return file_open_failed(dir->path, "lock its file 'lock'", reason, error);
    }
    if (gli_deadline_left(deadline) == 0) {
      close(fd);
      return gli_fail(error, GLOO_ERR_TIMEOUT, -1,
                      "the file store in %.300s: another process has held its "
                      "file 'lock' for %s; is it stopped?",
                      dir->path,
                      gli_duration((int64_t)(uv_hrtime() - began)).text);
    }
    nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    if (pause_ns < 1000000) pause_ns *= 2;
  }
  *lock = fd;
  return GLOO_OK;
}

void gli_file_unlock(int lock) {
  (void)flock(lock, LOCK_UN); /* a forked child may have a copy */
  close(lock);
}

/* ---- the marker ---------------------------------------------------------- */

/* Fills the error for a marker of another job, with its job and epoch. */
static gloo_status file_open_stale(const gli_file_dir *dir, const char *job,
                                   uint64_t epoch, char *found,
                                   gloo_error *error) {
  uint64_t other_epoch;
  int job_at = 0;
  size_t length = strlen(found);
  if (length > 0 && found[length - 1] == '\n') found[length - 1] = '\0';
  if (sscanf(found, "gloo_c file store 1\nepoch %" SCNu64 "\njob%n",
             &other_epoch, &job_at) != 1 ||
      job_at == 0 || found[job_at] != ' ')
    return gli_fail(
        error, GLOO_ERR_STALE, -1,
        "%.300s was not created by this version of the file store (its file "
        "'" MARKER "' has another format): use another directory, or remove it",
        dir->path);
  return gli_fail(
      error, GLOO_ERR_STALE, -1,
      "%.200s belongs to job '%s', epoch %" PRIu64
      "; this is job '%s', epoch %" PRIu64
      ": remove the directory if that job has ended, or use another",
      dir->path, gli_quote(found + job_at + 1).text, other_epoch,
      gli_quote(job).text, epoch);
}

/* Reads the marker as a string. Returns GLOO_ERR_NOT_FOUND if there is none. */
static gloo_status read_marker(const gli_file_dir *dir, char *text,
                               gloo_error *error) {
  gloo_value value = {NULL, 0};
  int fd = gli_fd_keep(
      openat(dir->fd, MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0 && errno == ENOENT) return GLOO_ERR_NOT_FOUND;
  int rc = fd < 0 ? -1 : gli_file_read_all(fd, MARKER_MAX, &value);
  int reason = errno;
  if (fd >= 0) close(fd);
  if (rc != 0)
    return file_open_failed(dir->path, "read its file '" MARKER "'", reason,
                            error);
  if (value.bytes > 0) memcpy(text, value.data, value.bytes);
  text[value.bytes] = '\0';
  gli_value_free(&value);
  return GLOO_OK;
}

/* Writes the marker, with the lock held. The link keeps an existing marker even
 * if locks do not work between the hosts; file systems without links rely on
 * the lock. */
static gloo_status write_marker(const gli_file_dir *dir, const char *text,
                                gloo_error *error) {
  int rc = gli_file_write_temp(dir, text, strlen(text));
  if (rc == 0) {
    rc = linkat(dir->fd, GLI_FILE_TEMP, dir->fd, MARKER, 0);
    if (rc != 0 && (errno == EPERM || errno == ENOTSUP || errno == ENOSYS))
      rc = renameat(dir->fd, GLI_FILE_TEMP, dir->fd, MARKER);
  }
  int reason = errno;
  unlinkat(dir->fd, GLI_FILE_TEMP, 0);
  if (rc == 0 || reason == EEXIST) return GLOO_OK;
  return file_open_failed(dir->path, "write its file '" MARKER "'", reason,
                          error);
}

static gloo_status file_open_claim(const gli_file_dir *dir, const char *job,
                                   uint64_t epoch, gloo_error *error) {
  char wanted[MARKER_MAX + 1], found[MARKER_MAX + 1];
  int lock;
  snprintf(wanted, sizeof wanted, MARKER_FORMAT, epoch, job);
  gloo_status status = gli_file_lock(dir, &lock, error);
  if (status != GLOO_OK) return status;
  status = read_marker(dir, found, error);
  if (status == GLOO_ERR_NOT_FOUND) {
    status = write_marker(dir, wanted, error);
    if (status == GLOO_OK) status = read_marker(dir, found, error);
  }
  gli_file_unlock(lock);
  if (status == GLOO_ERR_NOT_FOUND)
    return file_open_failed(dir->path,
                            "find the file '" MARKER "' it has just written",
                            ENOENT, error);
  if (status == GLOO_OK && strcmp(found, wanted) != 0)
    return file_open_stale(dir, job, epoch, found, error);
  return status;
}

/* ---- the directory ------------------------------------------------------- */

static gloo_status check_owner(const gli_file_dir *dir, gloo_error *error) {
  struct stat info;
  if (fstat(dir->fd, &info) != 0)
    return file_open_failed(dir->path, "examine the directory", errno, error);
  if (info.st_uid != geteuid())
    return gli_fail(
        error, GLOO_ERR_INVALID, -1,
        "the file store's directory %.300s belongs to user %lu, not to user "
        "%lu who runs this process: use a directory of your own",
        dir->path, (unsigned long)info.st_uid, (unsigned long)geteuid());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the file store's directory %.300s is writable by other "
                    "users (mode %04o): use a private one (0700)",
                    dir->path, (unsigned)info.st_mode & 07777u);
  return GLOO_OK;
}

gloo_status gli_file_dir_open(const char *path, const char *job, uint64_t epoch,
                              gli_file_dir *dir, gloo_error *error) {
  struct stat info;
  dir->path = path;
  dir->deadline_ns = GLI_NEVER;
  if (mkdir(path, 0700) != 0 && errno != EEXIST)
    return file_open_failed(path, "make the directory", errno, error);
  dir->fd =
      gli_fd_keep(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (dir->fd < 0) {
    int reason = errno;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
      return gli_fail(error, GLOO_ERR_INVALID, -1,
                      "the file store's directory %.300s is a symbolic link: "
                      "pass the directory itself",
                      path);
    return file_open_failed(path, "open the directory", reason, error);
  }
  gloo_status status = check_owner(dir, error);
  if (status == GLOO_OK) status = file_open_claim(dir, job, epoch, error);
  if (status != GLOO_OK) gli_file_dir_close(dir);
  return status;
}

void gli_file_dir_close(gli_file_dir *dir) {
  close(dir->fd);
}
