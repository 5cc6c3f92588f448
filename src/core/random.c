/* Random numbers from getrandom, or from /dev/urandom if the kernel lacks it or
 * a filter on system calls rejects it. */
#if GLI_LINUX
#define _GNU_SOURCE
#include <sys/random.h>
#endif
#include "core/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/exhaustion.h"

static int random_read_file(const char *name, uint8_t *to, size_t bytes) {
  int fd = gli_fd_keep(open(name, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return errno;
  int code = 0;
  while (bytes > 0 && code == 0) {
    ssize_t got = read(fd, to, bytes);
    if (got > 0) {
      to += got;
      bytes -= (size_t)got;
    } else if (got == 0 || errno != EINTR) {
      code = got == 0 ? EIO : errno;
    }
  }
  gli_fd_close(fd);
  return code;
}

int gli_random(void *to, size_t bytes, const char **what) {
#if GLI_LINUX
  ssize_t got;
  do got = getrandom(to, bytes, 0);
  while (got < 0 && errno == EINTR);
  if (got == (ssize_t)bytes) return 0;
  *what = "neither getrandom nor /dev/urandom is available";
#else
  *what = "/dev/urandom";
#endif
  return random_read_file("/dev/urandom", to, bytes);
}

gloo_status gli_random_draw(void *to, size_t bytes, gloo_error *error) {
  const char *what;
  int code = gli_random(to, bytes, &what);
  if (code == 0) return GLOO_OK;
  return gli_fail(error, gli_exhaustion_status(code), -1,
                  "no random numbers: %s: %s", what, gli_exhaustion_text(code));
}
