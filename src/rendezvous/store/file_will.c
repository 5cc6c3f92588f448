/* Wills in a file store, executed for processes that have ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "core/descriptor.h"
#include "core/exhaustion.h"
#include "core/host_identity.h"
#include "core/log.h"
#include "core/random.h"
#include "rendezvous/store/file_store.h"
#include "rendezvous/store/tcp/tcp_protocol.h"
#include "rendezvous/store/value.h"

#define WILLS "wills"
#define SYSTEM_CHARS ((size_t)16)
#define NAME_CHARS (SYSTEM_CHARS + 1 + 16)

typedef struct will_name {
  char text[NAME_CHARS + 1];
} will_name;

struct gli_file_will {
  int fd; /* has the lock */
  will_name name;
};

static gloo_status file_will_failed(const gli_file_dir *dir, const char *what,
                                    int reason, gloo_error *error) {
  return gli_fail(error, gli_exhaustion_status(reason), -1,
                  "the file store in %.300s: cannot %s: %s", dir->path, what,
                  gli_exhaustion_text(reason));
}

static int wills_open(const gli_file_dir *dir) {
  return gli_fd_keep(
      openat(dir->fd, WILLS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* ---- leaving one --------------------------------------------------------- */

/* Writes a locked temporary file, and then gives it its name, with the store's
 * lock held. Returns its descriptor, or -1 with errno. */
static int will_write(const gli_file_dir *dir, int wills, const char *name,
                      const gli_frame *content) {
  int fd = gli_file_open_temp(dir, content->data + GLI_TCP_HEAD_BYTES,
                              content->bytes - GLI_TCP_HEAD_BYTES);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      renameat(dir->fd, GLI_FILE_TEMP, wills, name) == 0)
    return fd;
  int code = errno;
  unlinkat(dir->fd, GLI_FILE_TEMP, 0);
  close(fd);
  errno = code;
  return -1;
}

static gloo_status will_publish(const gli_file_dir *dir,
                                const gli_frame *content, gli_file_will *will,
                                gloo_error *error) {
  int lock;
  gloo_status status = gli_file_lock(dir, &lock, error);
  if (status != GLOO_OK) return status;
  int wills = -1;
  if (mkdirat(dir->fd, WILLS, 0700) == 0 || errno == EEXIST)
    wills = wills_open(dir);
  if (wills >= 0) will->fd = will_write(dir, wills, will->name.text, content);
  int code = errno;
  gli_fd_close(wills);
  gli_file_unlock(lock);
  if (will->fd >= 0) return GLOO_OK;
  return file_will_failed(dir, "write to its directory '" WILLS "'", code,
                          error);
}

gloo_status gli_file_will_leave(const gli_file_dir *dir, const gli_will *left,
                                gli_file_will **result, gloo_error *error) {
  uint64_t number;
  gloo_status status = gli_random_draw(&number, sizeof number, error);
  if (status != GLOO_OK) return status;
  gli_frame content;
  gli_file_will *will = malloc(sizeof *will);
  gli_frame_begin(&content, 256);
  gli_frame_put_will(&content, left);
  if (will == NULL || content.failed) {
    status =
        gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "out of memory for a will");
  } else {
    *will = (gli_file_will){.fd = -1};
    snprintf(will->name.text, sizeof will->name.text,
             "%016" PRIx64 "-%016" PRIx64, gli_boot_id_hash(), number);
    status = will_publish(dir, &content, will, error);
  }
  free(content.data);
  if (status != GLOO_OK) {
    free(will);
    return status;
  }
  *result = will;
  return GLOO_OK;
}

void gli_file_will_abandon(gli_file_will *will) {
  close(will->fd);
  free(will);
}

void gli_file_will_take_back(const gli_file_dir *dir, gli_file_will *will) {
  int wills = wills_open(dir);
  if (wills >= 0) (void)unlinkat(wills, will->name.text, 0);
  gli_fd_close(wills);
  (void)flock(will->fd, LOCK_UN); /* a forked child may have a copy */
  gli_file_will_abandon(will);
}

/* ---- wills of other processes -------------------------------------------- */

/* Sets the will's keys, with the store's lock held. */
static void will_execute(const gli_file_dir *dir, const gloo_value *content) {
  gli_body body = {content->data, content->bytes};
  const char *key;
  gloo_value value;
  uint32_t n, n_if;
  bool goes = true;
  if (!gli_body_will(&body, &n, &n_if)) return;
  for (uint32_t i = 0; i < n && gli_body_will_next(&body, &key, &value); i++) {
    if (i == 0 && n_if > 0)
      goes = gli_file_exists(dir, key, NULL) == GLOO_ERR_NOT_FOUND;
    if (i < n_if && !goes) continue;
    (void)gli_file_write(dir, key, value.data, value.bytes, NULL);
  }
}

/* Executes a will whose lock was free, unless its owner has just taken it back
 * or another process has executed it. */
static void will_open(const gli_file_dir *dir, int wills, const char *name,
                      int fd) {
  int lock;
  struct stat info;
  gloo_value content = {NULL, 0};
  if (gli_file_lock(dir, &lock, NULL) != GLOO_OK) return;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      fstatat(wills, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      gli_file_read_all(fd, GLI_WILL_MAX, &content) == 0) {
    gli_log(GLOO_LOG_INFO,
            "a process that used the file store in %.300s has exited",
            dir->path);
    will_execute(dir, &content);
    (void)unlinkat(wills, name, 0);
    gli_value_free(&content);
  }
  gli_file_unlock(lock);
}

static void will_look_at(const gli_file_dir *dir, int wills, const char *name) {
  int fd = gli_fd_keep(
      openat(wills, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0) return;
  if (flock(fd, LOCK_SH | LOCK_NB) == 0) will_open(dir, wills, name, fd);
  close(fd);
}

static int will_compare(const void *a, const void *b) {
  return strcmp(((const will_name *)a)->text, ((const will_name *)b)->text);
}

/* Lists the names of all wills of this system, in order, for free(). */
static size_t will_list(int wills, const gli_file_will *own,
                        will_name **result) {
  will_name *list = NULL;
  size_t n = 0, room = 0;
  int copy = gli_fd_keep(fcntl(wills, F_DUPFD_CLOEXEC, 3));
  DIR *all = copy >= 0 ? fdopendir(copy) : NULL;
  if (all == NULL) {
    gli_fd_close(copy);
    return 0;
  }
  rewinddir(all);
  for (const struct dirent *entry; (entry = readdir(all)) != NULL;) {
    if (strlen(entry->d_name) != NAME_CHARS ||
        memcmp(entry->d_name, own->name.text, SYSTEM_CHARS + 1) != 0)
      continue;
    if (n == room) {
      size_t more = room > 0 ? room * 2 : 16;
      will_name *longer = realloc(list, more * sizeof *longer);
      if (longer == NULL) break;
      list = longer;
      room = more;
    }
    memcpy(list[n++].text, entry->d_name, NAME_CHARS + 1);
  }
  closedir(all);
  if (n > 0) qsort(list, n, sizeof *list, will_compare);
  *result = list;
  return n;
}

size_t gli_file_will_look(const gli_file_dir *dir, const gli_file_will *own,
                          size_t most) {
  will_name *list = NULL;
  int wills = wills_open(dir);
  if (wills < 0) return 0;
  size_t n = will_list(wills, own, &list), at = 0;
  while (at < n && strcmp(list[at].text, own->name.text) <= 0) at++;
  for (size_t i = 0; i < n && i < most; i++) {
    const char *name = list[(at + i) % n].text;
    if (strcmp(name, own->name.text) != 0) will_look_at(dir, wills, name);
  }
  free(list);
  close(wills);
  return n;
}
