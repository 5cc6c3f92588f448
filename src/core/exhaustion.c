#include "core/exhaustion.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct exhaustion {
  int code;
  gloo_status status;
  const char *text;
} exhaustions[] = {
    {EMFILE, GLOO_ERR_IO,
     "this process is out of file descriptors; raise its limit on open files "
     "(ulimit -n)"},
    {ENFILE, GLOO_ERR_IO,
     "this host is out of file descriptors; raise its limit on open files "
     "(sysctl fs.file-max)"},
#if defined(ETOOMANYREFS)
    {ETOOMANYREFS, GLOO_ERR_IO,
     "this user has too many file descriptors in flight over Unix sockets; "
     "raise the limit on open files (ulimit -n)"},
#endif
    {ENOMEM, GLOO_ERR_NO_MEMORY,
     "this process is out of memory; check its limit and that of its control "
     "group"},
    {ENOBUFS, GLOO_ERR_NO_MEMORY,
     "this host is out of socket memory; raise its limits (sysctl net.core, "
     "net.ipv4.tcp_mem)"},
    {ENOSPC, GLOO_ERR_NO_MEMORY,
     "this user has reached the limit on epoll watches; raise it (sysctl "
     "fs.epoll.max_user_watches)"},
};

static const struct exhaustion *exhaustion_find(int code) {
  for (size_t i = 0; i < sizeof exhaustions / sizeof exhaustions[0]; i++)
    if (exhaustions[i].code == code) return &exhaustions[i];
  return NULL;
}

bool gli_is_exhaustion(int code) {
  return exhaustion_find(code) != NULL;
}

gloo_status gli_exhaustion_status(int code) {
  const struct exhaustion *exhaustion = exhaustion_find(code);
  return exhaustion != NULL ? exhaustion->status : GLOO_ERR_IO;
}

const char *gli_exhaustion_text(int code) {
  const struct exhaustion *exhaustion = exhaustion_find(code);
  return exhaustion != NULL ? exhaustion->text : strerror(code);
}
