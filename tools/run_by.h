/* `gloo run --by`: ranks on several hosts by another launcher. */
#ifndef GLI_TOOLS_RUN_BY_H
#define GLI_TOOLS_RUN_BY_H

#include "tools/run.h"
#include "tools/run_hostlist.h"

/* Prints, or executes, the command by which `by` (srun, mpirun, mpiexec) starts
 * the job on placed hosts. Values of variables never appear in it: all users
 * of a host can read its command lines. Returns the exit status; `error` is set
 * unless that is GLI_EXIT_OK. */
int gli_run_by(const char *by, bool execute, const gli_run_hosts *hosts,
               const gli_run_options *job, gloo_error *error);

#endif
