/* Sealed memory by memfd_create: Linux and FreeBSD. It never has a name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "core/descriptor.h"
#include "memory/sealed.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

const char gli_sealed_maker[] = "memfd_create";
const bool gli_sealed_detaches = true;
const bool gli_sealed_replaces = true;

int gli_sealed_create(void) {
  return gli_fd_keep(memfd_create("gloo_c", MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

int gli_sealed_fix(int fd) {
  return fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0 ? 0 : errno;
}

bool gli_sealed_is_fixed(int fd, const struct stat *status) {
  int seals = fcntl(fd, F_GET_SEALS);
  return S_ISREG(status->st_mode) && seals >= 0 && (seals & SEALS) == SEALS;
}
