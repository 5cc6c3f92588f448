/* Identity of the running system. */
#ifndef GLI_CORE_BOOT_ID_H
#define GLI_CORE_BOOT_ID_H

#include <stdint.h>

enum { GLI_BOOT_ID_BYTES = 36 };

/* A text that changes with every boot, so that clones of a machine differ. 0,
 * or errno: ENOSYS where the system has none. */
int gli_boot_id_read(uint8_t id[GLI_BOOT_ID_BYTES]);

/* Returns a number for the boot id, or for the host name if no boot id exists.
 */
uint64_t gli_boot_id_hash(void);

#endif
