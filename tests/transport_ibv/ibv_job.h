/* Jobs in a process of their own, whose ranks are threads that talk through the
 * stand-in for libibverbs: each rank opens a device, passes messages on and
 * reduces, out of memory of malloc and of gloo_alloc, and leaves. */
#ifndef TESTS_TRANSPORT_IBV_IBV_JOB_H
#define TESTS_TRANSPORT_IBV_IBV_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "gloo_c/gloo_c.h"

enum { IBV_RANKS_MAX = 3, IBV_FAIL_BYTES = 80 };

typedef struct ibv_plan {
  int ranks;
  char fail[IBV_FAIL_BYTES]; /* STANDIN_FAIL; "": nothing does */
  const char *count_file;    /* STANDIN_COUNT; NULL: none */
} ibv_plan;

/* What a rank says of itself. */
typedef struct ibv_report {
  bool ended;
  gloo_status status;
  char where[40], message[512];
  bool wrong;                      /* a result was */
  bool silent;                     /* it is TCP, and why is not said */
  int by_rdma, by_tcp;             /* pairs */
  char why[GLOO_QUERY_TEXT_BYTES]; /* of one by TCP */
} ibv_report;

/* Of the process. */
typedef struct ibv_shared {
  ibv_report ranks[IBV_RANKS_MAX];
  int descriptors_left, objects_left;
  bool ended;
} ibv_shared;

typedef struct ibv_job {
  ibv_plan plan;
  pid_t pid;  /* 0: none is under way */
  int exited; /* as waitpid says */
  FILE *log;
  ibv_shared *shared;
} ibv_job;

void ibv_job_make(ibv_job *job);
void ibv_job_free(ibv_job *job);
void ibv_job_begin(ibv_job *job, const ibv_plan *plan);
bool ibv_job_has_ended(ibv_job *job);

/* NULL, or what must not be: a crash, a hang, wrong results, something left
 * over, an error that says nothing. */
const char *ibv_job_fault(const ibv_job *job);
/* All ranks had right results. */
bool ibv_job_is_right(const ibv_job *job);
/* What the ranks said, as comments of TAP. */
void ibv_job_tell(const ibv_job *job);

#endif
