/* How much memory may still be taken. */
#ifndef GLI_CORE_MEMORY_LEFT_H
#define GLI_CORE_MEMORY_LEFT_H

#include <stdint.h>

/* Bytes that this machine has and, on Linux, the control groups of this process
 * allow, beyond what is in use; what only caches files counts as free.
 * UINT64_MAX when nothing is known. It reads a few files of the kernel, and
 * others may take the memory at any moment: this is to stay well clear of the
 * limit, at which the kernel kills instead of failing. */
uint64_t gli_memory_left(void);

#endif
