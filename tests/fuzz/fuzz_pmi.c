/* Answers of a launcher: lines of PMI-1, and the address at which rank 0 serves
 * the store. The library's client keeps its state for the lifetime of the
 * process, so its source is included here. Each line of the input is the
 * launcher's next answer. */
/* Included before the macros below rename functions. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "fuzz.h"
#include "rendezvous/launch/store_pmi.h"

static fuzz_input launcher;

static ssize_t launcher_takes(int fd, const void *line, size_t bytes,
                              int flags) {
  (void)fd;
  (void)flags;
  fuzz_check(bytes > 0 && ((const char *)line)[bytes - 1] == '\n',
             "what a launcher is told is a line");
  return (ssize_t)bytes;
}

/* Returns a line, or as much of it as fits. A byte of 0xff splits the line. */
static ssize_t launcher_says(int fd, void *line, size_t room, int flags) {
  size_t n = 0;
  (void)fd;
  (void)flags;
  while (n < room && launcher.left > 0) {
    uint8_t c = fuzz_take_u8(&launcher);
    if (c == 0xff && n > 0) break;
    ((uint8_t *)line)[n++] = c;
    if (c == '\n') break;
  }
  return (ssize_t)n;
}

static int launcher_is_ready(struct pollfd *ready, int n, int ms) {
  (void)ms;
  ready->revents = ready->events;
  return n;
}

#define send launcher_takes
#define recv launcher_says
#define poll launcher_is_ready
#include "rendezvous/launch/pmi_simple.c"
#undef send
#undef recv
#undef poll

static void fuzz_converse(uint32_t rank) {
  gli_pmi_job job = {.rank = rank, .size = 4};
  gloo_error error;
  char told[GLI_PMI_TEXT_BYTES];
  simple.fd = 0;
  simple.guest = false;
  simple.broken.status = GLOO_OK;
  gloo_status status = simple_greet(GLI_NEVER, &job, &error);
  fuzz_check_error(status, &error);
  for (uint64_t round = 1; status == GLOO_OK && round < 4; round++) {
    status =
        gli_pmi_simple_ops.tell(&job, round, "served job - 4242 127.0.0.1 %",
                                told, sizeof told, GLI_NEVER, &error);
    fuzz_check_error(status, &error);
    if (status == GLOO_OK)
      fuzz_check(strlen(told) < sizeof told, "what is told ends");
  }
  simple.fd = -1;
}

static void fuzz_read_place(const char *text) {
  gli_pmi_place place, again;
  char written[GLI_PMI_PLACE_BYTES];
  if (!gli_pmi_place_read(text, &place)) return;
  gli_pmi_place_write(&place, written);
  fuzz_check(gli_pmi_place_read(written, &again),
             "what was read is written so that it can be read");
}

static void fuzz_escape(const char *text) {
  char out[64], back[4096];
  size_t at = 0, used = 0;
  back[0] = '\0';
  while (text[at] != '\0') {
    size_t before = at;
    gli_pmi_escape(text, &at, out, sizeof out);
    fuzz_check(at > before, "an escape goes on");
    if (!gli_pmi_unescape(out, back, &used, sizeof back)) return;
  }
  fuzz_check(strcmp(text, back) == 0, "what is escaped comes back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  fuzz_input input = {data, bytes};
  uint8_t kind = fuzz_take_u8(&input);
  launcher = input;
  if (kind == 'p' || kind == 'e') {
    char *text = fuzz_text(&input), back[64];
    size_t used = 0;
    if (kind == 'p') fuzz_read_place(text);
    if (kind == 'e') fuzz_escape(text);
    (void)gli_pmi_unescape(text, back, &used, sizeof back);
    free(text);
  } else {
    fuzz_converse(kind == '0' ? 0 : 1);
  }
  return 0;
}
