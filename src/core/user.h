/* User ids, as the kernel maps them into this process's user namespace.
 *
 * A user that the namespace does not map appears as the overflow user id (65534
 * unless configured otherwise). That id may therefore stand for any unmapped
 * user of the host, and a process with it never counts as the caller's own. In
 * a namespace that maps every id, as on a host without containers, 65534 is an
 * ordinary user. */
#ifndef GLI_CORE_USER_H
#define GLI_CORE_USER_H

#include <stdbool.h>
#include <stdint.h>

#define GLI_USER_NONE UINT32_MAX /* no user: (uid_t)-1 */

typedef struct gli_user {
  uint32_t id; /* user of this process; GLI_USER_NONE if the system shows it as
                  the overflow user */
  uint32_t overflow; /* overflow user; GLI_USER_NONE if all users are mapped */
} gli_user;

/* Returns the user of this process. Reads /proc on Linux; an unreadable map
 * counts as a namespace that does not map every user. */
gli_user gli_user_here(void);

/* Returns true if `user`, the system's id for the other end of a socket, is
 * certainly the user of this process, or root. */
bool gli_user_is_own(const gli_user *here, uint32_t user);

#endif
