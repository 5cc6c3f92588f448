/* Memory that others may shrink, which the transport must refuse. */
#ifndef GLI_TESTS_TRANSPORT_SHM_UNSEALED_H
#define GLI_TESTS_TRANSPORT_SHM_UNSEALED_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UNSEALED_NAME = 64 };

/* Makes memory without seals, or where systems have none, a file. `name` is that
 * of the file, which the caller removes after use, or "". Needs _GNU_SOURCE. */
static inline int unsealed_make(size_t bytes, char name[UNSEALED_NAME]) {
  name[0] = '\0';
#if GLI_LINUX
  int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
#else
  (void)strcpy(name, "/tmp/gloo_c_unsealed_XXXXXX");
  int fd = mkstemp(name);
#endif
  if (fd < 0) abort();
  for (size_t at = 0; at < bytes; at++) /* it has all its pages */
    if (at % 512 == 0 || at + 1 == bytes)
      if (pwrite(fd, "", 1, (off_t)at) != 1) abort();
  return fd;
}

#endif
