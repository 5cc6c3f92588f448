/* Shared memory on Windows: sections of the paging file, without names. Their
 * size never changes, and pages that were committed stay so while a process has
 * a handle or a view: nothing needs a seal (docs/adr/0083). A descriptor is a
 * handle with a mark (windows/posix.h). */
#include "memory/sealed.h"

#include <errno.h>
#include <psapi.h>
#include <unistd.h>

const char gli_sealed_maker[] = "CreateFileMapping";
const bool gli_sealed_detaches = false;
/* A view is unmapped before another takes its addresses, and in between other
 * threads would fail. */
const bool gli_sealed_replaces = false;

enum { ACCESS = FILE_MAP_READ | FILE_MAP_WRITE };

static int sealed_errno(void) {
  return gli_windows_errno(GetLastError());
}

/* Zeros mean that it is not known: wine 8 returns them while another thread
 * asks for the first time. */
static bool sealed_is_too_much(const gli_sealed_want *want) {
  MEMORYSTATUSEX now = {.dwLength = sizeof now};
  return GlobalMemoryStatusEx(&now) && now.ullTotalPageFile > 0 &&
         want->bytes > now.ullAvailPageFile / 100 * want->most_percent;
}

/* Commits all pages: accesses of this process and of its peers cannot fail. */
int gli_sealed_make(const gli_sealed_want *want, int *fd, void **memory,
                    const char **what) {
  uint64_t bytes = want->bytes;
  *what = "too little memory is left on this host";
  if (sealed_is_too_much(want)) return ENOMEM;
  *what = gli_sealed_maker;
  SECURITY_ATTRIBUTES *own;
  if (!gli_windows_private(0600, &own)) return sealed_errno();
  HANDLE section =
      CreateFileMappingW(INVALID_HANDLE_VALUE, own, PAGE_READWRITE | SEC_COMMIT,
                         (DWORD)(bytes >> 32), (DWORD)bytes, NULL);
  if (section == NULL) return sealed_errno();
  int made = gli_windows_keep_section(section);
  if (made < 0) return errno;
  *what = "it cannot be mapped";
  int code = gli_sealed_map(made, want->bytes, memory);
  if (code != 0) {
    gli_sealed_close(made);
    return code;
  }
  *fd = made;
  return 0;
}

/* Does nothing, as gli_sealed_make commits all pages. */
int gli_sealed_reserve(int fd, void *memory, size_t from, size_t until,
                       unsigned most_percent) {
  (void)fd;
  (void)memory;
  (void)from;
  (void)until;
  (void)most_percent;
  return 0;
}

/* Returns true if a file is behind the view: accesses fail where its disk
 * does. */
static bool sealed_is_file(void *view) {
  wchar_t name[MAX_PATH];
  if (K32GetMappedFileNameW(GetCurrentProcess(), view, name, MAX_PATH) != 0)
    return true;
  DWORD code = GetLastError(); /* some paths are longer */
  return code == ERROR_INSUFFICIENT_BUFFER || code == ERROR_MORE_DATA;
}

/* Returns true if one run of committed pages, of exactly this size, is at the
 * view. */
static bool sealed_view_is_good(void *view, uint64_t bytes) {
  MEMORY_BASIC_INFORMATION is;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t whole = (bytes + page - 1) / page * page;
  return VirtualQuery(view, &is, sizeof is) == sizeof is &&
         is.AllocationBase == view && is.RegionSize == whole &&
         is.State == MEM_COMMIT && is.Type == MEM_MAPPED &&
         is.Protect == PAGE_READWRITE && !sealed_is_file(view);
}

/* Maps the whole section, to see its size. Others do not own it: they could
 * not have written what is in it before. */
int gli_sealed_check(int fd, uint64_t bytes, uint64_t reserved) {
  (void)reserved;
  HANDLE section = gli_windows_section(fd);
  if (section == NULL || bytes == 0 || !gli_windows_is_own_object(section))
    return EINVAL;
  void *view = MapViewOfFile(section, ACCESS, 0, 0, 0);
  if (view == NULL)
    return GetLastError() == ERROR_NOT_ENOUGH_MEMORY ? ENOMEM : EINVAL;
  bool good = sealed_view_is_good(view, bytes);
  (void)UnmapViewOfFile(view);
  return good ? 0 : EINVAL;
}

int gli_sealed_map(int fd, size_t bytes, void **memory) {
  HANDLE section = gli_windows_section(fd);
  if (section == NULL) return EBADF;
  *memory = MapViewOfFile(section, ACCESS, 0, 0, bytes);
  return *memory != NULL ? 0 : sealed_errno();
}

void gli_sealed_unmap(void *memory, size_t bytes) {
  (void)bytes;
  if (memory != NULL) (void)UnmapViewOfFile(memory);
}

void gli_sealed_close(int fd) {
  if (fd >= 0) (void)close(fd);
}

/* ---- what takes gli_sealed_replaces -------------------------------------- */

int gli_sealed_map_over(int fd, size_t bytes, void *memory) {
  (void)fd;
  (void)bytes;
  (void)memory;
  return ENOSYS;
}

int gli_sealed_blank(void *memory, size_t bytes) {
  (void)memory;
  (void)bytes;
  return ENOSYS;
}

int gli_sealed_detach(int fd, size_t offset, void *memory, size_t bytes) {
  (void)fd;
  (void)offset;
  (void)memory;
  (void)bytes;
  return ENOSYS;
}

int gli_sealed_read(int fd, size_t offset, void *to, size_t bytes) {
  (void)fd;
  (void)offset;
  (void)to;
  (void)bytes;
  return ENOSYS;
}
