/* Memory that the process can still allocate, and kills for lack of it. */
#ifndef GLI_CORE_MEMORY_LEFT_H
#define GLI_CORE_MEMORY_LEFT_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the free bytes of this machine and, on Linux, of the control groups
 * of this process, whichever is less. Page cache counts as free. UINT64_MAX if
 * nothing is known. Reads a few kernel files, and other processes may allocate
 * memory at any moment: callers use it to stay well below the limit, at which
 * the kernel kills processes instead of failing allocations. */
uint64_t gli_memory_left(void);

/* Processes of this process's control group that the kernel has killed for lack
 * of memory. */
typedef struct gli_memory_kills {
  bool known;      /* false if the system does not count them */
  uint64_t kills;  /* so far */
  uint64_t limit;  /* least limit of the group and its ancestors, in bytes;
                      UINT64_MAX if there is none */
  char group[256]; /* directory of the group with that limit */
} gli_memory_kills;

/* `root` is that of gli_cpu_quota (cpu.h). */
gli_memory_kills gli_memory_kills_read(const char *root);

#endif
