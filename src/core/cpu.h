/* Number of usable CPU cores, and ways to give up a core. */
#ifndef GLI_CORE_CPU_H
#define GLI_CORE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of cores that this process may use at once, at least 1:
 * the smallest of the online cores, its affinity mask and, on Linux, the CPU
 * limit of its control group. */
unsigned gli_cpu_effective(void);

/* Fills `mask` with the affinity mask of this process, in the system's bit
 * order, or with zeros if it is unknown. */
enum { GLI_CPU_MASK_BYTES = 128 };
void gli_cpu_mask(uint8_t mask[GLI_CPU_MASK_BYTES]);

/* Lets another runnable thread use this core. */
void gli_cpu_yield(void);

/* Sleeps for some tens of microseconds. The scheduler places a thread that
 * wakes up on an idle core, if one exists. */
void gli_cpu_nap(void);

/* Returns true if yielding may not let other ranks run. Linux distributes cores
 * among sessions (autogroup), and this process leads a session, so the other
 * ranks may belong to different ones. */
bool gli_cpu_yield_is_ineffective(void);

/* Tells the core that this is a spin loop. */
static inline void gli_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

/* Returns the CPU time that control groups grant this process (control_group.c,
 * Linux), in whole cores, rounded up: the tightest limit of the groups (version
 * 1 and 2) of this process, or 0 if none is set. `root` is the directory that
 * holds proc/self/cgroup and sys/fs/cgroup, "" for the real ones. Unreadable or
 * malformed files count as no limit. Any thread. */
unsigned gli_cpu_quota(const char *root);

#endif
