/* The hosts that an agent starts for `gloo run`: it passes frames on in both
 * directions. See run_tree.h. */
#ifndef GLI_TOOLS_RUN_BRANCH_H
#define GLI_TOOLS_RUN_BRANCH_H

#include "tools/run_fleet.h"

/* Returns the payload of GLI_RUN_BRANCH, allocated, of *bytes; NULL if out of
 * memory. */
uint8_t *gli_run_branch_write(const gli_run_rsh *rsh, const gli_run_host *hosts,
                              int n, int parallel, int64_t lost_ms,
                              size_t *bytes);

typedef struct gli_run_branch gli_run_branch;

/* Starts the hosts of a frame GLI_RUN_BRANCH, with `up` as the connection to
 * `gloo run`. Calls `congested` when a frame had to wait there, and `done` when
 * nothing is left, after gli_run_branch_end. Returns NULL with an error. */
gli_run_branch *gli_run_branch_open(uv_loop_t *loop, gli_run_link *up,
                                    const gli_run_frame *frame,
                                    void (*congested)(void *user),
                                    void (*done)(void *user), void *user,
                                    gloo_error *error);

/* Returns true if the host belongs to the branch. */
bool gli_run_branch_has(const gli_run_branch *branch, uint32_t host);
/* Passes on a frame of `gloo run`, to one host or to all. */
void gli_run_branch_pass(gli_run_branch *branch, const gli_run_frame *frame);
void gli_run_branch_pause(gli_run_branch *branch, bool pause);
void gli_run_branch_end(gli_run_branch *branch);
void gli_run_branch_free(gli_run_branch *branch);

#endif
