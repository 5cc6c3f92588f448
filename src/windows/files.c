/* Descriptors of both kinds, and files by names in UTF-8. */
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

int gli_windows_close(int fd) {
  if (fd < 0 || (fd & GLI_MARKS) == 0) return _close(fd);
  if ((fd & GLI_MARKS) == GLI_MARK_GROUP) {
    gli_windows_group_close(fd);
    return 0;
  }
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

int gli_windows_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  int argument = command == F_GETFL ? 0 : va_arg(arguments, int);
  va_end(arguments);
  SOCKET s = gli_windows_socket(fd);
  if (s == INVALID_SOCKET) return -1;
  u_long on = (argument & O_NONBLOCK) != 0;
  if (command == F_GETFL || command == F_SETFD) return 0;
  if (command == F_SETFL && ioctlsocket(s, (long)FIONBIO, &on) == 0) return 0;
  errno =
      command == F_SETFL ? gli_windows_errno((DWORD)WSAGetLastError()) : EINVAL;
  return -1;
}

/* ---- files --------------------------------------------------------------- */

int gli_windows_open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  wchar_t *wide = gli_windows_wide(path);
  if (wide == NULL) return -1;
  int fd = _wopen(wide, (flags & ~O_NONBLOCK) | _O_BINARY | _O_NOINHERIT,
                  mode & (_S_IREAD | _S_IWRITE));
  free(wide);
  return fd;
}

/* Opens a file that no child inherits, in binary mode. */
FILE *gli_windows_fopen(const char *path, const char *mode) {
  wchar_t *wide = gli_windows_wide(path), how[8] = L"";
  size_t n = 0;
  for (; *mode != '\0' && n < 4; mode++)
    if (*mode != 'e' && *mode != 'b') how[n++] = (wchar_t)*mode;
  how[n++] = L'b';
  how[n++] = L'N';
  FILE *file = wide != NULL ? _wfopen(wide, how) : NULL;
  free(wide);
  return file;
}

static int files_result(bool done, wchar_t *wide) {
  int code = done ? 0 : gli_windows_fail();
  free(wide);
  return code;
}

int gli_windows_unlink(const char *path) {
  wchar_t *wide = gli_windows_wide(path);
  return wide != NULL ? files_result(DeleteFileW(wide), wide) : -1;
}

int gli_windows_rename(const char *from, const char *to) {
  wchar_t *wide = gli_windows_wide(from), *name = gli_windows_wide(to);
  if (wide == NULL || name == NULL) {
    free(wide);
    free(name);
    return -1;
  }
  int code =
      files_result(MoveFileExW(wide, name, MOVEFILE_REPLACE_EXISTING), wide);
  free(name);
  return code;
}

/* The directory inherits the access rights of its parent: `mode` has no
 * effect. */
int gli_windows_mkdir(const char *path, int mode) {
  (void)mode;
  wchar_t *wide = gli_windows_wide(path);
  return wide != NULL ? files_result(CreateDirectoryW(wide, NULL), wide) : -1;
}

char *realpath(const char *path, char *room) {
  (void)room;
  wchar_t *wide = gli_windows_wide(path);
  wchar_t *whole = wide != NULL ? _wfullpath(NULL, wide, 0) : NULL;
  char *text = whole != NULL ? gli_windows_narrow(whole) : NULL;
  free(whole);
  free(wide);
  return text;
}

int gli_windows_access(const char *path, int mode) {
  wchar_t *wide = gli_windows_wide(path);
  if (wide == NULL) return -1;
  int code = _waccess(wide, mode & ~X_OK);
  free(wide);
  return code;
}
