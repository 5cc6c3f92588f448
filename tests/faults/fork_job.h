/* A job whose ranks fork: processes, or on inproc the threads of one. A rank
 * that finds something wrong says so and ends its process. */
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
  bool threads; /* the ranks are */
  const char *transport, *directory;
  gloo_device *device;
  gloo_store *store;
  gloo_context *context;
  int rounds;
} rank;

typedef void (*scene)(rank *r);

/* Of a pipe that is open as long as the job runs. */
extern int job_over[2];

/* Returns how many processes did not end well. */
int job_run(const char *transport, scene body);

/* Another context on the rank's device. */
gloo_context *job_meet(rank *r, const char *name);
/* Collectives, whose results are checked. */
void job_work(rank *r, gloo_context *context);

/* Fork; run `body` in the child and _exit. Returns its process. */
pid_t job_fork(rank *r, scene body);
/* It ended, and well. */
void job_join(pid_t child);

int job_descriptors(void);
/* How many descriptors the epoll sets of this process watch. */
int job_watched(void);
/* And how many of these have been closed here. */
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
