/* Cores: how many there are for this process, and how to give one away. */
#ifndef GLI_CORE_CPU_H
#define GLI_CORE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Cores that this process may use at once: its affinity mask and, on Linux, the
 * CPU limit of its control group. At least 1. */
unsigned gli_cpu_effective(void);

/* Fills `mask` with these cores as bits, in the system's order; all zeros if
 * unknown. */
enum { GLI_CPU_MASK_BYTES = 128 };
void gli_cpu_mask(uint8_t mask[GLI_CPU_MASK_BYTES]);

/* Let another thread run on this core, if one is ready to. */
void gli_cpu_yield(void);

/* Sleep for a moment, some tens of microseconds. A thread that wakes up is put
 * on a core that is idle, if there is one. */
void gli_cpu_nap(void);

/* Yielding may not let processes of other sessions run, and no other rank may
 * be in this one's: Linux shares out the cores between sessions (autogroup) and
 * this process leads one. */
bool gli_cpu_yields_in_vain(void);

/* Tell the core that this is a spin loop. */
static inline void gli_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

/* CPU time that control groups leave to this process (cpu_quota.c, Linux):
 * whole cores, rounded up, of the tightest limit of the groups (version 1 and
 * 2) that this process is in; 0 when there is none. `root` is the directory in
 * which proc/self/cgroup and sys/fs/cgroup lie, "" for the real ones. What
 * cannot be read or understood is no limit. Any thread. */
unsigned gli_cpu_quota(const char *root);

#endif
