/* Frames between `gloo run` and its agents: first byte odd, those of an agent,
 * with its preamble; even: those of `gloo run`. Pieces arrive separately. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tools/run_frame.h"
#include "tools/run_hostlist.h"

static void check_setup(const gli_run_frame *frame) {
  gli_run_setup setup, again;
  gloo_error error;
  if (!gli_run_setup_read(frame->data, frame->bytes, &setup, &error)) {
    fuzz_check_error(error.status, &error);
    return;
  }
  fuzz_check(setup.world <= GLI_RUN_RANKS_MAX &&
                 setup.first + setup.here <= setup.world,
             "ranks of the job");
  size_t bytes;
  uint8_t *data = gli_run_setup_write(&setup, &bytes);
  fuzz_check(data != NULL && bytes == frame->bytes &&
                 memcmp(data, frame->data, bytes) == 0,
             "a setup is written as it was read");
  fuzz_check(gli_run_setup_read(data, bytes, &again, &error), "and read again");
  gli_run_setup_free(&again);
  gli_run_setup_free(&setup);
  free(data);
}

static void check_frame(const gli_run_frame *frame) {
  char text[GLI_RUN_TEXT_MAX + 1];
  uint8_t payload[GLI_RUN_ENDED_FIXED + GLI_RUN_TEXT_MAX];
  if (frame->type == GLI_RUN_SETUP) check_setup(frame);
  if (frame->type == GLI_RUN_SIGNAL)
    fuzz_check(gli_run_signal_index(gli_run_signals[frame->index]) ==
                   (int)frame->index,
               "a signal");
  if (frame->type == GLI_RUN_EXITED) {
    gli_run_end end = gli_run_end_read(frame, text);
    fuzz_check(end.status <= 255 && end.signum <= 127 && end.pid >= 0,
               "an end within bounds");
    fuzz_check(gli_run_end_write(&end, payload) <= sizeof payload, "its size");
  }
  if (frame->type == GLI_RUN_FAILED) {
    gli_run_text_read(frame->data + 4, frame->bytes - 4, text);
    fuzz_check(strchr(text, '\n') == NULL, "a sentence is one line");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  gli_run_frames frames = {.from_agent = fuzz_take_u8(&input) & 1};
  int got = 0;
  if (frames.from_agent) {
    uint8_t *room = gli_run_frames_room(&frames, GLI_RUN_PREAMBLE_BYTES);
    fuzz_check(room != NULL, "memory");
    memcpy(room, gli_run_preamble, GLI_RUN_PREAMBLE_BYTES);
    frames.used += GLI_RUN_PREAMBLE_BYTES;
  }
  while (input.left > 0 && got >= 0) {
    fuzz_input piece = fuzz_take_long_piece(&input);
    uint8_t *room = gli_run_frames_room(&frames, piece.left);
    fuzz_check(room != NULL, "memory");
    if (piece.left > 0) memcpy(room, piece.at, piece.left);
    frames.used += piece.left;
    gli_run_frame frame;
    gloo_error error;
    while ((got = gli_run_frames_next(&frames, &frame, &error)) > 0)
      check_frame(&frame);
    if (got < 0) fuzz_check_error(error.status, &error);
  }
  gli_run_frames_free(&frames);
  return 0;
}
