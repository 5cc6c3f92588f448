#include "tools/run_frame.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/random.h"
#include "core/text.h"

/* Shells may print that much before the preamble. */
enum { NOISE_MAX = 1 << 16, ROOM_LEAST = 1 << 16 };

/* The last byte is the protocol. */
const uint8_t gli_run_preamble[GLI_RUN_PREAMBLE_BYTES] = {
    0,   '\r', '\n', 'g', 'l', 'o', 'o', '-',
    'a', 'g',  'e',  'n', 't', ' ', 'p', GLI_RUN_PROTOCOL};
enum { MAGIC_BYTES = GLI_RUN_PREAMBLE_BYTES - 1 };

const int gli_run_signals[GLI_RUN_SIGNALS] = {SIGINT,  SIGTERM, SIGHUP, SIGUSR1,
                                              SIGUSR2, SIGKILL, SIGCONT};

int gli_run_signal_index(int signum) {
  for (int i = 0; i < GLI_RUN_SIGNALS; i++)
    if (gli_run_signals[i] == signum) return i;
  return -1;
}

/* ---- which frames are valid ---------------------------------------------- */

enum { DOWN = 1, UP = 2 };

typedef struct frame_rule {
  const char *name;
  int direction;
  uint32_t least, most; /* bytes of the payload */
  uint32_t low, high;   /* index */
} frame_rule;

static const frame_rule rules[GLI_RUN_TYPES] = {
    [GLI_RUN_SETUP] = {"SETUP", DOWN, 1, GLI_RUN_SETUP_MAX, 0, 4095},
    [GLI_RUN_START] = {"START", DOWN, 0, 0, 1, 65535},
    [GLI_RUN_SIGNAL] = {"SIGNAL", DOWN, 0, 0, 0, GLI_RUN_SIGNALS - 1},
    [GLI_RUN_INPUT] = {"INPUT", DOWN, 0, GLI_RUN_INPUT_MAX, 0, 0},
    [GLI_RUN_CLOSE] = {"CLOSE", DOWN, 0, 0, 1, 2},
    [GLI_RUN_BEAT] = {"BEAT", DOWN | UP, 0, 0, 0, 0},
    [GLI_RUN_HELLO] = {"HELLO", UP, 1, 64, 0, 0},
    [GLI_RUN_READY] = {"READY", UP, 4, 4, 0, 4095},
    [GLI_RUN_OUTPUT] = {"OUTPUT", UP, 2, GLI_RUN_OUTPUT_MAX + 1, 0, 16383},
    [GLI_RUN_TAKEN] = {"TAKEN", UP, 0, 0, 0, 0},
    [GLI_RUN_EXITED] = {"EXITED", UP, GLI_RUN_ENDED_FIXED,
                        GLI_RUN_ENDED_FIXED + GLI_RUN_TEXT_MAX, 0, 16383},
    [GLI_RUN_FAILED] = {"FAILED", UP, 4, 4 + GLI_RUN_TEXT_MAX, 0, 4095},
    [GLI_RUN_DONE] = {"DONE", UP, 0, 0, 0, 4095},
    [GLI_RUN_BRANCH] = {"BRANCH", DOWN, 10, GLI_RUN_SETUP_MAX, 1, 4095},
    [GLI_RUN_RELEASE] = {"RELEASE", DOWN, 0, 0, 0, 4095},
    [GLI_RUN_GREETED] = {"GREETED", UP, 0, 0, 0, 4095},
    [GLI_RUN_GONE] = {"GONE", UP, 0, GLI_RUN_TEXT_MAX, 0, 4095},
};

/* Returns true if a frame with this head may arrive from that side. */
static bool is_valid(bool from_agent, const gli_run_frame *frame,
                     gloo_error *error) {
  uint32_t type = (uint32_t)frame->type;
  const frame_rule *rule = type < GLI_RUN_TYPES ? &rules[type] : &rules[0];
  const char *from = from_agent ? "the agent" : "gloo run";
  if ((rule->direction & (from_agent ? UP : DOWN)) == 0) {
    gli_fail(error, GLOO_ERR_INVALID, -1, "%s sent a frame of type %u", from,
             (unsigned)type);
    return false;
  }
  if (frame->bytes < rule->least || frame->bytes > rule->most) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%s sent a frame %s of %u bytes; valid: %u to %u", from,
             rule->name, (unsigned)frame->bytes, (unsigned)rule->least,
             (unsigned)rule->most);
    return false;
  }
  if (frame->index < rule->low || frame->index > rule->high) {
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "%s sent a frame %s for %u; valid: %u to %u", from, rule->name,
             (unsigned)frame->index, (unsigned)rule->low, (unsigned)rule->high);
    return false;
  }
  return true;
}

/* ---- reading ------------------------------------------------------------- */

uint8_t *gli_run_frames_room(gli_run_frames *f, size_t bytes) {
  if (f->at > 0) {
    memmove(f->data, f->data + f->at, f->used - f->at);
    f->used -= f->at;
    f->at = 0;
  }
  if (bytes < ROOM_LEAST) bytes = ROOM_LEAST;
  if (f->capacity - f->used < bytes) {
    size_t capacity = f->used + f->used / 2 + bytes;
    uint8_t *data = realloc(f->data, capacity);
    if (data == NULL) return NULL;
    f->data = data;
    f->capacity = capacity;
  }
  return f->data + f->used;
}

/* Skips bytes before the preamble. */
static int find_preamble(gli_run_frames *f, gloo_error *error) {
  while (f->used - f->at >= GLI_RUN_PREAMBLE_BYTES) {
    const uint8_t *at = f->data + f->at;
    if (memcmp(at, gli_run_preamble, MAGIC_BYTES) == 0) {
      if (at[MAGIC_BYTES] != GLI_RUN_PROTOCOL) {
        gli_fail(error, GLOO_ERR_INVALID, -1,
                 "its agent speaks protocol %u, and this command protocol %d: "
                 "install the same version of gloo_c on all hosts",
                 at[MAGIC_BYTES], GLI_RUN_PROTOCOL);
        return -1;
      }
      f->at += GLI_RUN_PREAMBLE_BYTES;
      f->begun = true;
      return 1;
    }
    f->at++;
    if (++f->noise <= NOISE_MAX) continue;
    gli_fail(error, GLOO_ERR_INVALID, -1,
             "its shell printed more than %d bytes before the agent started: "
             "check what the shell's startup files print there",
             NOISE_MAX);
    return -1;
  }
  return 0;
}

int gli_run_frames_next(gli_run_frames *f, gli_run_frame *frame,
                        gloo_error *error) {
  if (f->from_agent && !f->begun) {
    int found = find_preamble(f, error);
    if (found <= 0) return found;
  }
  size_t left = f->used - f->at;
  if (left < GLI_RUN_FRAME_HEAD) return 0;
  const uint8_t *at = f->data + f->at;
  frame->type = (gli_run_type)at[0];
  frame->index = gli_get_u32(at + 1);
  frame->bytes = gli_get_u32(at + 5);
  frame->data = at + GLI_RUN_FRAME_HEAD;
  if (!is_valid(f->from_agent, frame, error)) return -1;
  if (left - GLI_RUN_FRAME_HEAD < frame->bytes) return 0;
  f->at += GLI_RUN_FRAME_HEAD + frame->bytes;
  return 1;
}

void gli_run_frames_free(gli_run_frames *f) {
  if (f->data != NULL) gli_wipe(f->data, f->capacity);
  free(f->data);
  f->data = NULL;
  f->at = f->used = f->capacity = 0;
}

/* ---- fields -------------------------------------------------------------- */

void gli_run_frame_head(uint8_t head[GLI_RUN_FRAME_HEAD], gli_run_type type,
                        uint32_t index, size_t bytes) {
  head[0] = (uint8_t)type;
  gli_put_u32(head + 1, index);
  gli_put_u32(head + 5, (uint32_t)bytes);
}

void gli_run_text_read(const uint8_t *data, size_t bytes,
                       char text[GLI_RUN_TEXT_MAX + 1]) {
  if (bytes > GLI_RUN_TEXT_MAX) bytes = GLI_RUN_TEXT_MAX;
  for (size_t i = 0; i < bytes; i++)
    text[i] = data[i] == 0 ? ' ' : (char)data[i];
  text[bytes] = '\0';
  gli_make_printable(text);
}

size_t gli_run_end_write(const gli_run_end *end,
                         uint8_t to[GLI_RUN_ENDED_FIXED + GLI_RUN_TEXT_MAX]) {
  size_t bytes = strlen(end->memory);
  if (bytes > GLI_RUN_TEXT_MAX) bytes = GLI_RUN_TEXT_MAX;
  gli_put_u32(to, (uint32_t)end->pid);
  gli_put_u32(to + 4, (uint32_t)end->status);
  gli_put_u32(to + 8, (uint32_t)end->signum);
  memcpy(to + GLI_RUN_ENDED_FIXED, end->memory, bytes);
  return GLI_RUN_ENDED_FIXED + bytes;
}

gli_run_end gli_run_end_read(const gli_run_frame *frame,
                             char memory[GLI_RUN_TEXT_MAX + 1]) {
  gli_run_text_read(frame->data + GLI_RUN_ENDED_FIXED,
                    frame->bytes - GLI_RUN_ENDED_FIXED, memory);
  return (gli_run_end){
      .rank = (int)frame->index,
      .pid = (int)(gli_get_u32(frame->data) & INT32_MAX),
      .status = (int)(gli_get_u32(frame->data + 4) & 255),
      .signum = (int)(gli_get_u32(frame->data + 8) & 127),
      .memory = memory,
  };
}
