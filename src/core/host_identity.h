/* Identity of the running system and the network namespace: a text, and hashes
 * that address records compare. */
#ifndef GLI_CORE_HOST_IDENTITY_H
#define GLI_CORE_HOST_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits: what hashes begin with, and how bytes are added. */
#define GLI_MIX_START UINT64_C(0xcbf29ce484222325)
uint64_t gli_mix_bytes(uint64_t hash, const void *data, size_t bytes);

uint64_t gli_mix_host_name(uint64_t hash);
/* Mixes an identity into `hash` that is new with every boot, so that machines
 * of one name, and clones of one machine, differ. Returns false if the system
 * has none. */
bool gli_mix_boot(uint64_t *hash);
/* The network namespace, where there are such. */
uint64_t gli_mix_network(uint64_t hash);

/* Where the addresses of this process's network mean the same: the running
 * system (its name, where it cannot be told) and the network namespace. */
uint64_t gli_host_place(void);

enum { GLI_BOOT_ID_BYTES = 36 };

/* A text that changes with every boot, so that clones of a machine differ. 0,
 * or errno: ENOSYS where the system has none. */
int gli_boot_id_read(uint8_t id[GLI_BOOT_ID_BYTES]);

/* Returns a number for the boot id, or for the host name if no boot id exists.
 */
uint64_t gli_boot_id_hash(void);

#endif
