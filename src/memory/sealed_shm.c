/* Anonymous memory by shm_open, whose name is removed at once.
 *
 * Between the two calls SIGKILL leaves a name. All processes of a user therefore
 * use the same one, and whichever finds it removes it: the memory is that of the
 * process that made it, with or without a name. So at most one name of an empty
 * object remains, until a process of this user makes memory again. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/random.h"
#include "memory/sealed.h"

enum { TRIES = 1000, NAME_BYTES = 31 }; /* macOS allows no longer names */

const char gli_sealed_maker[] = "shm_open";
#if defined(__APPLE__) /* the kernel refuses private mappings of it */
const bool gli_sealed_detaches = false;
#else
const bool gli_sealed_detaches = true;
#endif
const bool gli_sealed_replaces = true;

/* Makes memory under this name, which is free on return unless another user
 * owns it. */
static int shm_make_as(const char *name) {
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  int code = errno;
  bool removed = (fd >= 0 || code == EEXIST) && shm_unlink(name) == 0;
  if (fd < 0 && code == EEXIST && !removed && errno != ENOENT) code = errno;
  errno = code;
  return fd;
}

int gli_sealed_create(void) {
  char name[NAME_BYTES];
  (void)snprintf(name, sizeof name, "/gloo_c-%lu", (unsigned long)geteuid());
  int fd = -1;
  errno = EEXIST;
  for (int i = 0; i < TRIES && fd < 0 && errno == EEXIST; i++)
    fd = shm_make_as(name);
  if (fd < 0 && (errno == EACCES || errno == EPERM)) { /* another user's */
    uint64_t number;
    const char *what;
    int code = gli_random(&number, sizeof number, &what);
    (void)snprintf(name, sizeof name, "/gloo_c-%016" PRIx64, number);
    fd = code == 0 ? shm_make_as(name) : -1;
    if (code != 0) errno = code;
  }
  return gli_fd_keep(fd);
}

int gli_sealed_fix(int fd) {
  (void)fd;
  return 0;
}

/* macOS gives such memory no file type, and allows to set its size once. */
bool gli_sealed_is_fixed(int fd, const struct stat *status) {
  (void)fd;
  return (S_ISREG(status->st_mode) || (status->st_mode & S_IFMT) == 0) &&
         status->st_nlink == 0;
}
