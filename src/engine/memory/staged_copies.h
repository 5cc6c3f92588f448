/* Operations on GPU memory, which the host does not access: the plan runs on
 * images of the buffers in pinned host memory, and has copy steps
 * (plan/staged.h).
 *
 * The host keeps the order of the program's streams: a run begins with an event
 * on the stream (the gate), and no copy begins before the event is reached. So
 * a copy that has begun always ends soon, and an operation that fails does not
 * wait for the program's own work before it releases its buffers.
 *
 *   gate    copies   state
 *   closed  0        the stream has not reached the event: copy steps wait
 *   open    some     copies run; others may wait for a free slot
 *   open    0        no copy step is ready, or all are done
 *
 * The device has a list of running operations. Each poll advances them
 * (drive/driver.c), and threads sleep only briefly while there are some. */
#ifndef GLI_ENGINE_MEMORY_STAGED_COPIES_H
#define GLI_ENGINE_MEMORY_STAGED_COPIES_H

#include "engine/memory/memory.h"
#include "memory/gpu.h"

/* Locates the buffers of a prepared operation, and gives the plan host images
 * of buffers that it cannot use directly. The device's lock is released
 * meanwhile, because drivers may wait for all of a GPU's work to pin memory. */
gloo_status gli_staged_prepare(gli_operation *op, const gli_call *call,
                               gloo_error *error);
void gli_staged_free(gli_staged *staged); /* may be NULL */

/* Begins a run: marks the streams. A message to send is fetched as well. The
 * device's lock is released meanwhile. */
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

/* Makes a stream wait for the end of this run. Returns GLOO_IN_PROGRESS if the
 * host has to wait instead. The device's lock is released meanwhile. */
gloo_status gli_staged_hold_stream(gli_operation *op, void *stream,
                                   gloo_error *error);

#endif
