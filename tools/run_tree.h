/* A tree of agents: the fleet of `gloo run` has some hosts, each of which starts
 * further ones (run_branch.h). Frames and ends are reported by host, as if all
 * hosts belonged to the fleet. */
#ifndef GLI_TOOLS_RUN_TREE_H
#define GLI_TOOLS_RUN_TREE_H

#include "tools/run_fleet.h"

typedef struct gli_run_tree gli_run_tree;

/* Behaves like gli_run_fleet_open. `fanout` hosts are started from here; 0: all
 * hosts, and below 0: all up to 32 hosts, above that their square root. */
gli_run_tree *gli_run_tree_open(uv_loop_t *loop, const gli_run_hosts *hosts,
                                const gli_run_rsh *rsh, int parallel,
                                int fanout, int64_t lost_ms,
                                const gli_run_fleet_events *events, void *user);

/* Behave like the functions of the fleet. Frames to a host other than the
 * payloads of GLI_RUN_SETUP go to hosts that are started from here. */
void gli_run_tree_start(gli_run_tree *tree);
void gli_run_tree_send(gli_run_tree *tree, int host, gli_run_type type,
                       uint32_t index, const void *data, size_t bytes);
void gli_run_tree_pause(gli_run_tree *tree, bool pause);
void gli_run_tree_release(gli_run_tree *tree, int host);
void gli_run_tree_drop(gli_run_tree *tree, int host, const char *why);
void gli_run_tree_end(gli_run_tree *tree);
bool gli_run_tree_free(gli_run_tree *tree);

#endif
