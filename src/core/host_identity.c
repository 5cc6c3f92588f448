#include "core/host_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/descriptor.h"

uint64_t gli_mix_bytes(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *at = data;
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t gli_mix_host_name(uint64_t hash) {
  char text[256] = "";
  if (gethostname(text, sizeof text - 1) != 0) return hash;
  return gli_mix_bytes(hash, text, strlen(text));
}

#if GLI_LINUX

bool gli_mix_boot(uint64_t *hash) {
  char text[256];
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == NULL) return false;
  size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  *hash = gli_mix_bytes(*hash, text, bytes);
  return bytes > 0;
}

uint64_t gli_mix_network(uint64_t hash) {
  struct stat net;
  uint64_t parts[2] = {0, 0};
  if (stat("/proc/self/ns/net", &net) == 0) {
    parts[0] = (uint64_t)net.st_dev;
    parts[1] = (uint64_t)net.st_ino;
  }
  return gli_mix_bytes(hash, parts, sizeof parts);
}

#else

bool gli_mix_boot(uint64_t *hash) {
  (void)hash;
  return false;
}

uint64_t gli_mix_network(uint64_t hash) {
  return hash;
}

#endif

uint64_t gli_host_place(void) {
  uint64_t hash = GLI_MIX_START;
  if (!gli_mix_boot(&hash)) hash = gli_mix_host_name(hash);
  return gli_mix_network(hash);
}

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

uint64_t gli_boot_id_hash(void) {
  uint8_t id[GLI_BOOT_ID_BYTES] = {0};
  if (gli_boot_id_read(id) == 0)
    return gli_mix_bytes(GLI_MIX_START, id, sizeof id);
  return gli_mix_host_name(GLI_MIX_START);
}
