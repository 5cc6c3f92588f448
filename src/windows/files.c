/* Descriptors of all kinds, and files by names in UTF-8. */
#include "windows/posix.h"

#include <stdarg.h>
#undef close
#undef read
#undef write
#undef fopen
#undef unlink
#undef rename
#undef mkdir
#undef access
#undef stat
#undef fstat
#undef lstat

wchar_t *gli_windows_wide(const char *text) {
  int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  wchar_t *wide = n > 0 ? calloc((size_t)n, sizeof *wide) : NULL;
  errno = n > 0 ? ENOMEM : EILSEQ;
  if (wide != NULL)
    (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, n);
  return wide;
}

char *gli_windows_narrow(const wchar_t *text) {
  int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
  char *narrow = n > 0 ? malloc((size_t)n) : NULL;
  errno = n > 0 ? ENOMEM : EILSEQ;
  if (narrow != NULL)
    (void)WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, n, NULL, NULL);
  return narrow;
}

/* Makes a descriptor of a handle; closes the handle if it is too large. */
static int handle_keep(HANDLE opened, int mark) {
  uintptr_t bits = (uintptr_t)opened;
  if ((bits & (uintptr_t) ~(uint32_t)GLI_MARKS) == bits)
    return (int)bits | mark;
  (void)CloseHandle(opened);
  errno = EMFILE;
  return -1;
}

static HANDLE handle_of(int fd) {
  return (HANDLE)(uintptr_t)(fd & ~GLI_MARKS); /* NOLINT */
}

int gli_windows_keep_section(HANDLE section) {
  return handle_keep(section, GLI_MARK_SECTION);
}

HANDLE gli_windows_section(int fd) {
  if (fd < 0 || (fd & GLI_MARKS) != GLI_MARK_SECTION) return NULL;
  return handle_of(fd);
}

int gli_windows_close(int fd) {
  if (fd < 0 || (fd & GLI_MARKS) == 0) return _close(fd);
  if ((fd & GLI_MARKS) == GLI_MARK_GROUP) {
    gli_windows_group_close(fd);
    return 0;
  }
  if ((fd & GLI_MARKS) == GLI_MARK_FOLDER ||
      (fd & GLI_MARKS) == GLI_MARK_SECTION)
    return CloseHandle(handle_of(fd)) ? 0 : gli_windows_fail();
  if (closesocket(gli_windows_socket(fd)) == 0) return 0;
  errno = gli_windows_errno((DWORD)WSAGetLastError());
  return -1;
}

ssize_t gli_windows_read(int fd, void *data, size_t bytes) {
  if (fd > 0 && (fd & GLI_MARKS) != 0)
    return gli_windows_recv(fd, data, bytes, 0);
  return _read(fd, data, bytes < INT_MAX ? (unsigned)bytes : INT_MAX);
}

ssize_t gli_windows_write(int fd, const void *data, size_t bytes) {
  if (fd > 0 && (fd & GLI_MARKS) != 0)
    return gli_windows_send(fd, data, bytes, 0);
  return _write(fd, data, bytes < INT_MAX ? (unsigned)bytes : INT_MAX);
}

static int files_copy(int fd) {
  HANDLE copy, self = GetCurrentProcess();
  if (fd < 0 || (fd & GLI_MARKS) != GLI_MARK_FOLDER) return _dup(fd);
  if (!DuplicateHandle(self, gli_windows_handle(fd), self, &copy, 0, FALSE,
                       DUPLICATE_SAME_ACCESS))
    return gli_windows_fail();
  return handle_keep(copy, GLI_MARK_FOLDER);
}

int gli_windows_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  int argument = command == F_GETFL ? 0 : va_arg(arguments, int);
  va_end(arguments);
  if (command == F_DUPFD_CLOEXEC) return files_copy(fd);
  SOCKET s = gli_windows_socket(fd);
  if (s == INVALID_SOCKET) return -1;
  u_long on = (argument & O_NONBLOCK) != 0;
  if (command == F_GETFL || command == F_SETFD) return 0;
  if (command == F_SETFL && ioctlsocket(s, (long)FIONBIO, &on) == 0) return 0;
  errno =
      command == F_SETFL ? gli_windows_errno((DWORD)WSAGetLastError()) : EINVAL;
  return -1;
}

/* ---- paths --------------------------------------------------------------- */

HANDLE gli_windows_handle(int fd) {
  if (fd > 0 && (fd & GLI_MARKS) == GLI_MARK_FOLDER) return handle_of(fd);
  return fd < 0 ? INVALID_HANDLE_VALUE : (HANDLE)_get_osfhandle(fd);
}

enum { PATH_CHARS = 4096 };

/* Gets the path of an open file. Returns its length, or 0 with errno. Wine
 * refuses the paths that are longer than MAX_PATH, but its kernel's names are
 * paths with another beginning. */
static DWORD files_path(HANDLE h, wchar_t path[PATH_CHARS]) {
  typedef int NTAPI query(HANDLE, int, void *, ULONG, ULONG *);
  enum { NAME = 1, BEGINNING = 4 };
  struct {
    USHORT bytes, room;
    wchar_t *text;
    wchar_t chars[PATH_CHARS];
  } name = {0};
  DWORD n = GetFinalPathNameByHandleW(h, path, PATH_CHARS, 0);
  if (n == 0 && GetLastError() == ERROR_MORE_DATA) {
    query *ask = (query *)(intptr_t)GetProcAddress(
        GetModuleHandleW(L"ntdll.dll"), "NtQueryObject");
    if (ask(h, NAME, &name, sizeof name - sizeof name.chars[0], NULL) == 0 &&
        wcsncmp(name.chars, L"\\??\\", BEGINNING) == 0) {
      n = name.bytes / (DWORD)sizeof *path;
      memcpy(path, name.chars, name.bytes);
      path[n] = 0;
      path[1] = L'\\';
    }
  }
  if (n > 0 && n < PATH_CHARS) return n;
  errno = ENAMETOOLONG;
  return n > 0 ? 0 : (DWORD)(gli_windows_fail() + 1);
}

/* The path of a file URL, /C:/folder, is C:/folder. */
wchar_t *gli_windows_path(int folder, const char *name) {
  bool drive = name[0] == '/' && name[1] != '\0' && name[2] == ':';
  wchar_t *last = gli_windows_wide(drive ? name + 1 : name);
  if (folder == AT_FDCWD || last == NULL) return last;
  wchar_t whole[PATH_CHARS];
  DWORD n = files_path(gli_windows_handle(folder), whole);
  wchar_t *path = n > 0 ? calloc(n + 1 + wcslen(last) + 1, sizeof *path) : NULL;
  if (path != NULL) {
    wcscpy(path, whole);
    path[n] = L'\\';
    wcscpy(path + n + 1, last);
  }
  free(last);
  return path;
}

static int files_result(bool done, wchar_t *wide) {
  int code = done ? 0 : gli_windows_fail();
  free(wide);
  return code;
}

char *realpath(const char *path, char *room) {
  (void)room;
  int fd = gli_windows_open(path, O_RDONLY);
  if (fd < 0) return NULL;
  wchar_t wide[PATH_CHARS];
  DWORD n = files_path(gli_windows_handle(fd), wide);
  bool local = n > 4 && wcsncmp(wide, L"\\\\?\\", 4) == 0 && wide[5] == L':';
  (void)gli_windows_close(fd);
  return n > 0 ? gli_windows_narrow(wide + (local ? 4 : 0)) : NULL;
}

int gli_windows_access(const char *path, int mode) {
  wchar_t *wide = gli_windows_path(AT_FDCWD, path);
  if (wide == NULL) return -1;
  int code = _waccess(wide, mode & ~X_OK);
  free(wide);
  return code;
}

static HANDLE files_open(const wchar_t *path, DWORD access, int flags,
                         SECURITY_ATTRIBUTES *only) {
  const DWORD all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  DWORD how = (flags & O_TRUNC) != 0 ? TRUNCATE_EXISTING : OPEN_EXISTING;
  if ((flags & O_CREAT) != 0)
    how = (flags & O_EXCL) != 0    ? CREATE_NEW
          : (flags & O_TRUNC) != 0 ? CREATE_ALWAYS
                                   : OPEN_ALWAYS;
  DWORD with = FILE_FLAG_BACKUP_SEMANTICS; /* directories, too */
  if ((flags & O_NOFOLLOW) != 0) with |= FILE_FLAG_OPEN_REPARSE_POINT;
  return CreateFileW(path, access, all, only, how, with, NULL);
}

/* ---- properties ---------------------------------------------------------- */

#define EPOCH_S INT64_C(11644473600) /* from 1601 to 1970 */
enum { PER_SECOND = 10000000 };

static bool files_stat(HANDLE h, struct gli_windows_stat *to) {
  BY_HANDLE_FILE_INFORMATION is;
  DWORD type = GetFileType(h);
  *to = (struct gli_windows_stat){.st_nlink = 1};
  if (type != FILE_TYPE_DISK) {
    to->st_mode = (type == FILE_TYPE_CHAR ? S_IFCHR : S_IFIFO) | 0600;
    return type != FILE_TYPE_UNKNOWN || GetLastError() == NO_ERROR;
  }
  if (!GetFileInformationByHandle(h, &is) ||
      !gli_windows_rights(h, &to->st_uid, &to->st_mode))
    return false;
  bool link = (is.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
  bool folder = (is.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  to->st_mode |= link ? S_IFLNK : folder ? S_IFDIR | 0100u : S_IFREG;
  to->st_nlink = is.nNumberOfLinks;
  to->st_dev = is.dwVolumeSerialNumber;
  to->st_ino = (uint64_t)is.nFileIndexHigh << 32 | is.nFileIndexLow;
  to->st_size = (int64_t)((uint64_t)is.nFileSizeHigh << 32 | is.nFileSizeLow);
  uint64_t written = (uint64_t)is.ftLastWriteTime.dwHighDateTime << 32 |
                     is.ftLastWriteTime.dwLowDateTime;
  to->st_mtime = (time_t)(written / PER_SECOND) - EPOCH_S;
  return true;
}

int gli_windows_fstat(int fd, struct gli_windows_stat *info) {
  return files_stat(gli_windows_handle(fd), info) ? 0 : gli_windows_fail();
}

int fstatat(int folder, const char *name, struct gli_windows_stat *info,
            int flags) {
  wchar_t *path = gli_windows_path(folder, name);
  if (path == NULL) return -1;
  HANDLE h =
      files_open(path, READ_CONTROL | FILE_READ_ATTRIBUTES,
                 (flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0, NULL);
  bool done = h != INVALID_HANDLE_VALUE && files_stat(h, info);
  int code = files_result(done, path);
  int reason = errno;
  if (h != INVALID_HANDLE_VALUE) (void)CloseHandle(h);
  errno = reason;
  return code;
}

int gli_windows_stat(const char *path, struct gli_windows_stat *info) {
  return fstatat(AT_FDCWD, path, info, 0);
}

int gli_windows_lstat(const char *path, struct gli_windows_stat *info) {
  return fstatat(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

/* ---- opening ------------------------------------------------------------- */

/* Returns 0 or errno. */
static int files_refuse(HANDLE h, int flags, bool *folder) {
  struct gli_windows_stat is;
  if (!files_stat(h, &is)) return gli_windows_errno(GetLastError());
  *folder = S_ISDIR(is.st_mode);
  if ((flags & O_NOFOLLOW) != 0 && S_ISLNK(is.st_mode)) return ELOOP;
  if ((flags & O_DIRECTORY) != 0 && !*folder) return ENOTDIR;
  return *folder && (flags & (_O_WRONLY | _O_RDWR)) != 0 ? EISDIR : 0;
}

static int files_keep(HANDLE h, int flags) {
  bool folder = false;
  int reason = files_refuse(h, flags, &folder);
  if (reason != 0) {
    (void)CloseHandle(h);
    errno = reason;
    return -1;
  }
  if (folder) return handle_keep(h, GLI_MARK_FOLDER);
  int fd = _open_osfhandle((intptr_t)h,
                           (flags & _O_APPEND) | _O_BINARY | _O_NOINHERIT);
  if (fd < 0) (void)CloseHandle(h);
  return fd;
}

static int files_open_at(int folder, const char *name, int flags, int mode) {
  static const DWORD access[] = {GENERIC_READ, GENERIC_WRITE,
                                 GENERIC_READ | GENERIC_WRITE};
  SECURITY_ATTRIBUTES *only = NULL;
  if ((flags & O_CREAT) != 0 && !gli_windows_private(mode, &only))
    return gli_windows_fail();
  wchar_t *path = gli_windows_path(folder, name);
  if (path == NULL) return -1;
  HANDLE h =
      files_open(path, access[flags & (_O_WRONLY | _O_RDWR)], flags, only);
  if (files_result(h != INVALID_HANDLE_VALUE, path) != 0) return -1;
  return files_keep(h, flags);
}

#define MODE_OF(flags, mode)                                   \
  do {                                                         \
    va_list arguments;                                         \
    va_start(arguments, flags);                                \
    if ((flags & O_CREAT) != 0) mode = va_arg(arguments, int); \
    va_end(arguments);                                         \
  } while (false)

int gli_windows_open(const char *path, int flags, ...) {
  int mode = 0;
  MODE_OF(flags, mode);
  return files_open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
  int mode = 0;
  MODE_OF(flags, mode);
  return files_open_at(folder, name, flags, mode);
}

/* Opens a file that no child inherits, in binary mode. */
FILE *gli_windows_fopen(const char *path, const char *mode) {
  wchar_t *wide = gli_windows_path(AT_FDCWD, path), how[8] = L"";
  size_t n = 0;
  for (; *mode != '\0' && n < 4; mode++)
    if (*mode != 'e' && *mode != 'b') how[n++] = (wchar_t)*mode;
  how[n++] = L'b';
  how[n++] = L'N';
  FILE *file = wide != NULL ? _wfopen(wide, how) : NULL;
  free(wide);
  return file;
}
