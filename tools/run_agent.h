/* `gloo run --agent`, which `gloo run --hosts` starts on each host. */
#ifndef GLI_TOOLS_RUN_AGENT_H
#define GLI_TOOLS_RUN_AGENT_H

/* Runs the ranks of this host, as frames on standard input say. Returns the
 * exit status, when the connection has ended and no rank is left. */
int gli_run_agent(void);

#endif
