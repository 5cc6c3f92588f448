/* Shared memory as a descriptor, on every POSIX system. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "memory/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/memory_left.h"

#if !defined(MAP_NORESERVE) /* a hint */
#define MAP_NORESERVE 0
#endif

enum { MUCH = 4096 };

/* Limits of allocation: attempts before giving up, and bytes per call. */
enum { TRIES = 100 };
static const size_t piece_max = (size_t)4 << 20;

/* Alignment for huge pages; some processors have further sizes. */
static const size_t huge_bytes = (size_t)2 << 20;

/* ---- making -------------------------------------------------------------- */

/* Returns the memory left for `bytes`, of which `taken` are taken now. The last
 * reading is reused while all taken bytes are at most a thousandth of it, for
 * 10 ms, or for a second if it is MUCH times `bytes`: a process that sets up
 * many connections asks for each, and a reading opens several files. */
static uint64_t left_for(uint64_t bytes, uint64_t taken) {
  static _Atomic uint64_t left, taken_since;
  static _Atomic int64_t read_ns;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  uint64_t known = atomic_load(&left);
  uint64_t all = atomic_fetch_add(&taken_since, taken) + taken;
  int64_t fresh_ns = known / MUCH >= bytes ? 1000000000 : 10000000;
  if (now_ns - atomic_load(&read_ns) < fresh_ns && all >= taken &&
      all <= known / 1000)
    return known - all;
  known = gli_memory_left();
  atomic_store(&left, known);
  atomic_store(&taken_since, taken);
  atomic_store(&read_ns, now_ns);
  return known;
}

/* Checks limits in advance: exceeding the limit on file sizes raises a signal,
 * and exceeding that of the machine or a control group kills a process. */
static int check_limits(const gli_sealed_want *want, const char **what) {
  struct rlimit limit;
  *what = "RLIMIT_FSIZE is too low";
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < (rlim_t)want->bytes)
    return EFBIG;
  *what = "too little memory is left on this host or in its control group";
  uint64_t left = left_for(want->bytes, want->reserved);
  return want->bytes <= left / 100 * want->most_percent ? 0 : ENOMEM;
}

static int size_and_seal(int fd, size_t bytes) {
  if (bytes > INT64_MAX) return EFBIG;
  int code;
  do code = ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code != 0) return code;
  return gli_sealed_fix(fd);
}

/* Reserves the bytes [done, bytes). On some kernels any signal interrupts
 * fallocate and undoes all its work, so that a long call never ends under a
 * profiler's timer. The function therefore reserves pieces, which shrink until
 * they complete between two signals. Returns EINTR if even a page fails. */
static int sealed_reserve(int fd, void *memory, size_t done, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), piece = piece_max;
  int tries = 0;
  while (done < bytes) {
    size_t length = bytes - done < piece ? bytes - done : piece;
    int code = gli_sealed_allocate(fd, memory, done, length);
    if (code == 0) {
      done += length;
      tries = 0;
      if (piece < piece_max) piece *= 2;
    } else if (code == EINTR && ++tries < TRIES) {
      if (piece > page) piece /= 2;
    } else {
      return code;
    }
  }
  return 0;
}

static int sealed_fill(int fd, size_t bytes, size_t reserved, void **memory,
                       const char **what) {
  *what = "its size cannot be set and sealed";
  int code = size_and_seal(fd, bytes);
  if (code != 0) return code;
  *what = "it cannot be mapped";
  code = gli_sealed_map(fd, bytes, memory);
  if (code != 0) return code;
  if (reserved >= huge_bytes) gli_sealed_populate_huge(*memory, reserved);
  *what = "its pages cannot be reserved (fallocate)";
  code = sealed_reserve(fd, *memory, 0, reserved);
  if (code != 0) {
    gli_sealed_unmap(*memory, bytes);
    return code;
  }
  /* The first access populates a single page as fast. */
  if (reserved > (size_t)sysconf(_SC_PAGESIZE))
    gli_sealed_populate(*memory, reserved);
  return 0;
}

/* Returns true if enough descriptors remain. The kernel assigns the lowest free
 * number, so `fd` is a lower bound for the number in use. */
static bool leaves_fds(int fd, unsigned spare_percent) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return true;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT_MAX) return true;
  rlim_t spare = limit.rlim_cur * spare_percent / 100;
  return (rlim_t)fd < limit.rlim_cur - spare;
}

int gli_sealed_make(const gli_sealed_want *want, int *fd, void **memory,
                    const char **what) {
  int code = check_limits(want, what);
  if (code != 0) return code;
  *what = gli_sealed_maker;
  int made = gli_sealed_create();
  if (made < 0) return errno;
  *what = "the remaining descriptors are reserved for other uses (ulimit -n)";
  code = leaves_fds(made, want->spare_fds_percent)
             ? sealed_fill(made, want->bytes, want->reserved, memory, what)
             : EMFILE;
  if (code != 0) {
    gli_sealed_close(made);
    return code;
  }
  *fd = made;
  return 0;
}

int gli_sealed_reserve(int fd, void *memory, size_t from, size_t until,
                       unsigned most_percent) {
  const char *what;
  const gli_sealed_want want = {
      .bytes = until, .reserved = until - from, .most_percent = most_percent};
  int code = check_limits(&want, &what);
  if (code == 0) code = sealed_reserve(fd, memory, from, until);
  if (code != 0) return code;
  gli_sealed_populate((uint8_t *)memory + from, until - from);
  return 0;
}

/* Some systems round the size up to whole pages. */
int gli_sealed_check(int fd, uint64_t bytes, uint64_t reserved) {
  struct stat status;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (fstat(fd, &status) != 0) return errno;
  if (status.st_size < 0) return EINVAL;
  uint64_t size = (uint64_t)status.st_size;
  if (size != bytes && (size % page != 0 || size - bytes >= page))
    return EINVAL;
  return gli_sealed_is_fixed(fd, &status) &&
                 gli_sealed_has_pages(&status, reserved)
             ? 0
             : EINVAL;
}

/* ---- mapping ------------------------------------------------------------- */

static int sealed_map(int fd, size_t bytes, void *where, int flags,
                      void **memory) {
  void *at =
      mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
  if (at == MAP_FAILED) return errno;
  *memory = at;
  return 0;
}

/* Maps the file at an address that is aligned for huge pages. */
static int map_aligned(int fd, size_t bytes, void **memory) {
  size_t room = bytes + huge_bytes;
  uint8_t *at = mmap(NULL, room, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return errno;
  size_t before = huge_bytes - (uintptr_t)at % huge_bytes;
  int code = sealed_map(fd, bytes, at + before, MAP_FIXED, memory);
  if (code != 0) {
    munmap(at, room);
    return code;
  }
  munmap(at, before);
  if (before < huge_bytes) munmap(at + before + bytes, huge_bytes - before);
  return 0;
}

int gli_sealed_map(int fd, size_t bytes, void **memory) {
  if (bytes < huge_bytes || bytes > SIZE_MAX - huge_bytes)
    return sealed_map(fd, bytes, NULL, 0, memory);
  return map_aligned(fd, bytes, memory);
}

int gli_sealed_map_over(int fd, size_t bytes, void *memory) {
  return sealed_map(fd, bytes, memory, MAP_FIXED, &memory);
}

int gli_sealed_blank(void *memory, size_t bytes) {
  void *at =
      mmap(memory, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return at == MAP_FAILED ? errno : 0;
}

void gli_sealed_unmap(void *memory, size_t bytes) {
  if (memory != NULL) munmap(memory, bytes);
}

/* ---- detaching ----------------------------------------------------------- */

/* A compiler may make a load of an addition of 0, but not of this. */
void gli_sealed_touch(void *memory, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < bytes; i += page) {
    atomic_uchar *at = (atomic_uchar *)memory + i;
    unsigned char same = atomic_load(at);
    while (!atomic_compare_exchange_weak(at, &same, same)) continue;
  }
}

/* Replaces the shared mapping in one step by a private one of the same pages. A
 * page of the new mapping remains the shared page until it is written; the
 * kernel then copies it, without losing a write of any thread. So this writes
 * to every page, with its own contents. */
int gli_sealed_detach(int fd, size_t offset, void *memory, size_t bytes) {
  void *at = mmap(memory, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset);
  if (at == MAP_FAILED) return errno;
  gli_sealed_touch(at, bytes);
  return 0;
}

static int sealed_read_mapped(int fd, size_t offset, void *to, size_t bytes) {
  size_t before = offset % (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *at = mmap(NULL, before + bytes, PROT_READ, MAP_SHARED, fd,
                     (off_t)(offset - before));
  if (at == MAP_FAILED) return errno;
  memcpy(to, at + before, bytes);
  munmap(at, before + bytes);
  return 0;
}

/* Not every system reads such memory as a file. */
int gli_sealed_read(int fd, size_t offset, void *to, size_t bytes) {
  uint8_t *at = to;
  while (bytes > 0) {
    ssize_t got = pread(fd, at, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return EFAULT;
    if (got < 0) return sealed_read_mapped(fd, offset, at, bytes);
    at += got;
    offset += (size_t)got;
    bytes -= (size_t)got;
  }
  return 0;
}

/* Separate function, because tests/thread.supp names it. */
void gli_sealed_close(int fd) {
  if (fd >= 0) close(fd);
}
