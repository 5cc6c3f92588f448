/* Directories for the local sockets of one user. All processes of the user
 * search the same ones, in this order:
 *   $XDG_RUNTIME_DIR/gloo_c
 *   /run/user/UID/gloo_c
 *   $HOME/.cache/gloo_c
 *   /tmp/gloo_c-UID
 * TMPDIR is not among them: a launcher may set it for its ranks alone. */
#ifndef GLI_CORE_RUN_DIRECTORY_H
#define GLI_CORE_RUN_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

typedef enum gli_run_directory {
  GLI_RUN_DIRECTORY_XDG,
  GLI_RUN_DIRECTORY_USER,
  GLI_RUN_DIRECTORY_HOME, /* may be shared with other hosts */
  GLI_RUN_DIRECTORY_TMP,
  GLI_RUN_DIRECTORIES
} gli_run_directory;

/* Gets the path of a directory, which may not exist. Returns false if the
 * environment does not name it, or if it is longer than `room`. */
bool gli_run_directory_path(gli_run_directory which, char *path, size_t room);

/* Makes the directory with mode 0700 and, in the user's home, its parent as
 * well. Returns true if it was made or a file of that name exists, else false
 * with errno. */
bool gli_run_directory_make(gli_run_directory which, const char *path);

/* Returns true if the path is a directory (not a symbolic link) that belongs to
 * this user and that no other user may enter. */
bool gli_run_directory_is_private(const char *path);

/* Returns true if no other user except root can replace the file that the path
 * names: its parent belongs to this user or to root, and is writable by others
 * only if it is sticky. */
bool gli_run_directory_stays(const char *path);

/* ---- sockets ------------------------------------------------------------- */

/* The file of a socket is named KIND-...-pid4711.sock: three letters, and the
 * process that listens. Its name begins with "new" until that process listens. */

/* Maximum path of a Unix socket, with its end: the BSDs have room for 104. */
enum { GLI_RUN_SOCKET_BYTES = sizeof((struct sockaddr_un *)0)->sun_path };

/* Gets a directory for sockets in `path`, of GLI_RUN_SOCKET_BYTES; `create`
 * makes it. Returns false with errno if it does not exist, or another user can
 * enter or replace it. */
bool gli_run_socket_directory(gli_run_directory which, bool create, char *path);

/* Binds a socket to a path of this form, with mode 0600, and listens. Returns
 * false with errno, and leaves no file, on failure. */
bool gli_run_socket_listen(int fd, const char *path, int backlog);

/* Removes the sockets that killed processes of this user have left, from all
 * directories but that in the user's home. */
void gli_run_socket_sweep(void);

/* ---- paths --------------------------------------------------------------- */

enum { GLI_PATH_BYTES = 4096 };

/* Makes a path absolute, so that it stays valid if the process changes its
 * working directory. Returns false with errno if it does not fit, or the
 * working directory is unknown. */
bool gli_path_absolute(const char *path, char *absolute, size_t room);

#endif
