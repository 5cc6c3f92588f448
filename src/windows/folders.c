/* Names in folders: removing, renaming, listing; and locks of files. */
#include <stdatomic.h>

#include "windows/posix.h"
#undef unlink
#undef rename
#undef mkdir

enum { PATH_CHARS = 4096, TRIES = 2000 };

/* FILE_RENAME_INFO, with room for a name. */
typedef struct renaming {
  DWORD flags;
  HANDLE root;
  DWORD bytes;
  wchar_t name[PATH_CHARS];
} renaming;

enum { REPLACE = 1, AS_POSIX = 2, READ_ONLY_TOO = 0x40 }; /* for renaming */
enum { REMOVE = 1, REMOVE_AS_POSIX = 2, REMOVE_READ_ONLY = 0x10 };
/* Classes of SetFileInformationByHandle since Windows 10. */
enum { REMOVE_CLASS = 21, RENAME_CLASS = 22 };

static HANDLE folders_open(const wchar_t *path) {
  const DWORD all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  return CreateFileW(path, DELETE | SYNCHRONIZE, all, NULL, OPEN_EXISTING,
                     FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT,
                     NULL);
}

/* Returns true if file system or system lack what was asked for. */
static bool is_lacking(DWORD code) {
  return code == ERROR_INVALID_PARAMETER || code == ERROR_NOT_SUPPORTED ||
         code == ERROR_INVALID_FUNCTION || code == ERROR_CALL_NOT_IMPLEMENTED;
}

static bool folders_rename(HANDLE file, const wchar_t *to, int class,
                           DWORD flags) {
  renaming how = {.flags = flags};
  bool whole = wcsncmp(to, L"\\\\?\\", 4) == 0; /* and dots at its end stay */
  DWORD n = whole ? (DWORD)wcslen(to)
                  : GetFullPathNameW(to, PATH_CHARS, how.name, NULL);
  if (n == 0 || n >= PATH_CHARS) {
    if (n > 0) SetLastError(ERROR_FILENAME_EXCED_RANGE);
    return false;
  }
  if (whole) wcscpy(how.name, to);
  how.bytes = n * (DWORD)sizeof how.name[0];
  return SetFileInformationByHandle(file, (FILE_INFO_BY_HANDLE_CLASS) class,
                                    &how, sizeof how);
}

/* ---- removing ------------------------------------------------------------ */

/* Frees the name of a file that others have open, where removing it does not:
 * by another name, which goes when they close it. */
static void folders_move_away(HANDLE file, const wchar_t *path) {
  static atomic_uint n;
  wchar_t name[PATH_CHARS];
  int length = _snwprintf(name, PATH_CHARS, L"%ls.%lx-%x", path,
                          GetCurrentProcessId(), atomic_fetch_add(&n, 1));
  if (length > 0 && length < PATH_CHARS)
    (void)folders_rename(file, name, FileRenameInfo, 0);
}

static bool folders_remove(HANDLE file, const wchar_t *path) {
  DWORD flags = REMOVE | REMOVE_AS_POSIX | REMOVE_READ_ONLY;
  if (SetFileInformationByHandle(file, (FILE_INFO_BY_HANDLE_CLASS)REMOVE_CLASS,
                                 &flags, sizeof flags))
    return true;
  if (!is_lacking(GetLastError())) return false;
  FILE_DISPOSITION_INFO now = {TRUE};
  folders_move_away(file, path);
  return SetFileInformationByHandle(file, FileDispositionInfo, &now,
                                    sizeof now);
}

int unlinkat(int folder, const char *name, int flags) {
  (void)flags;
  wchar_t *path = gli_windows_path(folder, name);
  if (path == NULL) return -1;
  HANDLE file = folders_open(path);
  bool done = file != INVALID_HANDLE_VALUE && folders_remove(file, path);
  int code = done ? 0 : gli_windows_fail();
  int reason = errno;
  if (file != INVALID_HANDLE_VALUE) (void)CloseHandle(file);
  free(path);
  errno = reason;
  return code;
}

int gli_windows_unlink(const char *path) {
  return unlinkat(AT_FDCWD, path, 0);
}

/* ---- renaming ------------------------------------------------------------ */

/* Replaces a file. Some systems cannot while it is open, so this tries for some
 * seconds: a store's files are open for as long as reading takes. */
static bool folders_replace(HANDLE file, const wchar_t *to) {
  for (int i = 0; i < TRIES; i++) {
    if (folders_rename(file, to, FileRenameInfo, REPLACE)) return true;
    DWORD code = GetLastError();
    if (code != ERROR_ACCESS_DENIED && code != ERROR_SHARING_VIOLATION)
      return false;
    Sleep(1);
  }
  return false;
}

static bool folders_move(const wchar_t *from, const wchar_t *to) {
  HANDLE file = folders_open(from);
  if (file == INVALID_HANDLE_VALUE) return false;
  bool done = folders_rename(file, to, RENAME_CLASS,
                             REPLACE | AS_POSIX | READ_ONLY_TOO) ||
              (is_lacking(GetLastError()) && folders_replace(file, to));
  DWORD code = GetLastError();
  (void)CloseHandle(file);
  SetLastError(code);
  return done;
}

/* Does something with the two paths. */
static int folders_both(int from_folder, const char *from, int to_folder,
                        const char *to,
                        bool (*run)(const wchar_t *, const wchar_t *)) {
  wchar_t *old = gli_windows_path(from_folder, from);
  wchar_t *new = old != NULL ? gli_windows_path(to_folder, to) : NULL;
  bool made = new != NULL, done = made &&run(old, new);
  if (made && !done) (void)gli_windows_fail();
  int reason = errno;
  free(old);
  free(new);
  errno = reason;
  return done ? 0 : -1;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  return folders_both(from_folder, from, to_folder, to, folders_move);
}

int gli_windows_rename(const char *from, const char *to) {
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static bool folders_link(const wchar_t *from, const wchar_t *to) {
  return CreateHardLinkW(to, from, NULL);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to,
           int flags) {
  (void)flags;
  return folders_both(from_folder, from, to_folder, to, folders_link);
}

int mkdirat(int folder, const char *name, int mode) {
  SECURITY_ATTRIBUTES *only = NULL;
  if (!gli_windows_private(mode, &only)) return gli_windows_fail();
  wchar_t *path = gli_windows_path(folder, name);
  if (path == NULL) return -1;
  int code = CreateDirectoryW(path, only) ? 0 : gli_windows_fail();
  free(path);
  return code;
}

int gli_windows_mkdir(const char *path, int mode) {
  return mkdirat(AT_FDCWD, path, mode);
}

/* ---- locks --------------------------------------------------------------- */

/* The lock is on the last possible byte, as others can neither read nor write
 * what is locked. A lock that this opening has is replaced. */
int flock(int fd, int operation) {
  HANDLE file = gli_windows_handle(fd);
  OVERLAPPED at = {.Offset = UINT32_MAX - 1, .OffsetHigh = INT32_MAX};
  DWORD how = (operation & LOCK_EX) != 0 ? LOCKFILE_EXCLUSIVE_LOCK : 0;
  if ((operation & LOCK_NB) != 0) how |= LOCKFILE_FAIL_IMMEDIATELY;
  bool had = UnlockFileEx(file, 0, 1, 0, &at);
  if ((operation & LOCK_UN) != 0)
    return had || GetLastError() == ERROR_NOT_LOCKED ? 0 : gli_windows_fail();
  return LockFileEx(file, how, 0, 1, 0, &at) ? 0 : gli_windows_fail();
}

/* ---- listing ------------------------------------------------------------- */

struct gli_windows_listing {
  int fd;
  HANDLE find;
  bool has;
  WIN32_FIND_DATAW found;
  struct dirent entry;
};

static void listing_end(DIR *list) {
  if (list->find != INVALID_HANDLE_VALUE) (void)FindClose(list->find);
  list->find = INVALID_HANDLE_VALUE;
}

void rewinddir(DIR *list) {
  wchar_t *all = gli_windows_path(list->fd, "*");
  listing_end(list);
  if (all != NULL) list->find = FindFirstFileW(all, &list->found);
  list->has = list->find != INVALID_HANDLE_VALUE;
  free(all);
}

DIR *fdopendir(int fd) {
  DIR *list = malloc(sizeof *list);
  if (list == NULL) return NULL;
  list->fd = fd;
  list->find = INVALID_HANDLE_VALUE;
  rewinddir(list);
  if (list->has) return list;
  (void)gli_windows_fail();
  free(list);
  return NULL;
}

DIR *opendir(const char *path) {
  int fd = gli_windows_open(path, O_RDONLY | O_DIRECTORY);
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  int reason = errno;
  if (list == NULL && fd >= 0) (void)gli_windows_close(fd);
  errno = reason;
  return list;
}

struct dirent *readdir(DIR *list) {
  if (!list->has) return NULL;
  int n = WideCharToMultiByte(CP_UTF8, 0, list->found.cFileName, -1,
                              list->entry.d_name, sizeof list->entry.d_name,
                              NULL, NULL);
  list->has = FindNextFileW(list->find, &list->found);
  return n > 0 ? &list->entry : NULL;
}

int closedir(DIR *list) {
  listing_end(list);
  int code = gli_windows_close(list->fd);
  free(list);
  return code;
}
