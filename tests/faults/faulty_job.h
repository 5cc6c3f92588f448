/* Jobs whose ranks are processes, in one or all of which calls of the C library
 * fail. Each rank starts with gloo_init, allocates, runs 24 collectives, checks
 * their results, leaves, and reports what it left behind. */
#ifndef TESTS_FAULTS_FAULTY_JOB_H
#define TESTS_FAULTS_FAULTY_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "faults/failing_calls.h"
#include "gloo_c/gloo_c.h"

enum { FAULTY_RANKS = 3, FAULTY_ALL = -1 };

typedef struct faulty_plan {
  const char *transport;
  int64_t timeout_ns;
  int rank; /* rank with the fault, or FAULTY_ALL */
  failing_call call;
  unsigned long n;          /* the n-th `call` fails; 0: none */
  size_t longest_fallocate; /* 0: no limit */
  bool interrupt_often;
} faulty_plan;

/* Report of a rank. */
typedef struct faulty_report {
  bool ended; /* the fields below are valid */
  gloo_status status;
  int named; /* error.rank */
  char message[400];
  char where[32];     /* the call that failed */
  bool wrong;         /* a result was wrong */
  unsigned long made; /* number of calls that could have failed */
  unsigned long interrupted;
  int descriptors_left, threads_left;
  bool leaked; /* the sanitizer reports a memory leak */
  int64_t took_ns;
} faulty_report;

typedef struct faulty_job {
  faulty_plan plan;
  pid_t pids[FAULTY_RANKS]; /* 0: ended, with status `exits` */
  int exits[FAULTY_RANKS];
  bool killed; /* a rank was killed at the deadline */
  int64_t deadline_ns;
  FILE *logs[FAULTY_RANKS];
  faulty_report *reports; /* memory shared with the ranks */
} faulty_job;

/* Allocates a job. Jobs that run at the same time need one each. */
void faulty_job_make(faulty_job *job);
void faulty_job_free(faulty_job *job);

void faulty_job_begin(faulty_job *job, const faulty_plan *plan);

/* Returns true if all ranks have ended. Kills a rank that exceeds the
 * deadline. */
bool faulty_job_has_ended(faulty_job *job);
void faulty_job_wait(faulty_job *job);

/* Returns true if no rank crashed, hung, had a wrong result or left anything
 * behind. Prints violations. */
bool faulty_job_is_clean(const faulty_job *job);

/* Returns true if all ranks had right results. */
bool faulty_job_is_right(const faulty_job *job);

/* Prints the reports of the ranks as TAP comments. */
void faulty_job_tell(const faulty_job *job);

#endif
