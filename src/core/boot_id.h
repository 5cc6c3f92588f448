/* Which running system this is. */
#ifndef GLI_CORE_BOOT_ID_H
#define GLI_CORE_BOOT_ID_H

#include <stdint.h>

enum { GLI_BOOT_ID_BYTES = 36 };

/* A text that changes with every boot, so that clones of a machine differ. 0,
 * or errno: ENOSYS where the system has none. */
int gli_boot_id_read(uint8_t id[GLI_BOOT_ID_BYTES]);

/* A number for it; where there is none, for the name of the host. */
uint64_t gli_boot_id_hash(void);

#endif
