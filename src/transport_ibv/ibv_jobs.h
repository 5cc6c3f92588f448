/* Threads for slow calls of the device. To connect a queue pair the kernel asks
 * the network for the peer's address, and waits a second if nothing answers. To
 * register memory it locks all pages. Such calls are jobs of threads, which
 * exist while a device object has jobs. The next poll takes up the result.
 *
 * One lock of the process protects the jobs and the registrations (ibv_register.c)
 * of all device objects. A fork holds it. See docs/adr/0073. */
#ifndef GLI_TRANSPORT_IBV_IBV_JOBS_H
#define GLI_TRANSPORT_IBV_IBV_JOBS_H

#include <stdbool.h>

struct gli_ibv;

typedef enum gli_ibv_job_state {
  GLI_IBV_JOB_QUEUED,
  GLI_IBV_JOB_RUNS, /* a thread owns what the job works on */
  GLI_IBV_JOB_DONE
} gli_ibv_job_state;

typedef struct gli_ibv_job {
  struct gli_ibv_job *next;
  gli_ibv_job_state state;
  void (*run)(struct gli_ibv_job *job); /* by a thread, without locks */
  void (*end)(struct gli_ibv_job *job); /* by poll, or at the transport's end */
  void *owner;
  /* Result of `run`: NULL, or the failed part with its errno. */
  const char *lacks;
  int code;
} gli_ibv_job;

/* Frees a transport whose jobs outlast its close. */
typedef void gli_ibv_jobs_heir(struct gli_ibv *t);

typedef struct gli_ibv_jobs {
  gli_ibv_job *first; /* in order of their beginning */
  unsigned threads;
  bool stopped; /* no poll follows */
  gli_ibv_jobs_heir *heir;
} gli_ibv_jobs;

/* Returns false if out of memory. */
bool gli_ibv_lock_init(void);
void gli_ibv_lock(void);
void gli_ibv_unlock(void);

/* Begins a job whose `run`, `end` and `owner` are set. If no thread can be
 * started, the job fails. */
void gli_ibv_job_begin(struct gli_ibv *t, gli_ibv_job *job);
/* Withdraws a job. Returns false if it has run, or runs: its `end` follows. */
bool gli_ibv_job_cancel(struct gli_ibv *t, gli_ibv_job *job);
/* Calls `end` of all jobs that are done. Returns their number. */
int gli_ibv_jobs_take(struct gli_ibv *t);

/* End of a transport: drops queued jobs, and wakes no poll any more. */
void gli_ibv_jobs_stop(struct gli_ibv *t);
/* Returns true if threads run. */
bool gli_ibv_jobs_run(struct gli_ibv *t);
/* Leaves the transport to the last thread, which calls `heir`. Returns false if
 * no thread runs. */
bool gli_ibv_jobs_leave(struct gli_ibv *t, gli_ibv_jobs_heir *heir);

#endif
