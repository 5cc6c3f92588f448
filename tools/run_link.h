/* The connection between `gloo run` and an agent: frames over two pipes. */
#ifndef GLI_TOOLS_RUN_LINK_H
#define GLI_TOOLS_RUN_LINK_H

#include <uv.h>

#include "tools/run_frame.h"

typedef struct gli_run_link_events {
  void (*frame)(void *user, const gli_run_frame *frame);
  /* The peer has closed its end (`why` is ""), or sent something invalid. The
   * link sends nothing any more, and must be closed. */
  void (*ended)(void *user, const char *why);
  /* Few bytes are waiting to be sent, after many. NULL is allowed. */
  void (*drained)(void *user);
  /* All handles are closed. */
  void (*closed)(void *user);
} gli_run_link_events;

/* Must not move while it is open. */
typedef struct gli_run_link {
  const gli_run_link_events *events;
  void *user;
  uv_pipe_t in, out;
  uv_shutdown_t shutdown;
  gli_run_frames frames;
  uint64_t heard; /* time of the last bytes, in ms of the loop */
  int open;       /* handles that are not closed yet */
  bool ended, paused, long_queue, finishing;
} gli_run_link;

/* Initializes the handles, which the caller opens or passes to uv_spawn. */
void gli_run_link_init(gli_run_link *link, uv_loop_t *loop, bool from_agent,
                       const gli_run_link_events *events, void *user);
/* Starts to read. */
void gli_run_link_start(gli_run_link *link);
/* Copies and sends a frame. Does nothing after the end. */
void gli_run_link_send(gli_run_link *link, gli_run_type type, uint32_t index,
                       const void *data, size_t bytes);
/* Sends bytes that are no frame. */
void gli_run_link_send_raw(gli_run_link *link, const void *data, size_t bytes);
/* Returns the number of bytes that wait to be sent. */
size_t gli_run_link_queued(const gli_run_link *link);
/* Stops or continues to read. */
void gli_run_link_pause(gli_run_link *link, bool pause);
/* Closes the sending direction after the bytes that wait. */
void gli_run_link_finish(gli_run_link *link);
/* Closes the link; `closed` follows, and no other event. */
void gli_run_link_close(gli_run_link *link);

#endif
