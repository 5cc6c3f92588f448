#if GLI_LINUX
#define _GNU_SOURCE /* memfd_create */
#endif
#include "tools/bench_shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "core/signals.h"

/* A header before the memory holds the token, so that a different file of the
 * same name is not mistaken for it. */
enum { HEADER_BYTES = 64, NAME_BYTES = 64 };
enum { TOKEN, PID, FD };

/* ---- descriptors --------------------------------------------------------- */

#if GLI_LINUX

static int create_descriptor(gli_shared_key *key) {
  int fd = memfd_create("gloo-bench", MFD_CLOEXEC);
  key->words[PID] = (uint64_t)getpid();
  key->words[FD] = (uint64_t)fd;
  return fd;
}

static int open_descriptor(const gli_shared_key *key) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "/proc/%llu/fd/%llu",
           (unsigned long long)key->words[PID],
           (unsigned long long)key->words[FD]);
  return open(name, O_RDWR | O_CLOEXEC);
}

static void forget(const gli_shared_key *key, int fd) {
  (void)key;
  close(fd);
}

#else

static void name_of(const gli_shared_key *key, char name[NAME_BYTES]) {
  snprintf(name, NAME_BYTES, "/gloo-bench-%016llx",
           (unsigned long long)key->words[TOKEN]);
}

static int create_descriptor(gli_shared_key *key) {
  char name[NAME_BYTES];
  name_of(key, name);
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  key->words[FD] = (uint64_t)fd;
  return fd;
}

static int open_descriptor(const gli_shared_key *key) {
  char name[NAME_BYTES];
  name_of(key, name);
  return shm_open(name, O_RDWR, 0);
}

static void forget(const gli_shared_key *key, int fd) {
  char name[NAME_BYTES];
  name_of(key, name);
  shm_unlink(name);
  close(fd);
}

#endif

/* ---- memory -------------------------------------------------------------- */

/* Reserves the memory before use: on a full file system a later access would
 * raise a signal. */
static bool reserve(int fd, size_t bytes) {
  gli_signal_guard guard;
  gli_signal_guard_enter(&guard);
  bool good = ftruncate(fd, (off_t)bytes) == 0;
#if defined(_POSIX_ADVISORY_INFO) && _POSIX_ADVISORY_INFO > 0
  if (good) good = posix_fallocate(fd, 0, (off_t)bytes) == 0;
#endif
  gli_signal_guard_leave(&guard);
  return good;
}

static uint8_t *map(int fd, size_t bytes) {
  void *memory = mmap(NULL, HEADER_BYTES + bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void *gli_shared_create(size_t bytes, gli_shared_key *key) {
  memset(key, 0, sizeof *key);
  uint64_t token;
  if (uv_random(NULL, NULL, &token, sizeof token, 0, NULL) != 0) return NULL;
  key->words[TOKEN] = token | 1;
  int fd = create_descriptor(key);
  uint8_t *base = NULL;
  if (fd >= 0 && reserve(fd, HEADER_BYTES + bytes)) base = map(fd, bytes);
  if (base != NULL) {
    memcpy(base, &key->words[TOKEN], sizeof token);
    return base + HEADER_BYTES;
  }
  if (fd >= 0) forget(key, fd);
  memset(key, 0, sizeof *key);
  return NULL;
}

/* Returns true if the file has the type and size that the creator gave it. */
static bool is_it(int fd, size_t bytes) {
  struct stat about;
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
         about.st_size == (off_t)(HEADER_BYTES + bytes);
}

void *gli_shared_open(size_t bytes, const gli_shared_key *key) {
  if (key->words[TOKEN] == 0) return NULL;
  int fd = open_descriptor(key);
  if (fd < 0) return NULL;
  uint8_t *base = is_it(fd, bytes) ? map(fd, bytes) : NULL;
  close(fd);
  if (base == NULL) return NULL;
  if (memcmp(base, &key->words[TOKEN], sizeof key->words[TOKEN]) == 0) {
    return base + HEADER_BYTES;
  }
  munmap(base, HEADER_BYTES + bytes);
  return NULL;
}

void gli_shared_close_key(const gli_shared_key *key) {
  if (key->words[TOKEN] != 0) forget(key, (int)key->words[FD]);
}

void gli_shared_unmap(void *memory, size_t bytes) {
  munmap((uint8_t *)memory - HEADER_BYTES, HEADER_BYTES + bytes);
}
