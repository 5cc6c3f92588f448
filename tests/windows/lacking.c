#include "windows/lacking.h"
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
/* clang-format on */
#undef BOOL
#undef LONG
#undef SHORT
#undef WORD
#include <sddl.h>

/* A case that is left half way leaves handles open. */
static bool left;

static int lacks(const char *what) {
  print_message("# skipped: Windows has no %s\n", what);
  left = true;
  skip();
  return -1;
}

pid_t fork(void) {
  return lacks("fork");
}

pid_t waitpid(pid_t process, int *status, int options) {
  (void)process;
  (void)status;
  (void)options;
  return lacks("fork");
}

int kill(pid_t process, int number) {
  (void)process;
  (void)number;
  return lacks("signals");
}

int pause(void) {
  return lacks("signals");
}

unsigned alarm(unsigned seconds) {
  return seconds - seconds;
}

int chown(const char *path, uid_t user, gid_t group) {
  (void)path;
  (void)user;
  (void)group;
  return lacks("chown");
}

int setuid(uid_t user) {
  (void)user;
  return lacks("users by number");
}

int mkfifo(const char *path, int mode) {
  (void)path;
  (void)mode;
  return lacks("named pipes in folders");
}

int setrlimit(int resource, const struct rlimit *limit) {
  (void)resource;
  (void)limit;
  return lacks("limits of a process");
}

int sigaction(int number, const struct sigaction *action,
              struct sigaction *old) {
  (void)number;
  (void)action;
  (void)old;
  return lacks("signals");
}

void *mmap(void *at, size_t bytes, int access, int flags, int fd,
           int64_t from) {
  (void)bytes;
  (void)access;
  (void)flags;
  (void)fd;
  (void)from;
  lacks("signals for accesses to memory");
  return at;
}

int mprotect(void *at, size_t bytes, int access) {
  (void)at;
  (void)bytes;
  (void)access;
  return lacks("signals for accesses to memory");
}

int munmap(void *at, size_t bytes) {
  return mprotect(at, bytes, 0);
}

char *strndup(const char *text, size_t most) {
  size_t n = strnlen(text, most);
  char *copy = malloc(n + 1);
  if (copy == NULL) return NULL;
  copy[n] = '\0';
  return memcpy(copy, text, n);
}

/* ---- files --------------------------------------------------------------- */

/* Returns true for rights of groups beyond those of others, and to execute
 * alone. */
static bool mode_is_odd(int mode) {
  return (mode >> 3 & 7 & ~mode) != 0 || (mode & 7) == 1;
}

static int result(bool done, wchar_t *path) {
  int code = done ? 0 : gli_windows_fail();
  free(path);
  return code;
}

char *mkdtemp(char *pattern) {
  static const char digits[] = "0123456789abcdefghijklmnopqrstuv";
  char *end = pattern + strlen(pattern) - 6;
  uint64_t number = uv_hrtime() * 2654435761u + GetCurrentProcessId();
  for (int tries = 0; tries < 100; tries++) {
    uint64_t rest = number += 7919;
    for (int i = 0; i < 6; i++, rest >>= 5) end[i] = digits[rest & 31];
    if (mkdir(pattern, 0700) == 0) return pattern;
    if (errno != EEXIST) return NULL;
  }
  return NULL;
}

int test_windows_rmdir(const char *path) {
  wchar_t *wide = gli_windows_path(AT_FDCWD, path);
  bool done = RemoveDirectoryW(wide);
  bool stays = GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
  return done && stays && !left ? lacks("removal of directories that are open")
                                : result(done, wide);
}

int test_windows_remove(const char *path) {
  struct stat info;
  if (lstat(path, &info) != 0) return -1;
  return S_ISDIR(info.st_mode) ? test_windows_rmdir(path) : unlink(path);
}

/* Wine says that it has made a link, and makes none. */
int symlink(const char *target, const char *path) {
  enum { WITHOUT_PRIVILEGE = 2 };
  wchar_t *to = gli_windows_path(AT_FDCWD, target);
  wchar_t *at = gli_windows_path(AT_FDCWD, path);
  DWORD is = GetFileAttributesW(to), how = WITHOUT_PRIVILEGE;
  if (is != INVALID_FILE_ATTRIBUTES && (is & FILE_ATTRIBUTE_DIRECTORY) != 0)
    how |= SYMBOLIC_LINK_FLAG_DIRECTORY;
  bool done = CreateSymbolicLinkW(at, to, how);
  bool made = GetFileAttributesW(at) != INVALID_FILE_ATTRIBUTES;
  free(to);
  return made ? result(done, at) : lacks("symbolic links by wine");
}

/* Adds an entry for all users to the list of a private file. */
static int change_mode(HANDLE file, int mode) {
  SECURITY_ATTRIBUTES *only;
  SECURITY_DESCRIPTOR with;
  PACL list = NULL;
  BOOL present, by_default;
  PSID all = NULL;
  union {
    ACL list;
    uint8_t room[1024];
  } longer;
  DWORD rights = ((mode & 4) != 0 ? (DWORD)FILE_GENERIC_READ : 0) |
                 ((mode & 2) != 0 ? (DWORD)FILE_GENERIC_WRITE : 0);
  void *first;
  bool done =
      gli_windows_private(0700, &only) &&
      GetSecurityDescriptorDacl(only->lpSecurityDescriptor, &present, &list,
                                &by_default) &&
      GetAce(list, 0, &first) && ConvertStringSidToSidW(L"S-1-1-0", &all) &&
      InitializeAcl(&longer.list, sizeof longer, ACL_REVISION) &&
      AddAce(&longer.list, ACL_REVISION, 0, first,
             list->AclSize - (DWORD)sizeof *list) &&
      (rights == 0 ||
       AddAccessAllowedAce(&longer.list, ACL_REVISION, rights, all)) &&
      InitializeSecurityDescriptor(&with, SECURITY_DESCRIPTOR_REVISION) &&
      SetSecurityDescriptorDacl(&with, TRUE, &longer.list, FALSE) &&
      SetKernelObjectSecurity(file, DACL_SECURITY_INFORMATION, &with);
  int code = done ? 0 : gli_windows_fail();
  (void)LocalFree(all);
  return code;
}

int test_windows_chmod(const char *path, int mode) {
  if (mode_is_odd(mode)) return lacks("modes for groups, or to execute alone");
  wchar_t *wide = gli_windows_path(AT_FDCWD, path);
  HANDLE file = CreateFileW(wide, READ_CONTROL | WRITE_DAC, 7, NULL,
                            OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
  if (file == INVALID_HANDLE_VALUE) return result(false, wide);
  free(wide);
  int code = change_mode(file, mode);
  (void)CloseHandle(file);
  return code;
}

/* The file's own handle may have no right to change its list. */
int fchmod(int fd, int mode) {
  if (mode_is_odd(mode)) {
    (void)close(fd); /* the case goes on no further */
    return lacks("modes for groups, or to execute alone");
  }
  wchar_t wide[1024];
  DWORD n = GetFinalPathNameByHandleW(gli_windows_handle(fd), wide, 1024, 0);
  char *path = n > 0 && n < 1024 ? gli_windows_narrow(wide) : NULL;
  int code = path != NULL ? test_windows_chmod(path, mode) : -1;
  free(path);
  return code;
}

int nftw(const char *path,
         int (*visit)(const char *path, const struct stat *info, int type,
                      struct FTW *where),
         int most, int flags) {
  DIR *all = opendir(path);
  int code = 0;
  for (struct dirent *e; all != NULL && (e = readdir(all)) != NULL;) {
    char name[4096];
    struct stat info;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    (void)snprintf(name, sizeof name, "%s/%s", path, e->d_name);
    if (lstat(name, &info) != 0)
      code = -1;
    else if (S_ISDIR(info.st_mode))
      code |= nftw(name, visit, most, flags);
    else
      code |= visit(name, &info, 0, NULL);
  }
  if (all != NULL) (void)closedir(all);
  return code | visit(path, NULL, 0, NULL);
}

int alphasort(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

int scandir(const char *path, struct dirent ***list,
            int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **)) {
  DIR *all = opendir(path);
  struct dirent **names = NULL;
  int n = 0;
  (void)filter;
  if (all == NULL) return -1;
  for (struct dirent *e; (e = readdir(all)) != NULL; n++) {
    struct dirent **more = realloc(names, (size_t)(n + 1) * sizeof *names);
    struct dirent *name = malloc(sizeof *name);
    if (more == NULL || name == NULL) abort();
    *name = *e;
    names = more;
    int at = n;
    for (; at > 0; at--) {
      const struct dirent *a = names[at - 1], *b = name;
      if (compare(&a, &b) <= 0) break;
      names[at] = names[at - 1];
    }
    names[at] = name;
  }
  (void)closedir(all);
  *list = names;
  return n;
}

#undef getaddrinfo
void *dlsym(void *library, const char *name) {
  (void)library;
  return strcmp(name, "getaddrinfo") == 0 ? (void *)(intptr_t)getaddrinfo
                                          : NULL;
}

/* ---- handles ------------------------------------------------------------- */

static int handles_count(void) {
  enum { HANDLES = 1024 };
  int n = 0;
  for (uintptr_t h = 4; h < 4 * HANDLES; h += 4) {
    DWORD flags;
    n += GetHandleInformation((HANDLE)h, &flags); /* NOLINT */
  }
  return n;
}

/* A few more than the first time are the same: wine opens one for a lock that
 * threads have to wait for, and Windows some for what is used first. A leak in
 * each case is more after some cases. */
int test_windows_handles(void) {
  enum { FEW = 5 };
  static int first, last;
  if (first == 0) first = last = handles_count();
  if (left) {
    left = false;
    first = handles_count();
    return last;
  }
  int n = handles_count();
  return last = n >= first && n <= first + FEW ? first : n;
}
