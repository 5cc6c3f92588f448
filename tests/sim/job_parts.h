/* Internal declarations of simulated jobs. */
#ifndef TESTS_SIM_JOB_PARTS_H
#define TESTS_SIM_JOB_PARTS_H

#include "core/error.h"
#include "job.h"

typedef struct run {
  gloo_request *operation[2]; /* send and receive, of a message to itself */
  uint8_t *in, *out;          /* inside blocks with guards around */
  uint8_t *in_block, *out_block;
  bool started, done;
  gloo_status status;
} run;

typedef struct rank {
  gloo_device *device;   /* NULL: closed */
  gloo_context *context; /* NULL: destroyed */
  gloo_context *root;    /* the parent of `context` if that is a group */
  bool forming;          /* the group is not formed yet */
  bool leaves;           /* as soon as it has no more work */
  uint32_t number;
  int next; /* call to start */
  int in_flight_max;
  unsigned laziness; /* a turn starts calls with a chance of 1 in this */
  bool dead, frozen;
  bool failed; /* one of its calls failed; it starts no more */
  gloo_error error;
  run runs[SCRIPT_CALLS_MAX];
} rank;

typedef struct job {
  script script;
  sim_world *world;
  uint64_t random, started_ns;
  rank ranks[SCRIPT_RANKS_MAX];
  job_fault fault;
  bool in_group;   /* the ranks work in a group of all ranks, */
  uint32_t turned; /* in which rank i is rank i + turned of the root */
  uint32_t group_ids[SCRIPT_RANKS_MAX];
  uint32_t culprit, other; /* `other`: the second rank of a cut */
  bool struck;             /* the fault has happened */
  int strike_at;           /* round */
  int holds; /* Number of rounds in which the culprit starts no calls before it
                is killed. Meanwhile time passes, finished ranks leave, and the
                remaining ranks connect. */
  bool holding, unknown; /* no other rank was connected to it when killed */
  int disagree_at;       /* call */
  char *text;
  bool broken;
  uint64_t trace; /* hash of the events of each round */
} job;

/* ---- job.c --------------------------------------------------------------- */

uint64_t job_draw(job *j, uint64_t n);
void job_complain(job *j, const char *format, ...) GLI_PRINTF(2, 3);

/* Returns the rank in the root, which errors refer to. */
uint32_t job_root_rank(const job *j, uint32_t number);
uint32_t job_rank_of_root(const job *j, uint32_t number);

/* Destroys the context, and perhaps closes the device; if the device stays
 * open, it refuses late connections. */
void job_leave(job *j, rank *r);

/* ---- job_calls.c --------------------------------------------------------- */

/* Starts the next call if it is due. Returns true if one was started. */
bool job_start_next(job *j, rank *r);

/* Returns the latest call that the run of call `first` stands for. */
int job_current_call(const rank *r, const script *s, int first);

/* Returns true if the run of this call has just completed; its results are
 * checked then. */
bool job_test_run(job *j, rank *r, int first);

/* Checks messages received from any rank: the k-th message from each source
 * must be the k-th that the source sent. */
void job_check_any(job *j, rank *r);

/* ---- job_faults.c -------------------------------------------------------- */

/* Injects the fault now if possible. */
void job_strike(job *j);

/* Returns true if a timeout is a legal outcome. A rank that hangs makes others
 * wait. A rank that leaves does too, if another rank could still send the
 * message of a receive from any rank; so does a rank killed just after all
 * ranks connected to it have left, while the remaining ranks do not know that
 * yet. */
bool job_may_take_a_timeout(const job *j);

/* Checks that the rank failed only if it had to, and that its error names the
 * cause. */
void job_judge(job *j, rank *r);

#endif
