/* Operations on memory that the host does not touch (a GPU's): the plan runs on
 * images of the buffers, in memory that the GPU copies from and to quickly, and
 * has steps that copy (plan/staged.h).
 *
 * The order of the program's streams is kept by the host: a run begins by
 * marking where the stream is (the gate), and no copy begins before that mark
 * is reached. So what has begun always ends soon, and an operation that fails
 * need not wait for the program's own work before its buffers are left alone.
 *
 *   gate    under way  what it means
 *   closed  0          the stream has not come to the mark: copy steps wait
 *   open    some       copies go on; others may wait, for there are enough
 *   open    0          no copy step is ready, or all are done
 *
 * The device has a list of all that run; each poll looks after them
 * (drive/driver.c), and while there are some nobody sleeps for long. */
#ifndef GLI_ENGINE_MEMORY_STAGED_COPIES_H
#define GLI_ENGINE_MEMORY_STAGED_COPIES_H

#include "engine/memory/memory.h"
#include "memory/cuda.h"

/* Locates the buffers of a prepared operation, and gives the plan host images
 * of buffers that it cannot use directly. */
gloo_status gli_staged_prepare(gli_operation *op, const gli_call *call,
                               gloo_error *error);
void gli_staged_free(gli_staged *staged); /* may be NULL */

/* Begins a run: marks the streams. A message to send is fetched as well, and
 * the device's lock is released meanwhile. */
void gli_staged_begin(gli_operation *op);
/* Runs a COPY_IN or a COPY_OUT. */
gli_outcome gli_staged_copy(gli_operation *op, uint32_t step);
/* Begins copies that can begin, and returns the next step whose copy has ended
 * in `step`. Returns false if there is none now. */
bool gli_staged_next_done(gli_operation *op, uint32_t *step);
/* Ends the run. After a failure, waits for the copies that have begun. */
void gli_staged_end(gli_operation *op, bool well);
/* Returns the next operation in the list of the device. */
gli_operation *gli_staged_after(const gli_operation *op);
/* Returns true if the operation waits for the program's earlier work. */
bool gli_staged_is_gated(const gli_operation *op);

/* Makes a stream wait for the end of this run. */
gloo_status gli_staged_hold_stream(gli_operation *op, void *stream,
                                   gloo_error *error);

#endif
