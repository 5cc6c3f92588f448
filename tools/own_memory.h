#ifndef GLI_TOOLS_OWN_MEMORY_H
#define GLI_TOOLS_OWN_MEMORY_H

/* KiB that this process has in memory, without what came from files, and of
 * what several map its share. 0 where the system does not tell (Linux does). */
unsigned gli_own_memory_kib(void);

#endif
