#include "core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/environment.h"
#include "core/text.h"

#define LINE_BYTES 1024
#define LEVEL_UNSET (-1)

static atomic_int lowest = LEVEL_UNSET;
static gloo_log_fn sink;
static void *sink_user;

static const char *const level_names[] = {"debug", "info", "warn", "error",
                                          "off"};
static const char *const level_tags[] = {"DEBUG", "INFO", "WARN", "ERROR"};

static int level_from_name(const char *name) {
  for (int i = GLOO_LOG_DEBUG; i <= GLOO_LOG_OFF; i++) {
    if (strcmp(name, level_names[i]) == 0) return i;
  }
  return LEVEL_UNSET;
}

/* Sets the level from the environment. If several threads log the first line at
 * once, one thread sets the level, and warns if the variable is invalid. */
static int level_from_environment(void) {
  const char *name = gli_environment_read("GLOO_LOG_LEVEL");
  int named = name != NULL ? level_from_name(name) : -1;
  int level = named == LEVEL_UNSET ? GLOO_LOG_WARN : named;
  int expected = LEVEL_UNSET;
  if (!atomic_compare_exchange_strong(&lowest, &expected, level)) {
    return expected;
  }
  if (named == LEVEL_UNSET && name != NULL) {
    gli_log(GLOO_LOG_WARN,
            "GLOO_LOG_LEVEL is \"%s\", which is not a level: use debug, info, "
            "warn, error or off (continuing with warn)",
            name);
  }
  return level;
}

bool gli_log_enabled(gloo_log_level level) {
  int at_least = atomic_load_explicit(&lowest, memory_order_relaxed);
  if (at_least == LEVEL_UNSET) at_least = level_from_environment();
  return level >= GLOO_LOG_DEBUG && level < GLOO_LOG_OFF &&
         (int)level >= at_least;
}

void gloo_log_set_level(gloo_log_level level) {
  int value = (int)level;
  if (value < GLOO_LOG_DEBUG) value = GLOO_LOG_DEBUG;
  if (value > GLOO_LOG_OFF) value = GLOO_LOG_OFF;
  atomic_store(&lowest, value);
}

void gloo_log_set_sink(gloo_log_fn fn, void *user) {
  sink = fn;
  sink_user = user;
}

/* Writes a line with one call, so that lines of threads and processes do not
 * mix. A failure cannot be reported anywhere, so the line is lost. */
static void write_line(const char *line, size_t length) {
  ssize_t written;
  do {
    written = write(STDERR_FILENO, line, length);
  } while (written < 0 && errno == EINTR);
}

void gli_log(gloo_log_level level, const char *format, ...) {
  char line[LINE_BYTES];
  va_list arguments;
  int saved_errno = errno;
  if (!gli_log_enabled(level)) return;
  int head = snprintf(line, sizeof line, "gloo_c %s [%ld] ", level_tags[level],
                      (long)getpid());
  size_t room = sizeof line - 1 - (size_t)head; /* room for the newline */
  va_start(arguments, format);
  if (vsnprintf(line + head, room, format, arguments) < 0) line[head] = '\0';
  va_end(arguments);
  gli_make_printable(line); /* text from peers must not break or fake lines */
  if (sink != NULL) {
    sink(level, line, sink_user);
  } else {
    size_t length = strlen(line);
    line[length] = '\n';
    write_line(line, length + 1);
  }
  errno = saved_errno;
}
