/* The part of POSIX that tests use beyond src/windows/posix.h. meson includes
 * this header first in every test. A function that Windows lacks skips the test
 * case that calls it, and tells the reason. */
#ifndef TESTS_WINDOWS_LACKING_H
#define TESTS_WINDOWS_LACKING_H

#include "windows/posix.h"

/* Makes a directory or a link, of a path in UTF-8. */
char *mkdtemp(char *pattern);
int test_windows_rmdir(const char *path);
int symlink(const char *target, const char *path);
/* Gives others the rights of the mode's last digit; those of the group are
 * theirs, too. */
int test_windows_chmod(const char *path, int mode);
int test_windows_remove(const char *path);
int fchmod(int fd, int mode);
/* Finds Winsock's getaddrinfo, and nothing else. */
void *dlsym(void *library, const char *name);
/* Returns false: sockets have no files on Windows. */
#define S_ISSOCK(mode) ((void)(mode), false)
typedef uint64_t sigset_t;
char *strndup(const char *text, size_t most);
#define RTLD_NEXT NULL
#define MSG_NOSIGNAL 0
#define rmdir test_windows_rmdir
#define chmod test_windows_chmod
#define remove test_windows_remove

/* Visits a folder's files and folders, and it last. */
struct FTW {
  int level;
};
enum { FTW_DEPTH = 1, FTW_PHYS = 2 };
int nftw(const char *path,
         int (*visit)(const char *path, const struct stat *info, int type,
                      struct FTW *where),
         int most, int flags);

/* Does nothing: meson ends a program that hangs. */
unsigned alarm(unsigned seconds);

/* Each skips the case. */
pid_t fork(void);
int pause(void);
pid_t waitpid(pid_t process, int *status, int options);
int kill(pid_t process, int number);
int setuid(uid_t user);
int chown(const char *path, uid_t user, gid_t group);
int mkfifo(const char *path, int mode);
int setrlimit(int resource, const struct rlimit *limit);
typedef struct siginfo {
  void *si_addr;
} siginfo_t;
struct sigaction {
  void (*sa_handler)(int);
  void (*sa_sigaction)(int, siginfo_t *, void *);
  int sa_flags, sa_mask;
};
#define sigemptyset(set) (*(set) = 0)
enum { SA_SIGINFO = 4, SA_NODEFER = 64, SIGBUS = 10 };
int sigaction(int number, const struct sigaction *action,
              struct sigaction *old);
enum { WNOHANG = 1, SIGSTOP = 19, SIGCONT = 18 };
#define WIFEXITED(status) ((status) == 0)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) (!WIFEXITED(status))
#define WTERMSIG(status) (status)

/* Memory whose accesses fail until a handler of their signal allows them. */
void *mmap(void *at, size_t bytes, int access, int flags, int fd, int64_t from);
int mprotect(void *at, size_t bytes, int access);
int munmap(void *at, size_t bytes);
enum { PROT_NONE, PROT_READ, PROT_WRITE };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_ANONYMOUS = 32 };
#define MAP_FAILED NULL

/* Lists a folder's names, in the order of their bytes. */
int scandir(const char *path, struct dirent ***list,
            int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));
int alphasort(const struct dirent **a, const struct dirent **b);

/* Counts the handles of this process, by asking for each: Wine's
 * GetProcessHandleCount says 0. */
int test_windows_handles(void);

#endif
