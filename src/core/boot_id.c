#include "core/boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/descriptor.h"

int gli_boot_id_read(uint8_t id[GLI_BOOT_ID_BYTES]) {
#if GLI_LINUX
  int fd = gli_fd_keep(
      open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (fd < 0) return errno;
  ssize_t got;
  do got = read(fd, id, GLI_BOOT_ID_BYTES);
  while (got < 0 && errno == EINTR);
  close(fd);
  return got == GLI_BOOT_ID_BYTES ? 0 : EIO;
#else
  (void)id;
  return ENOSYS;
#endif
}

/* FNV-1a, 64 bits. */
uint64_t gli_boot_id_hash(void) {
  uint8_t id[GLI_BOOT_ID_BYTES];
  char name[256] = "";
  const uint8_t *at = id;
  size_t bytes = sizeof id;
  if (gli_boot_id_read(id) != 0) {
    (void)gethostname(name, sizeof name - 1);
    at = (const uint8_t *)name;
    bytes = strlen(name);
  }
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  return hash;
}
