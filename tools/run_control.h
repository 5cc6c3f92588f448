/* Jobs on several hosts: `gloo run --hosts`, --agent and --by. */
#ifndef GLI_TOOLS_RUN_CONTROL_H
#define GLI_TOOLS_RUN_CONTROL_H

#include <signal.h>

#include "tools/run_frame.h"
#include "tools/run_hostlist.h"
#include "tools/run_rsh.h"

typedef struct gli_run_plan {
  gli_run_hosts hosts; /* placed */
  gli_run_rsh rsh;
  gli_run_setup setup; /* the part that is the same for all hosts */
  bool prefix;
  int parallel, min_ranks;
  int fanout; /* see gli_run_tree_open */
} gli_run_plan;

/* Runs the job of a gli_run_plan, and returns its exit status. See
 * gli_run_session. */
int gli_run_control(void *plan, const sigset_t *mask);

/* Runs the ranks of this host, as frames on standard input say, for `gloo run
 * --hosts` on another one. Returns the exit status, when the connection has
 * ended and no rank is left. */
int gli_run_agent(void);

/* Prints, or executes, the command by which `by` (srun, mpirun, mpiexec) starts
 * the job on placed hosts. Values of variables never appear in it: all users
 * of a host can read its command lines. Returns the exit status; `error` is set
 * unless that is GLI_EXIT_OK. */
int gli_run_by(const char *by, bool execute, const gli_run_hosts *hosts,
               const gli_run_options *job, gloo_error *error);

#endif
