#include "rendezvous/store/tcp_local_place.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/host_identity.h"
#include "core/siphash.h"

/* Room for the name of the socket in a directory's path. */
#define NAME_BYTES (sizeof "/store-0123456789abcdef")

/* A number for the server among all that use the directory. */
static uint64_t place_number(const char *host, uint16_t port) {
  static const gli_siphash_key same_for_all;
  char text[256];
  struct stat net;
  if (stat("/proc/self/ns/net", &net) != 0) memset(&net, 0, sizeof net);
  int n = snprintf(text, sizeof text, "%llu %llu %llu %.100s %u",
                   (unsigned long long)gli_boot_id_hash(),
                   (unsigned long long)net.st_dev,
                   (unsigned long long)net.st_ino, host, (unsigned)port);
  return gli_siphash(&same_for_all, text, (size_t)n);
}

bool gli_tcp_local_place(int i, bool create, const char *host, uint16_t port,
                         gli_tcp_local_path *path) {
  const size_t room = sizeof path->text - NAME_BYTES;
  if (!gli_run_directory_path((gli_run_directory)i, path->text, room))
    return false;
  if (create) (void)gli_run_directory_make((gli_run_directory)i, path->text);
  /* A user who could be another one owns nothing for sure, but then no process
   * is its own either (core/user.h). */
  if (!gli_run_directory_is_private(path->text)) return false;
  size_t used = strlen(path->text);
  (void)snprintf(path->text + used, sizeof path->text - used, "/store-%016llx",
                 (unsigned long long)place_number(host, port));
  return true;
}
