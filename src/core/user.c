#include "core/user.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/descriptor.h"

#if GLI_LINUX

/* Number of user ids: all values except (uid_t)-1. */
#define ALL_USERS UINT64_C(4294967295)
#define OVERFLOW_USUAL 65534u

/* Reads a file as text, truncated to `room`. Returns false with errno. */
static bool user_read_file(const char *path, char *text, size_t room) {
  int fd = gli_fd_keep(open(path, O_RDONLY | O_CLOEXEC));
  size_t got = 0;
  ssize_t n = fd < 0 ? -1 : 1;
  while (n > 0 && got + 1 < room) {
    n = read(fd, text + got, room - 1 - got);
    if (n > 0) got += (size_t)n;
  }
  text[got] = '\0';
  gli_fd_close(fd);
  return n >= 0;
}

/* Returns true if the namespace maps every user id. A line of the map has a
 * first id inside, one outside, and the length of the range. A truncated map
 * counts as a partial one. */
static bool user_map_is_full(void) {
  char text[4096];
  uint64_t users = 0, inside, outside, count;
  int used = 0;
  if (!user_read_file("/proc/self/uid_map", text, sizeof text))
    /* Kernels without user namespaces have no map. */
    return errno == ENOENT && access("/proc/self/status", F_OK) == 0;
  for (const char *at = text;
       sscanf(at, "%" SCNu64 " %" SCNu64 " %" SCNu64 "%n", &inside, &outside,
              &count, &used) == 3;
       at += used)
    users += count;
  return users >= ALL_USERS;
}

static uint32_t user_overflow(void) {
  char text[32];
  uint32_t user;
  if (user_map_is_full()) return GLI_USER_NONE;
  return user_read_file("/proc/sys/kernel/overflowuid", text, sizeof text) &&
                 sscanf(text, "%" SCNu32, &user) == 1
             ? user
             : OVERFLOW_USUAL;
}

#else

static uint32_t user_overflow(void) {
  return GLI_USER_NONE;
}

#endif

gli_user gli_user_here(void) {
  gli_user here = {(uint32_t)geteuid(), user_overflow()};
  if (here.id == here.overflow) here.id = GLI_USER_NONE;
  return here;
}

bool gli_user_is_own(const gli_user *here, uint32_t user) {
  if (user == GLI_USER_NONE || user == here->overflow) return false;
  return user == here->id || user == 0;
}
