/* Standard output and standard error of `gloo run` on several hosts, written by
 * a thread: a reader that pauses, such as a pager, must not keep the loop from
 * answering agents. */
#ifndef GLI_TOOLS_RUN_WRITER_H
#define GLI_TOOLS_RUN_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

typedef struct gli_run_writer gli_run_writer;

/* Starts the thread. `changed` is called in the loop when the queue is no
 * longer full, or an output has lost its reader. Returns NULL if out of memory
 * or threads. */
gli_run_writer *gli_run_writer_open(uv_loop_t *loop, void (*changed)(void *),
                                    void *user);

/* Copies bytes to the queue of a descriptor (1 or 2). */
void gli_run_writer_put(gli_run_writer *writer, int fd, const void *data,
                        size_t bytes);

/* Returns true while the queue is full: the caller waits for `changed`. */
bool gli_run_writer_full(gli_run_writer *writer);
bool gli_run_writer_broken(gli_run_writer *writer, int fd);
/* Returns the number of calls of gli_run_writer_put. */
uint64_t gli_run_writer_count(const gli_run_writer *writer);

/* Closes its handle of the loop; `changed` is not called any more. */
void gli_run_writer_close(gli_run_writer *writer);
/* Waits until everything has been written, and frees the writer, after the loop
 * has ended. Returns why standard output could not be written (errno), or 0. */
int gli_run_writer_finish(gli_run_writer *writer);

#endif
