/* The standard input of `gloo run` on several hosts, read by a thread: it may
 * be a file, a pipe or a terminal, and others may share its descriptor, which
 * must therefore stay as it is. */
#ifndef GLI_TOOLS_RUN_INPUT_H
#define GLI_TOOLS_RUN_INPUT_H

#include <stddef.h>
#include <uv.h>

typedef struct gli_run_input gli_run_input;

/* `arrived` is called in the loop with the bytes of each read; 0: the end. */
gli_run_input *gli_run_input_open(uv_loop_t *loop,
                                  void (*arrived)(void *user, const void *data,
                                                  size_t bytes),
                                  void *user);
/* Asks for the next bytes, after the last ones have arrived. */
void gli_run_input_next(gli_run_input *input);
/* Closes its handle of the loop. The thread may wait for input until the
 * process ends, and so the memory stays. */
void gli_run_input_close(gli_run_input *input);

#endif
