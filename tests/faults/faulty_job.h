/* Jobs whose ranks are processes, in one of which (or all) calls of the C
 * library fail: each rank starts with gloo_init, allocates, runs 24 collectives
 * with results that are checked, leaves, and is then looked at. */
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
  int rank; /* the one with the fault, or FAULTY_ALL */
  failing_call call;
  unsigned long n;          /* of `call` fails; 0: none does */
  size_t longest_fallocate; /* 0: any is allowed */
  bool interrupt_often;
} faulty_plan;

/* What a rank says of itself. */
typedef struct faulty_report {
  bool ended; /* nothing below counts before */
  gloo_status status;
  int named; /* error.rank */
  char message[400];
  char where[32];     /* which call it was that failed */
  bool wrong;         /* a result was */
  unsigned long made; /* calls that could have failed */
  unsigned long interrupted;
  int descriptors_left, threads_left;
  bool leaked; /* memory, says the sanitizer */
  int64_t took_ns;
} faulty_report;

typedef struct faulty_job {
  faulty_plan plan;
  pid_t pids[FAULTY_RANKS]; /* 0: ended, `exits` says how */
  int exits[FAULTY_RANKS];
  bool killed; /* it had not ended by its deadline */
  int64_t deadline_ns;
  FILE *logs[FAULTY_RANKS];
  faulty_report *reports; /* memory that is shared with the ranks */
} faulty_job;

/* Room for a job; once per job that runs at the same time. */
void faulty_job_make(faulty_job *job);
void faulty_job_free(faulty_job *job);

void faulty_job_begin(faulty_job *job, const faulty_plan *plan);

/* Has it ended? One that has not by its deadline is killed. */
bool faulty_job_has_ended(faulty_job *job);
void faulty_job_wait(faulty_job *job);

/* No rank crashed, hung, had a wrong result or left anything behind. Says what
 * is not so. */
bool faulty_job_is_clean(const faulty_job *job);

/* All ranks had right results. */
bool faulty_job_is_right(const faulty_job *job);

/* What the ranks had to say, as comments of TAP. */
void faulty_job_tell(const faulty_job *job);

#endif
