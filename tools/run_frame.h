/* Frames between `gloo run` and its agents on hosts, and the fields of their
 * payloads. Neither side trusts anything that arrives.
 *
 * An agent first writes a preamble, which ends what shells print at login. A
 * frame is its type (1 byte), an index and the length of its payload (4 bytes
 * each, little-endian), and the payload. */
#ifndef GLI_TOOLS_RUN_FRAME_H
#define GLI_TOOLS_RUN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "tools/run_policy.h"

enum {
  GLI_RUN_PROTOCOL = 1, /* changes with the frames */
  GLI_RUN_FRAME_HEAD = 9,
  GLI_RUN_TEXT_MAX = 4096,      /* bytes of a sentence */
  GLI_RUN_INPUT_MAX = 1 << 16,  /* bytes of standard input in a frame */
  GLI_RUN_OUTPUT_MAX = 2 << 20, /* bytes of output in a frame */
  GLI_RUN_SETUP_MAX = 8 << 20   /* bytes of arguments and environment */
};

typedef enum gli_run_type {
  /* from `gloo run` to agents */
  GLI_RUN_SETUP = 1, /* index: host; payload: gli_run_setup */
  GLI_RUN_START,     /* index: port of rank 0's store */
  GLI_RUN_SIGNAL,    /* index: gli_run_signals */
  GLI_RUN_INPUT,     /* standard input of rank 0; empty at its end */
  GLI_RUN_CLOSE,     /* index: 1 or 2, an output that has no reader any more */
  /* in both directions */
  GLI_RUN_BEAT,
  /* from agents */
  GLI_RUN_HELLO,  /* payload: version of gloo_c */
  GLI_RUN_READY,  /* index: host; payload: port of the store, or 0 */
  GLI_RUN_OUTPUT, /* index: rank; payload: 1 or 2, and bytes */
  GLI_RUN_TAKEN,  /* rank 0 has taken the last input */
  GLI_RUN_EXITED, /* index: rank; payload: gli_run_end */
  GLI_RUN_FAILED, /* index: host; payload: exit status, and a sentence */
  GLI_RUN_DONE,   /* index: host, which has no rank left */
  /* to and from agents that start further hosts */
  GLI_RUN_BRANCH,  /* index: first host; payload: gli_run_branch_write */
  GLI_RUN_RELEASE, /* index: host, whose agent may end */
  GLI_RUN_GREETED, /* index: host, whose agent has started */
  GLI_RUN_GONE,    /* index: host; payload: a sentence */
  GLI_RUN_TYPES
} gli_run_type;

/* Signals by their index in frames, since numbers differ between systems. */
enum { GLI_RUN_SIGNALS = GLI_RUN_FORWARDED + 2 };
extern const int gli_run_signals[GLI_RUN_SIGNALS];
int gli_run_signal_index(int signum); /* -1: never sent */

typedef struct gli_run_frame {
  gli_run_type type;
  uint32_t index, bytes;
  const uint8_t *data;
} gli_run_frame;

/* ---- reading ------------------------------------------------------------- */

/* Bytes that have arrived. Begins as zeros, except from_agent. */
typedef struct gli_run_frames {
  bool from_agent; /* direction: decides which types are valid */
  bool begun;      /* the preamble has arrived */
  uint8_t *data;
  size_t at, used, capacity;
  size_t noise; /* bytes skipped before the preamble */
} gli_run_frames;

/* Returns room for at least `bytes` more, or NULL if out of memory. The caller
 * adds the number of bytes that it wrote there to `used`. */
uint8_t *gli_run_frames_room(gli_run_frames *frames, size_t bytes);

/* Gets the next frame, whose data stay until the next call of either function.
 * Returns 1, 0 if more bytes are needed, or -1 with an error that ends the
 * connection. */
int gli_run_frames_next(gli_run_frames *frames, gli_run_frame *frame,
                        gloo_error *error);
void gli_run_frames_free(gli_run_frames *frames);

/* ---- writing ------------------------------------------------------------- */

enum { GLI_RUN_PREAMBLE_BYTES = 16 };
extern const uint8_t gli_run_preamble[GLI_RUN_PREAMBLE_BYTES];

/* Writes the head of a frame. */
void gli_run_frame_head(uint8_t head[GLI_RUN_FRAME_HEAD], gli_run_type type,
                        uint32_t index, size_t bytes);

enum { GLI_RUN_ENDED_FIXED = 12 };
/* Writes the payload of GLI_RUN_EXITED; returns its length. */
size_t gli_run_end_write(const gli_run_end *end,
                         uint8_t to[GLI_RUN_ENDED_FIXED + GLI_RUN_TEXT_MAX]);
/* Reads it; `memory` gets its clause, which the result refers to. */
gli_run_end gli_run_end_read(const gli_run_frame *frame,
                             char memory[GLI_RUN_TEXT_MAX + 1]);

/* Copies a sentence of a peer, without control characters. */
void gli_run_text_read(const uint8_t *data, size_t bytes,
                       char text[GLI_RUN_TEXT_MAX + 1]);

/* ---- the setup of a host ------------------------------------------------- */

typedef struct gli_run_setup {
  uint32_t world, first, here; /* ranks of the job, and those of the host */
  uint32_t port;               /* rank 0's store; 0: the agent picks one */
  uint32_t bind, lines;        /* switches; lines: send only whole lines */
  uint32_t grace_ms, lost_ms;
  char *directory, *chosen; /* chosen: "" or --chdir, for messages */
  char *master, *job, *secret;
  char **arguments, **variables; /* each ended by NULL */
} gli_run_setup;

/* Returns the payload, allocated, of *bytes; NULL if out of memory or above
 * GLI_RUN_SETUP_MAX. */
uint8_t *gli_run_setup_write(const gli_run_setup *setup, size_t *bytes);
/* Reads a payload; gli_run_setup_free releases it, and wipes the strings. */
bool gli_run_setup_read(const uint8_t *data, size_t bytes, gli_run_setup *setup,
                        gloo_error *error);
void gli_run_setup_free(gli_run_setup *setup);
/* Gets the ranks of the host. Returns false if they are impossible. */
bool gli_run_setup_ranks(const gli_run_frame *frame, uint32_t *first,
                         uint32_t *here);

#endif
