/* Jobs in a separate process, whose ranks are threads that communicate through
 * the stand-in for libibverbs: each rank opens a device, passes messages on and
 * reduces, with memory from malloc and from gloo_alloc, and leaves. */
#ifndef TESTS_TRANSPORT_IBV_IBV_JOB_H
#define TESTS_TRANSPORT_IBV_IBV_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "gloo_c/gloo_c.h"

enum { IBV_RANKS_MAX = 3, IBV_FAIL_BYTES = 80, IBV_SETTINGS_MAX = 6 };

typedef struct ibv_plan {
  int ranks;
  char fail[IBV_FAIL_BYTES]; /* STANDIN_FAIL; "": no fault */
  const char *count_file;    /* STANDIN_COUNT; NULL: none */
  int64_t timeout_ns;        /* the limit of operations; 0: short */
  /* More of the environment, "NAME=VALUE"; up to the first NULL. */
  const char *settings[IBV_SETTINGS_MAX + 1];
} ibv_plan;

/* The report of one rank. */
typedef struct ibv_report {
  bool ended;
  gloo_status status;
  char where[40], message[512];
  bool wrong;                      /* a result was wrong */
  bool silent;                     /* TCP was chosen without a reason */
  int by_rdma, by_tcp;             /* number of pairs */
  char why[GLOO_QUERY_TEXT_BYTES]; /* the reason of one pair by TCP */
} ibv_report;

/* Shared with the process. */
typedef struct ibv_shared {
  ibv_report ranks[IBV_RANKS_MAX];
  int descriptors_left, objects_left;
  bool ended;
} ibv_shared;

typedef struct ibv_job {
  ibv_plan plan;
  pid_t pid;  /* 0: no process runs */
  int exited; /* as returned by waitpid */
  FILE *log;
  ibv_shared *shared;
} ibv_job;

void ibv_job_make(ibv_job *job);
void ibv_job_free(ibv_job *job);
void ibv_job_begin(ibv_job *job, const ibv_plan *plan);
bool ibv_job_has_ended(ibv_job *job);

/* Returns NULL, or a description of the fault: a crash, a hang, wrong results,
 * leaked objects, or an error without text. */
const char *ibv_job_fault(const ibv_job *job);
/* Returns true if all ranks had correct results. */
bool ibv_job_is_right(const ibv_job *job);
/* Prints the reports of the ranks as TAP comments. */
void ibv_job_tell(const ibv_job *job);

#endif
