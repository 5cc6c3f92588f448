/* A file store's directory with any content: each piece of the input is a file.
 * One byte selects its name, another its kind, and its bytes follow. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/host_identity.h"
#include "store_use.h"

enum { FILES_MAX = 12, PATH_BYTES = 400 };

static char folder[64];

static void folder_make(void) {
  const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof folder, "%s/fuzz-gloo_c-XXXXXX", place);
  fuzz_check(mkdtemp(folder) != NULL, folder);
}

/* Removes everything in the directory, recursively. */
static void folder_empty(int fd) {
  DIR *all = fdopendir(fd);
  fuzz_check(all != NULL, "the folder can be read");
  for (const struct dirent *one; (one = readdir(all)) != NULL;) {
    if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
      continue;
    if (unlinkat(fd, one->d_name, 0) == 0) continue;
    int below = openat(fd, one->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (below >= 0) folder_empty(below);
    (void)unlinkat(fd, one->d_name, AT_REMOVEDIR);
  }
  closedir(all);
}

static void file_name(uint8_t which, char name[PATH_BYTES]) {
  static const char *const names[] = {
      "gloo-store", "lock", "temp",      "wills",
      "k-k",        "k-n",  "k-outcome", "k-a%20key%2fof%20parts",
      "k-alarm",    "k-%",  "other"};
  enum { NAMES = sizeof names / sizeof *names };
  if (which % 16 < NAMES)
    snprintf(name, PATH_BYTES, "%s/%s", folder, names[which % 16]);
  else
    snprintf(name, PATH_BYTES, "%s/wills/%016" PRIx64 "-%016x", folder,
             gli_boot_id_hash(), (unsigned)which);
}

/* Changes the size; this fails for a pipe, which has none. */
static void file_resize(int fd, off_t bytes) {
  if (ftruncate(fd, bytes) != 0) return;
}

static void file_make(fuzz_input *input) {
  char name[PATH_BYTES];
  file_name(fuzz_take_u8(input), name);
  uint8_t kind = fuzz_take_u8(input);
  fuzz_input piece = fuzz_take_piece(input);
  if (kind == 1) {
    (void)mkdir(name, 0700);
  } else if (kind == 2) {
    if (symlink("gloo-store", name) != 0) return;
  } else if (kind == 3) {
    (void)mkfifo(name, 0600);
  } else {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK,
                  kind == 4 ? 0 : 0600);
    if (fd < 0) return;
    if (piece.left > 0 &&
        write(fd, piece.at, piece.left) != (ssize_t)piece.left)
      file_resize(fd, 0);
    if (kind == 5) file_resize(fd, (off_t)1 << 33);
    close(fd);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  gloo_store_file_options o = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_store *store;
  gloo_error error;
  char wills[PATH_BYTES];
  folder_make();
  uint8_t how = fuzz_take_u8(&input);
  snprintf(wills, sizeof wills, "%s/wills", folder);
  if (how % 2 == 1) (void)mkdir(wills, 0700);
  for (int i = 0; i < FILES_MAX && input.left > 0; i++) file_make(&input);
  o.directory = folder;
  o.job = "job";
  o.epoch = 7;
  gloo_status status = gloo_store_file_create(&o, &store, &error);
  fuzz_check_error(status, &error);
  if (status == GLOO_OK) {
    fuzz_use_store(store);
    gloo_store_destroy(store);
  }
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fuzz_check(fd >= 0, folder);
  folder_empty(fd);
  fuzz_check(rmdir(folder) == 0, "all of it goes");
  return 0;
}
