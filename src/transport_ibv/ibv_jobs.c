#include "transport_ibv/ibv_jobs.h"

#include "core/fork.h"
#include "core/signals.h"
#include "transport_ibv/ibv.h"

/* Peers that cannot be reached take a thread for a second each. */
enum { THREADS_MAX = 8 };

static atomic_bool once;
static bool usable;
static uv_mutex_t lock;

static void jobs_init(void) {
  static gli_fork_guard guard;
  if (uv_mutex_init(&lock) != 0) return;
  usable = gli_fork_guard_begin(&guard, GLI_FORK_MEMORY, &lock, NULL);
}

bool gli_ibv_lock_init(void) {
  gli_once(&once, jobs_init);
  return usable;
}

void gli_ibv_lock(void) {
  uv_mutex_lock(&lock);
}

void gli_ibv_unlock(void) {
  uv_mutex_unlock(&lock);
}

/* Returns the link to the first job in that state; it links NULL if none is. */
static gli_ibv_job **jobs_find(gli_ibv *t, gli_ibv_job_state state) {
  gli_ibv_job **at = &t->jobs.first;
  while (*at != NULL && (*at)->state != state) at = &(*at)->next;
  return at;
}

/* Has the next poll take up what is done. The lock protects TCP from its end. */
static void jobs_tell(gli_ibv *t) {
  atomic_store(&t->needs_poll, true);
  if (!t->jobs.stopped) t->tcp->ops->wake(t->tcp);
}

static void jobs_drop_queued(gli_ibv *t, const char *lacks, int code) {
  gli_ibv_job *job;
  while ((job = *jobs_find(t, GLI_IBV_JOB_QUEUED)) != NULL) {
    job->state = GLI_IBV_JOB_DONE;
    job->lacks = lacks;
    job->code = code;
  }
}

static void *jobs_main(void *argument) {
  gli_ibv *t = argument;
  gli_ibv_job *job;
  gli_ibv_lock();
  while ((job = *jobs_find(t, GLI_IBV_JOB_QUEUED)) != NULL) {
    job->state = GLI_IBV_JOB_RUNS;
    gli_ibv_unlock();
    job->run(job);
    gli_ibv_lock();
    job->state = GLI_IBV_JOB_DONE;
    jobs_tell(t);
  }
  gli_ibv_jobs_heir *heir = --t->jobs.threads == 0 ? t->jobs.heir : NULL;
  gli_ibv_unlock();
  if (heir != NULL) heir(t);
  return NULL;
}

void gli_ibv_job_begin(gli_ibv *t, gli_ibv_job *job) {
  gli_ibv_lock();
  job->state = GLI_IBV_JOB_QUEUED;
  job->lacks = NULL;
  job->code = 0;
  job->next = NULL;
  gli_ibv_job **last = &t->jobs.first;
  while (*last != NULL) last = &(*last)->next;
  *last = job;
  bool more = t->jobs.threads < THREADS_MAX;
  if (more) t->jobs.threads++;
  gli_ibv_unlock();
  int code = more ? gli_thread_start(jobs_main, t) : 0;
  if (code == 0) return;
  gli_ibv_lock();
  if (--t->jobs.threads == 0) {
    jobs_drop_queued(t, "a thread", code);
    jobs_tell(t);
  }
  gli_ibv_unlock();
}

bool gli_ibv_job_cancel(gli_ibv *t, gli_ibv_job *job) {
  gli_ibv_lock();
  bool queued = job->state == GLI_IBV_JOB_QUEUED;
  if (queued) {
    gli_ibv_job **at = &t->jobs.first;
    while (*at != job) at = &(*at)->next;
    *at = job->next;
  }
  gli_ibv_unlock();
  return queued;
}

int gli_ibv_jobs_take(gli_ibv *t) {
  for (int n = 0;; n++) {
    gli_ibv_lock();
    gli_ibv_job **at = jobs_find(t, GLI_IBV_JOB_DONE), *job = *at;
    if (job != NULL) *at = job->next;
    gli_ibv_unlock();
    if (job == NULL) return n;
    job->end(job);
  }
}

void gli_ibv_jobs_stop(gli_ibv *t) {
  gli_ibv_lock();
  t->jobs.stopped = true;
  jobs_drop_queued(t, "", 0);
  gli_ibv_unlock();
}

bool gli_ibv_jobs_run(gli_ibv *t) {
  gli_ibv_lock();
  bool run = t->jobs.threads > 0;
  gli_ibv_unlock();
  return run;
}

bool gli_ibv_jobs_leave(gli_ibv *t, gli_ibv_jobs_heir *heir) {
  gli_ibv_lock();
  bool run = t->jobs.threads > 0;
  if (run) t->jobs.heir = heir;
  gli_ibv_unlock();
  return run;
}
