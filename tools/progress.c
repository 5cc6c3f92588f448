#include "tools/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { FIRST_S = 2, LINE = 160 };

static struct {
  bool on;
  uv_thread_t thread;
  uv_mutex_t lock; /* protects all members below but `done` */
  uv_cond_t change;
  bool ending, shown;
  const char *command;
  uint64_t began_ns, total;
  atomic_uint_fast64_t done;
  char what[80];
} progress;

/* Standard error without a buffer: a child that is forked meanwhile must not
 * find its lock taken. */
static void progress_write(const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(STDERR_FILENO, text, bytes);
    if (n <= 0) return;
    text += n;
    bytes -= (size_t)n;
  }
}

/* Writes the line: "gloo bench: allreduce 4M, 5 of 24, 12 s". */
static void progress_show(void) {
  char line[LINE];
  uint64_t seconds = (uv_hrtime() - progress.began_ns) / 1000000000;
  uint64_t done = atomic_load(&progress.done);
  int used = snprintf(line, sizeof line, "\r%s: %s%s", progress.command,
                      progress.what, progress.what[0] != 0 ? ", " : "");
  if (progress.total > 0)
    used += snprintf(line + used, sizeof line - (size_t)used,
                     "%" PRIu64 " of %" PRIu64 " done, ", done, progress.total);
  snprintf(line + used, sizeof line - (size_t)used, "%" PRIu64 " s\033[K",
           seconds);
  progress_write(line, strlen(line));
  progress.shown = true;
}

static void progress_clear(void) {
  static const char clear[] = "\r\033[K";
  if (progress.shown) progress_write(clear, sizeof clear - 1);
  progress.shown = false;
}

static void progress_run(void *unused) {
  (void)unused;
  uint64_t next_ns = (uint64_t)FIRST_S * 1000000000;
  uv_mutex_lock(&progress.lock);
  while (!progress.ending) {
    uint64_t now_ns = uv_hrtime() - progress.began_ns;
    if (now_ns >= next_ns) {
      progress_show();
      next_ns = now_ns + 1000000000;
    }
    uv_cond_timedwait(&progress.change, &progress.lock, next_ns - now_ns);
  }
  uv_mutex_unlock(&progress.lock);
}

void gli_progress_begin(const char *command, uint64_t total) {
  if (progress.on || isatty(STDERR_FILENO) == 0) return;
  progress.command = command;
  progress.total = total;
  progress.began_ns = uv_hrtime();
  progress.ending = progress.shown = false;
  progress.what[0] = 0;
  atomic_store(&progress.done, 0);
  if (uv_mutex_init(&progress.lock) != 0) return;
  if (uv_cond_init(&progress.change) != 0) {
    uv_mutex_destroy(&progress.lock);
    return;
  }
  progress.on = uv_thread_create(&progress.thread, progress_run, NULL) == 0;
  if (progress.on) return;
  uv_cond_destroy(&progress.change);
  uv_mutex_destroy(&progress.lock);
}

void gli_progress_say(const char *format, ...) {
  va_list args;
  if (!progress.on) return;
  va_start(args, format);
  uv_mutex_lock(&progress.lock);
  vsnprintf(progress.what, sizeof progress.what, format, args);
  uv_mutex_unlock(&progress.lock);
  va_end(args);
}

void gli_progress_step(void) {
  atomic_fetch_add(&progress.done, 1);
}

void gli_progress_hide(void) {
  if (!progress.on) return;
  uv_mutex_lock(&progress.lock);
  progress_clear();
  uv_mutex_unlock(&progress.lock);
}

void gli_progress_end(void) {
  if (!progress.on) return;
  uv_mutex_lock(&progress.lock);
  progress.ending = true;
  progress_clear();
  uv_cond_signal(&progress.change);
  uv_mutex_unlock(&progress.lock);
  uv_thread_join(&progress.thread);
  uv_cond_destroy(&progress.change);
  uv_mutex_destroy(&progress.lock);
  progress.on = false;
}
