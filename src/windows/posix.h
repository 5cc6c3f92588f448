/* The part of POSIX that the library uses, for Windows.
 *
 * meson includes this header first in every source, and lets the headers that
 * POSIX has and Windows lacks (poll.h, sys/socket.h, ...) include it. So
 * sources are the same on all systems, and what Windows cannot do (fork,
 * signals, Unix sockets) has files of its own, which meson chooses
 * (docs/adr/0079).
 *
 * A descriptor is an int: a file of the C library, or a handle with a mark.
 * Handles are multiples of four, of far less than 2^28. Functions fail with -1
 * and errno, as in POSIX; paths, names and variables are UTF-8. */
#ifndef GLI_WINDOWS_POSIX_H
#define GLI_WINDOWS_POSIX_H

/* The headers of Winsock come first, in this order. winnt.h includes the
 * intrinsics of all processors, most of the compiler's work for a source: the
 * guard of gcc's header keeps them out. */
#define _X86INTRIN_H_INCLUDED
#include <winsock2.h>
#include <ws2tcpip.h>

#undef _X86INTRIN_H_INCLUDED

#include <afunix.h>
#include <errno.h>
#include <fcntl.h>
#include <ifdef.h>
#include <io.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

/* Macros of Windows that are names of ours, and the check of formats. */
#undef TEXT
#undef interface
#undef near
#undef far
#undef small
#define __printf__ __gnu_printf__
#undef isfinite
#undef isinf
#undef isnan
#undef signbit
#define isfinite(x) __builtin_isfinite(x)
#define isinf(x) __builtin_isinf(x)
#define isnan(x) __builtin_isnan(x)
#define signbit(x) __builtin_signbit(x)

enum {
  GLI_MARK_SOCKET = 0x40000000,
  GLI_MARK_GROUP = 0x20000000, /* of epoll */
  GLI_MARK_FOLDER = 0x10000000,
  GLI_MARK_SECTION = 0x30000000, /* memory that processes share */
  GLI_MARKS = 0x70000000
};

/* Returns a descriptor for a socket, or -1 with errno if it is none, or cannot
 * be one. Takes the socket. */
int gli_windows_keep(SOCKET socket);
/* Returns the socket, or INVALID_SOCKET with errno ENOTSOCK. */
SOCKET gli_windows_socket(int fd);
/* Returns a descriptor for a section, as gli_windows_keep does for a socket. */
int gli_windows_keep_section(HANDLE section);
/* Returns the section, or NULL. */
HANDLE gli_windows_section(int fd);

/* Translates errors of Windows and Winsock to errno. */
int gli_windows_errno(DWORD code);
/* Sets errno from the last error of this thread, and returns -1. */
int gli_windows_fail(void);

typedef uint32_t uid_t, gid_t;

/* ---- text ---------------------------------------------------------------- */

/* Returns UTF-16 or UTF-8, which the caller frees, or NULL with errno. */
wchar_t *gli_windows_wide(const char *text);
char *gli_windows_narrow(const wchar_t *text);

const char *gli_windows_strerror(int code);
int gli_windows_uv_code(int code);
#define strerror gli_windows_strerror
/* libuv's own translates errors of Windows, and here there is errno. */
#define uv_translate_sys_error gli_windows_uv_code

/* ---- sockets ------------------------------------------------------------- */

struct iovec {
  void *iov_base;
  size_t iov_len;
};

typedef unsigned short sa_family_t;
typedef size_t gli_windows_socklen;
#define socklen_t gli_windows_socklen

struct msghdr {
  struct iovec *msg_iov;
  size_t msg_iovlen;
};

int gli_windows_socket_open(int family, int type, int protocol);
int gli_windows_accept(int fd, struct sockaddr *address, socklen_t *bytes);
int gli_windows_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int gli_windows_listen(int fd, int backlog);
int gli_windows_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int gli_windows_shutdown(int fd, int how);
int gli_windows_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int gli_windows_getpeername(int fd, struct sockaddr *address, socklen_t *bytes);
/* SO_REUSEADDR, which lets others take a port on Windows, has no effect: the
 * ports of connections that have ended can be bound without it. */
int gli_windows_setsockopt(int fd, int level, int option, const void *value,
                           socklen_t bytes);
int gli_windows_getsockopt(int fd, int level, int option, void *value,
                           socklen_t *bytes);
ssize_t gli_windows_send(int fd, const void *data, size_t bytes, int flags);
ssize_t gli_windows_recv(int fd, void *data, size_t bytes, int flags);
ssize_t gli_windows_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t gli_windows_recvmsg(int fd, struct msghdr *message, int flags);
/* A pair of connected sockets, so that a pipe can be polled. */
int gli_windows_socketpair(int family, int type, int protocol, int fds[2]);
int gli_windows_pipe(int fds[2]);
int gli_windows_gethostname(char *name, size_t room);
int gli_windows_getaddrinfo(const char *host, const char *port,
                            const struct addrinfo *hints,
                            struct addrinfo **list);

#define socket gli_windows_socket_open
#define accept gli_windows_accept
#define bind gli_windows_bind
#define listen gli_windows_listen
#define connect gli_windows_connect
#define shutdown gli_windows_shutdown
#define getsockname gli_windows_getsockname
#define getpeername gli_windows_getpeername
#define setsockopt gli_windows_setsockopt
#define getsockopt gli_windows_getsockopt
#define send gli_windows_send
#define recv gli_windows_recv
#define sendmsg gli_windows_sendmsg
#define recvmsg gli_windows_recvmsg
#define socketpair gli_windows_socketpair
#define pipe gli_windows_pipe
#define gethostname gli_windows_gethostname
#undef getaddrinfo
#define getaddrinfo gli_windows_getaddrinfo
/* Sockets never block. */
#define MSG_DONTWAIT 0
#define SHUT_RD SD_RECEIVE
#define SHUT_WR SD_SEND
#define SHUT_RDWR SD_BOTH
/* Windows 10, version 1709, has these options. */
#if !defined(TCP_KEEPIDLE)
#define TCP_KEEPIDLE 3
#define TCP_KEEPCNT 16
#define TCP_KEEPINTVL 17
#endif
#define EAI_SYSTEM (-1) /* no result of getaddrinfo on Windows */

/* ---- readiness ----------------------------------------------------------- */

typedef unsigned long nfds_t;

struct gli_windows_pollfd {
  int fd;
  short events, revents;
};

/* Descriptors are sockets and groups. A change of a group during the call ends
 * it with EINTR. */
int gli_windows_poll(struct gli_windows_pollfd *fds, nfds_t n, int timeout_ms);
#define pollfd gli_windows_pollfd
#define poll gli_windows_poll

typedef union epoll_data {
  void *ptr;
} epoll_data_t;

struct epoll_event {
  uint32_t events;
  epoll_data_t data;
};

enum { EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL = 2, EPOLL_CTL_MOD = 3 };
enum { EPOLLIN = 1, EPOLLOUT = 4, EPOLLERR = 8, EPOLLHUP = 16 };
#define EPOLL_CLOEXEC 0

/* A group of sockets, level-triggered. Only `timeout_ms` 0 is implemented. */
int epoll_create1(int flags);
int epoll_ctl(int fd, int operation, int member_fd, struct epoll_event *event);
int epoll_wait(int group, struct epoll_event *events, int room, int timeout_ms);
void gli_windows_group_close(int group);

/* ---- descriptors and files ----------------------------------------------- */

#undef EWOULDBLOCK
#define EWOULDBLOCK EAGAIN
#define ESTALE 10116 /* no error of Windows */
#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0x100000
#define O_NOFOLLOW 0x200000
#define O_DIRECTORY 0x400000
#define O_NOCTTY 0
#define S_IFLNK 0xA000
#define S_ISLNK(mode) (((mode)&_S_IFMT) == S_IFLNK)
#define FD_CLOEXEC 1
#define F_GETFD 1
#define F_GETFL 3
#define F_SETFL 4
#define F_SETFD 2
#define F_DUPFD_CLOEXEC 1030
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 1
enum { LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4, LOCK_UN = 8 };

#undef stat
#undef fstat
/* The owner is a number of the user (geteuid), or 0 for administrators and the
 * system. The mode has 0600, and as rights of others what the access list gives
 * to any other user; directories have 0100, too. */
struct gli_windows_stat {
  uint64_t st_dev, st_ino;
  unsigned st_mode;
  uint32_t st_nlink;
  uid_t st_uid;
  int64_t st_size;
  time_t st_mtime;
};

int gli_windows_close(int fd);
ssize_t gli_windows_read(int fd, void *data, size_t bytes);
ssize_t gli_windows_write(int fd, const void *data, size_t bytes);
/* Sets what sockets have: F_SETFD (never inherited), F_SETFL (O_NONBLOCK). */
int gli_windows_fcntl(int fd, int command, ...);
/* Open files can be renamed and removed. A mode without rights of others makes
 * files and directories that only this user and the system have rights to. */
int gli_windows_open(const char *path, int flags, ...);
int openat(int folder, const char *name, int flags, ...);
FILE *gli_windows_fopen(const char *path, const char *mode);
int gli_windows_stat(const char *path, struct gli_windows_stat *info);
int gli_windows_lstat(const char *path, struct gli_windows_stat *info);
int gli_windows_fstat(int fd, struct gli_windows_stat *info);
int fstatat(int folder, const char *name, struct gli_windows_stat *info,
            int flags);
int gli_windows_unlink(const char *path);
int unlinkat(int folder, const char *name, int flags);
int gli_windows_rename(const char *from, const char *to);
int renameat(int from_folder, const char *from, int to_folder, const char *to);
int linkat(int from_folder, const char *from, int to_folder, const char *to,
           int flags);
int gli_windows_mkdir(const char *path, int mode);
int mkdirat(int folder, const char *name, int mode);
int gli_windows_access(const char *path, int mode);
/* Locks a file against its other openings, by a byte beyond its end. */
int flock(int fd, int operation);
/* As in POSIX, with NULL for `room`. */
char *realpath(const char *path, char *room);

struct dirent {
  char d_name[3 * 256]; /* UTF-8 of a name of UTF-16 */
};
typedef struct gli_windows_listing DIR;
DIR *opendir(const char *path);
DIR *fdopendir(int fd);
struct dirent *readdir(DIR *list);
void rewinddir(DIR *list);
int closedir(DIR *list);

#define close gli_windows_close
#define read gli_windows_read
#define write gli_windows_write
#define fcntl gli_windows_fcntl
#define open gli_windows_open
#define fopen gli_windows_fopen
#define stat gli_windows_stat
#define lstat gli_windows_lstat
#define fstat gli_windows_fstat
#define unlink gli_windows_unlink
#define rename gli_windows_rename
#define mkdir gli_windows_mkdir
#define access gli_windows_access

/* For src/windows. Returns the path of a name in a folder (AT_FDCWD), for
 * free(), or NULL with errno. */
wchar_t *gli_windows_path(int folder, const char *name);
/* Returns the handle of a folder or of a file of the C library. */
HANDLE gli_windows_handle(int fd);
/* Gets what to create a file or directory of this mode with: NULL where others
 * have rights. */
bool gli_windows_private(int mode, SECURITY_ATTRIBUTES **only);
bool gli_windows_rights(HANDLE file, uid_t *owner, unsigned *mode);

/* ---- threads, as libuv has them, and time --------------------------------- */

typedef uv_mutex_t pthread_mutex_t;
typedef uv_cond_t pthread_cond_t;
typedef HANDLE pthread_t;
typedef int pthread_mutexattr_t, pthread_condattr_t, pthread_attr_t;
/* The initial value of a critical section without debug information. */
#define PTHREAD_MUTEX_INITIALIZER \
  { (PRTL_CRITICAL_SECTION_DEBUG)(intptr_t) - 1, -1, 0, NULL, NULL, 0 }
#define PTHREAD_COND_INITIALIZER \
  { .cond_var = CONDITION_VARIABLE_INIT }
enum { PTHREAD_CREATE_JOINABLE, PTHREAD_CREATE_DETACHED };

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *argument);
int pthread_join(pthread_t thread, void **result);
int pthread_detach(pthread_t thread);
int pthread_mutex_trylock(pthread_mutex_t *mutex);
/* Conditions wait by the monotonic clock, whatever their attributes are. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until);
int gli_windows_clock(clockid_t clock, struct timespec *now);
/* Yields for less than 0.1 ms; else sleeps whole milliseconds. */
int gli_windows_nanosleep(const struct timespec *time, struct timespec *left);
#define clock_gettime gli_windows_clock
#define nanosleep gli_windows_nanosleep

static inline int pthread_attr_init(pthread_attr_t *attributes) {
  *attributes = PTHREAD_CREATE_JOINABLE;
  return 0;
}
static inline int pthread_attr_setdetachstate(pthread_attr_t *a, int state) {
  *a = state;
  return 0;
}
static inline int pthread_attr_destroy(pthread_attr_t *attributes) {
  (void)attributes;
  return 0;
}
static inline int pthread_mutex_init(pthread_mutex_t *mutex,
                                     const pthread_mutexattr_t *attributes) {
  (void)attributes;
  return uv_mutex_init(mutex) == 0 ? 0 : ENOMEM;
}
static inline int pthread_mutex_destroy(pthread_mutex_t *mutex) {
  uv_mutex_destroy(mutex);
  return 0;
}
static inline int pthread_mutex_lock(pthread_mutex_t *mutex) {
  uv_mutex_lock(mutex);
  return 0;
}
static inline int pthread_mutex_unlock(pthread_mutex_t *mutex) {
  uv_mutex_unlock(mutex);
  return 0;
}
static inline int pthread_condattr_init(pthread_condattr_t *attributes) {
  *attributes = 0;
  return 0;
}
static inline int pthread_condattr_setclock(pthread_condattr_t *attributes,
                                            clockid_t clock) {
  *attributes = clock;
  return 0;
}
static inline int pthread_condattr_destroy(pthread_condattr_t *attributes) {
  (void)attributes;
  return 0;
}
static inline int pthread_cond_init(pthread_cond_t *condition,
                                    const pthread_condattr_t *attributes) {
  (void)attributes;
  return uv_cond_init(condition) == 0 ? 0 : ENOMEM;
}
static inline int pthread_cond_destroy(pthread_cond_t *condition) {
  uv_cond_destroy(condition);
  return 0;
}
static inline int pthread_cond_signal(pthread_cond_t *condition) {
  uv_cond_signal(condition);
  return 0;
}
static inline int pthread_cond_broadcast(pthread_cond_t *condition) {
  uv_cond_broadcast(condition);
  return 0;
}
static inline int pthread_cond_wait(pthread_cond_t *condition,
                                    pthread_mutex_t *mutex) {
  uv_cond_wait(condition, mutex);
  return 0;
}
/* Returns 0: there are no forks whose handlers to call. */
static inline int pthread_atfork(void (*before)(void), void (*parent)(void),
                                 void (*child)(void)) {
  (void)before;
  (void)parent;
  (void)child;
  return 0;
}
static inline int sched_yield(void) {
  (void)SwitchToThread();
  return 0;
}

/* ---- the process and its host -------------------------------------------- */

enum { _SC_PAGESIZE, _SC_NPROCESSORS_ONLN };
long sysconf(int name);
char *gli_windows_getenv(const char *name);
/* Variables when the program began. */
extern char **gli_windows_environment;
/* Returns a number of the user: 0 for the system, else a hash of the security
 * identifier. */
uid_t geteuid(void);
/* Returns true if the process runs as the user of this one. */
bool gli_windows_is_own_user(HANDLE process);
/* Returns true if this user owns the object. */
bool gli_windows_is_own_object(HANDLE object);
/* Fails with ENOSYS: Winsock does not tell the user at the other end. */
int getpeereid(int fd, uid_t *user, gid_t *group);
static inline uid_t getuid(void) {
  return geteuid();
}
/* No program runs with the rights of another group. */
static inline gid_t getgid(void) {
  return 0;
}
static inline gid_t getegid(void) {
  return 0;
}
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
#define getenv gli_windows_getenv
#undef environ
#define environ gli_windows_environment

typedef uint64_t rlim_t;
struct rlimit {
  rlim_t rlim_cur, rlim_max;
};
enum { RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_FSIZE };
/* Windows has no such limits: RLIM_INFINITY. */
#define RLIM_INFINITY UINT64_MAX
int getrlimit(int resource, struct rlimit *limit);

/* ---- interfaces of the network ------------------------------------------- */

enum { IFF_RUNNING = 0x40 };

struct ifaddrs {
  struct ifaddrs *ifa_next;
  char *ifa_name;
  unsigned ifa_flags; /* IFF_UP, IFF_RUNNING, IFF_LOOPBACK */
  struct sockaddr *ifa_addr, *ifa_netmask;
};

int getifaddrs(struct ifaddrs **list);
void freeifaddrs(struct ifaddrs *list);
/* As netioapi.h has them, which includes a third of Windows. */
#define IF_NAMESIZE IF_MAX_STRING_SIZE
ULONG WINAPI if_nametoindex(PCSTR name);
PCHAR WINAPI if_indextoname(ULONG index, PCHAR name);

/* ---- names that Windows takes, and sources have for their own ------------ */

#undef FAILED
/* Names for the configuration: Windows does not send these signals. */
enum { SIGUSR1 = 30, SIGUSR2 = 31 };
#define BOOL gli_own_BOOL
#define FLOAT gli_own_FLOAT
#define LONG gli_own_LONG
#define SHORT gli_own_SHORT
#define SIZE gli_own_SIZE
#define WORD gli_own_WORD
#define tell gli_own_tell

#endif
