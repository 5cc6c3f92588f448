/* Amount of memory that the process can still allocate. */
#ifndef GLI_CORE_MEMORY_LEFT_H
#define GLI_CORE_MEMORY_LEFT_H

#include <stdint.h>

/* Returns the free bytes of this machine and, on Linux, of the control groups
 * of this process, whichever is less. Page cache counts as free. UINT64_MAX if
 * nothing is known. Reads a few kernel files, and other processes may allocate
 * memory at any moment: callers use it to stay well below the limit, at which
 * the kernel kills processes instead of failing allocations. */
uint64_t gli_memory_left(void);

#endif
