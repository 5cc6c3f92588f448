/* What the files of simulated jobs share. */
#ifndef TESTS_SIM_JOB_PARTS_H
#define TESTS_SIM_JOB_PARTS_H

#include "core/error.h"
#include "job.h"

typedef struct run {
  gloo_request *operation[2]; /* of a message to itself: send, receive */
  uint8_t *in, *out;          /* inside blocks with guards around */
  uint8_t *in_block, *out_block;
  bool started, done;
  gloo_status status;
} run;

typedef struct rank {
  gloo_device *device;   /* NULL: closed */
  gloo_context *context; /* NULL: destroyed */
  gloo_context *root;    /* of which it is made, where it is a group */
  bool forming;          /* it is not yet */
  bool leaves;           /* as soon as it has nothing to do any more */
  uint32_t number;
  int next; /* call to start */
  int in_flight_max;
  unsigned laziness; /* how long it dawdles before it starts another call */
  bool dead, frozen;
  bool failed; /* a call of it has; it starts no more */
  gloo_error error;
  run runs[SCRIPT_CALLS_MAX];
} rank;

typedef struct job {
  script script;
  sim_world *world;
  uint64_t random, started_ns;
  rank ranks[SCRIPT_RANKS_MAX];
  job_fault fault;
  bool in_group;   /* the ranks work in a group of all, */
  uint32_t turned; /* where rank i is this much more in the root */
  uint32_t group_ids[SCRIPT_RANKS_MAX];
  uint32_t culprit, other; /* `other`: the second one of a cut */
  bool struck;             /* the fault has happened */
  int strike_at;           /* round */
  int holds; /* So many rounds the culprit starts no more calls before it is
                killed. Meanwhile time passes, ranks that are done leave, and
                those that are left find each other. */
  bool holding, unknown; /* at the kill no other rank was connected to it */
  int disagree_at;       /* call */
  char *text;
  bool broken;
  uint64_t trace; /* of what happened in each round */
} job;

/* ---- job.c --------------------------------------------------------------- */

uint64_t job_draw(job *j, uint64_t n);
void job_complain(job *j, const char *format, ...) GLI_PRINTF(2, 3);

/* Errors speak of ranks of the root. */
uint32_t job_root_rank(const job *j, uint32_t number);
uint32_t job_rank_of_root(const job *j, uint32_t number);

/* Destroy the context, and perhaps close the device: with or without somebody
 * there to refuse late connections. */
void job_leave(job *j, rank *r);

/* ---- job_calls.c --------------------------------------------------------- */

/* Start the next call if its turn has come. True when something was started. */
bool job_start_next(job *j, rank *r);

/* The latest call that the run of call `first` stands for. */
int job_current_call(const rank *r, const script *s, int first);

/* Has the run of this call just ended? Then its results are looked at. */
bool job_test_run(job *j, rank *r, int first);

/* Messages received from anybody: the k-th from each source must be the k-th
 * that it sent. */
void job_check_any(job *j, rank *r);

/* ---- job_faults.c -------------------------------------------------------- */

/* It happens now, if it can. */
void job_strike(job *j);

/* A rank that hangs makes others wait. So does one that leaves, when somebody
 * else could still send the message that a rank takes from anybody; and one
 * that is killed in the moment in which all that were connected to it have
 * left, and those that are left do not know that yet. */
bool job_may_take_a_timeout(const job *j);

/* Has the rank failed only as it had to, and says why? */
void job_judge(job *j, rank *r);

#endif
