/* Identity of the running system and the network namespace: a text, and hashes
 * that address records compare. */
#ifndef GLI_CORE_HOST_IDENTITY_H
#define GLI_CORE_HOST_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FNV-1a with 64 bits: the initial value, and the function that adds bytes. */
#define GLI_MIX_START UINT64_C(0xcbf29ce484222325)
uint64_t gli_mix_bytes(uint64_t hash, const void *data, size_t bytes);

uint64_t gli_mix_host_name(uint64_t hash);
/* Mixes the boot id into `hash`. It is new with every boot, so that machines
 * with the same name, and clones of one machine, differ. Returns false if the
 * system has none. */
bool gli_mix_boot(uint64_t *hash);
/* Mixes the network namespace into `hash`, if the system has namespaces. */
uint64_t gli_mix_network(uint64_t hash);

/* Returns a hash of the host and network namespace, within which network
 * addresses have one meaning. The host name replaces a missing boot id. */
uint64_t gli_host_place(void);

enum { GLI_BOOT_ID_BYTES = 36 };

/* Reads the boot id, a text that changes with every boot, so that clones of a
 * machine differ. Returns 0 or errno; ENOSYS if the system has none. */
int gli_boot_id_read(uint8_t id[GLI_BOOT_ID_BYTES]);

/* Returns a hash of the boot id, or of the host name if no boot id exists. */
uint64_t gli_boot_id_hash(void);

#endif
