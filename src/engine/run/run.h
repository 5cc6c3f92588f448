/* The run of a plan.
 *
 * A step runs when no step before it is pending, and its completion makes the
 * steps ready that wait for it. The thread that holds the lock of the device
 * runs them before it releases the lock (gli_device_run). */
#ifndef GLI_ENGINE_RUN_RUN_H
#define GLI_ENGINE_RUN_RUN_H

#include "core/hints.h"
#include "engine/state/context.h"
#include "engine/state/device.h"

/* ---- steps that can run (run.c) ------------------------------------------ */

/* Runs all steps that are ready. Every upcall ends with it. */
void gli_device_run_all(gloo_device *device);
static inline void gli_device_run(gloo_device *device) {
  if (device->runnable != NULL) gli_device_run_all(device);
}
/* Leave newly begun operations to later polls, and start the first of them. */
void gli_device_defer(gloo_device *device);
void gli_device_start_deferred(gloo_device *device);
GLI_COLD void gli_device_leave_deferred(gli_operation *op);

void gli_operation_step_done(gli_operation *op, uint32_t step);
/* Records the rank whose message a receive step waited for. */
static inline void gli_operation_heard(gli_operation *op, uint32_t step) {
  op->about.peer = op->peers[op->plan->steps[step].peer].link->rank;
}

/* ---- start and end (start.c, end.c) -------------------------------------- */

/* Resets the state of the peers of the last run, before the next. */
GLI_COLD void gli_operation_forget_peers(gli_operation *op);
static inline void gli_operation_forget(gli_operation *op) {
  if (op->noted) gli_operation_forget_peers(op);
}
/* Starts the steps of an operation whose links are known. */
gloo_status gli_operation_launch(gli_operation *op, gloo_error *error);
/* Lists the operation that began last (device->unlisted). Most operations end
 * before anything but their caller looks for them, so every walk of the lists,
 * and every poll, lists it first. */
void gli_device_list_now(gloo_device *device);
static inline void gli_device_list(gloo_device *device) {
  if (device->unlisted != NULL) gli_device_list_now(device);
}
/* Ends an operation, with an error or (NULL) success, and takes it off its
 * lists. */
void gli_operation_finish(gli_operation *op, const gloo_error *error);

/* Ends an operation with a special ending: divides or rounds the sums of a
 * collective, copies them to their destination, and reports the end. */
GLI_COLD void gli_operation_end_specially(gli_operation *op, bool well);
/* Ends an operation that is in no list, given the ticks of its begin and end.
 */
GLI_INLINE void gli_operation_end(gli_operation *op, bool well,
                                  uint64_t started, uint64_t ended) {
  gli_trace *trace = op->context->trace;
  gli_trace_record *record = gli_trace_next(trace);
  record->about = op->about;
  record->operation = op->signature.operation;
  record->started = started;
  record->ended = ended;
  op->runs++;
  op->ticks += ended - started;
  if (op->ending == 0) {
    gli_operation_becomes(op, GLI_OPERATION_DONE);
  } else {
    gli_operation_end_specially(op, well);
  }
}

/* ---- notification (completion.c) ----------------------------------------- */

/* Reports the end of an operation: wakes waiting threads, signals the event of
 * the device, and queues its function. */
void gli_operation_note_end(gli_operation *op);
/* Closes the descriptor of the event. */
void gli_event_close(gli_event *event);
/* Takes a request out of the queue. */
void gli_operation_unqueue(gli_operation *op);
/* Makes all operations of a joined request report their end. */
static inline void gli_operation_will_tell(gli_operation *head) {
  for (gli_operation *op = head; op != NULL; op = op->also)
    op->ending |= GLI_ENDS_TOLD;
}

/* Makes all operations of a context report their end. */
static inline void gli_context_will_tell(gloo_context *context) {
  for (gli_operation *op = context->all; op != NULL; op = op->all_next)
    op->ending |= GLI_ENDS_TOLD;
}

/* ---- arrivals (receive.c, rts_cts.c) ------------------------------------- */

gloo_status gli_receive_data(gli_link *link, const gli_header *header,
                             gli_sink *sink, gloo_error *error);
/* Takes a whole message of bytes. Returns true if it was for a step that is
 * ready, which is now done. Returns false without an error if nothing changed,
 * except that a receive may have been bound to it. */
bool gli_receive_message(gli_link *link, const gli_header *header,
                         const uint8_t *payload, gloo_error *error);
/* Takes the payload of a message that gli_receive_data has placed. */
void gli_received(gli_transfer *t);
gloo_status gli_receive_rts(gli_link *link, const gli_header *header,
                            gloo_error *error);
gloo_status gli_receive_cts(gli_link *link, const gli_header *header,
                            gloo_error *error);

/* Returns the operation of a message, after binding a posted receive to its
 * first message. NULL without an error if the operation has not started here,
 * or has ended. */
gli_operation *gli_receive_operation(gli_link *link, const gli_header *header,
                                     gloo_error *error);
/* Binds a receive to the next message of a link, and starts it. */
gloo_status gli_receive_bind(gli_operation *op, gli_link *link,
                             gloo_error *error);
/* Keeps a message until its operation is known. */
void gli_receive_keep(gli_link *link, gli_early *early);
gloo_status gli_receive_no_memory(const gli_link *link, gloo_error *error);
static inline void gli_receive_done(gli_operation *op, uint32_t step) {
  op->recv_state[step] = GLI_RECV_DONE;
  gli_operation_heard(op, step);
  gli_operation_step_done(op, step);
}

/* ---- early messages (unexpected.c) --------------------------------------- */

/* Takes over the messages that arrived before the operation was started. */
gloo_status gli_early_adopt(gli_operation *op, gloo_error *error);
/* Takes the early message of a receive step that has become ready, if any.
 * Returns true if the step is now done. */
bool gli_early_ready(gli_operation *op, uint32_t step);
/* Keeps a CTS that arrived before its operation was started. */
void gli_early_keep_cts(gli_link *link, const gli_header *h);
/* Reads which peers have announced their start. */
void gli_early_read_cts(gli_operation *op);
/* Answers the peer that asks whether the operation was started. */
gloo_status gli_early_answer_rts(gli_operation *op, gli_link *link,
                                 const gli_header *header, gloo_error *error);
/* Finds the receive step of a message, and checks its form and length. */
gloo_status gli_receive_step(const gli_operation *op, gli_link *link,
                             const gli_header *header, uint32_t *step,
                             gloo_error *error);
void gli_early_attach(gli_operation *op, gli_early *early, uint32_t step);
gli_early *gli_early_attached(const gli_operation *op, uint32_t step);
gloo_status gli_early_repeated(const gli_link *link, const gli_header *header,
                               gloo_error *error);

/* ---- awaited ranks (waits.c) --------------------------------------------- */

/* Returns true if the operation waits for this peer now: for a message, or for
 * its receipt of one. */
bool gli_operation_waits_for(const gli_operation *op, uint32_t peer);
/* Returns true if the operation needs the peer now or later. */
bool gli_operation_needs(const gli_operation *op, uint32_t peer);
/* Lists the awaited ranks whose answers to PROBE lie between `least` and
 * `most`, at most gli_operation_waits_most; none for a receive from any rank. A
 * rank that waits for this one (GLI_CROSSED) counts even if its turn in the
 * plan is still to come. */
size_t gli_operation_waits(const gli_operation *op, gli_cleared least,
                           gli_cleared most, uint32_t *ranks, size_t room);
size_t gli_operation_waits_most(const gli_operation *op);

#endif
