/* A job whose ranks fork. Ranks are processes, or on inproc the threads of one.
 * A rank that fails a check prints it and ends its process. */
#ifndef TESTS_FAULTS_FORK_JOB_H
#define TESTS_FAULTS_FORK_JOB_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "gloo_c/gloo_c.h"

enum { RANKS = 3 };

typedef struct rank {
  int rank;
  bool threads; /* ranks are threads */
  const char *transport, *directory;
  gloo_device *device;
  gloo_store *store;
  gloo_context *context;
  int rounds;
} rank;

typedef void (*scene)(rank *r);

/* A pipe that stays open while the job runs. */
extern int job_over[2];

/* Returns the number of processes that failed. */
int job_run(const char *transport, scene body);

/* Creates another context on the rank's device. */
gloo_context *job_meet(rank *r, const char *name);
/* Runs collectives and checks their results. */
void job_work(rank *r, gloo_context *context);

/* Forks; the child runs `body` and calls _exit(). Returns its pid. */
pid_t job_fork(rank *r, scene body);
/* Fails unless the child exits with 0. */
void job_join(pid_t child);

int job_descriptors(void);
/* Returns the number of descriptors in the epoll sets of this process. */
int job_watched(void);
/* Returns the number of these that are closed in this process. */
int job_stale(void);

#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "# [%ld] %s:%d: %s\n", (long)getpid(), __FILE__, \
              __LINE__, #condition);                                   \
      _exit(1);                                                        \
    }                                                                  \
  } while (0)
#define OK(call)                                                           \
  do {                                                                     \
    gloo_status status_ = (call);                                          \
    if (status_ != GLOO_OK) {                                              \
      fprintf(stderr, "# [%ld] %s:%d: %s: %s\n", (long)getpid(), __FILE__, \
              __LINE__, #call, gloo_status_string(status_));               \
      _exit(1);                                                            \
    }                                                                      \
  } while (0)

#endif
