/* `gloo run --hosts`: controls a job whose ranks run on several hosts. */
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

#endif
