/* Hashes of this process's host and network namespace. */
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

#endif
