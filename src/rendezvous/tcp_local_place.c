#include "rendezvous/tcp_local_place.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/boot_id.h"
#include "core/environment.h"
#include "core/siphash.h"

enum { PLACE_CACHE = 2 };

/* Room for the name of the socket in a directory's path. */
#define NAME_BYTES ((int)sizeof "/store-0123456789abcdef")

static bool place_directory(int i, gli_tcp_local_path *path) {
  const char *runtime = gli_environment_read("XDG_RUNTIME_DIR");
  const char *home = gli_environment_read("HOME");
  const size_t room = sizeof path->text;
  unsigned long user = (unsigned long)geteuid();
  int n = 0;
  switch (i) {
    case 0:
      if (runtime != NULL && runtime[0] == '/')
        n = snprintf(path->text, room, "%s/gloo_c", runtime);
      break;
    case 1:
      n = snprintf(path->text, room, "/run/user/%lu/gloo_c", user);
      break;
    case PLACE_CACHE:
      if (home != NULL && home[0] == '/')
        n = snprintf(path->text, room, "%s/.cache/gloo_c", home);
      break;
    default:
      n = snprintf(path->text, room, "/tmp/gloo_c-%lu", user);
  }
  return n > 0 && n + NAME_BYTES <= (int)room;
}

/* A user who could be another one owns nothing for sure, but then no process is
 * its own either (core/user.h). */
static bool place_is_private(const char *directory) {
  struct stat info;
  return lstat(directory, &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

/* Makes .cache, which a home lacks in which no program has run yet. Root with
 * the home of another user makes none: that user could not write there. */
static void place_make_parent(const char *directory) {
  char path[sizeof((gli_tcp_local_path *)NULL)->text];
  struct stat home;
  (void)snprintf(path, sizeof path, "%s", directory);
  *strrchr(path, '/') = '\0';
  char *name = strrchr(path, '/');
  *name = '\0';
  if (stat(path, &home) != 0 || home.st_uid != geteuid()) return;
  *name = '/';
  (void)mkdir(path, S_IRWXU);
}

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
  if (!place_directory(i, path)) return false;
  if (create && i == PLACE_CACHE) place_make_parent(path->text);
  if (create) (void)mkdir(path->text, S_IRWXU);
  if (!place_is_private(path->text)) return false;
  size_t used = strlen(path->text);
  (void)snprintf(path->text + used, sizeof path->text - used, "/store-%016llx",
                 (unsigned long long)place_number(host, port));
  return true;
}
