/* Linux: the CPU time that control groups leave to this process. */
#ifndef GLI_CORE_CPU_QUOTA_H
#define GLI_CORE_CPU_QUOTA_H

/* Whole cores, rounded up, of the tightest limit of the groups (version 1 and
 * 2) that this process is in; 0 when there is none. `root` is the directory in
 * which proc/self/cgroup and sys/fs/cgroup lie, "" for the real ones. What
 * cannot be read or understood is no limit. Any thread. */
unsigned gli_cpu_quota(const char *root);

#endif
