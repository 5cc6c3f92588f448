#ifndef GLI_TOOLS_OWN_MEMORY_H
#define GLI_TOOLS_OWN_MEMORY_H

/* Returns the KiB of this process's memory, excluding file mappings, with a
 * proportional share of pages that several processes map. Returns 0 if the
 * system does not report it (Linux does). */
unsigned gli_own_memory_kib(void);

#endif
