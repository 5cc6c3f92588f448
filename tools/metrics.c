/* `gloo metrics`: the metrics of all ranks of a host, for Prometheus. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/metrics_server.h"
#include "tools/tools.h"
#include "tools/watch.h"

static const char *address = NULL;
static double patience_s = 0.5;

static const gli_option options[] = {
    {"listen", 'l', GLI_OPTION_TEXT, &address, "ADDRESS",
     "serve them at http://ADDRESS/metrics: HOST:PORT, [IPv6]:PORT or :PORT", 0,
     0},
    {"wait", 'w', GLI_OPTION_SECONDS, &patience_s, "S",
     "how long to wait for answers from ranks (0.5)", 0, 60},
};

static const gli_command command = {
    .name = "metrics",
    .usage = "gloo metrics [options] [DIRECTORY]",
    .about =
        "Prints the metrics of all ranks of this user's jobs on this host, or\n"
        "serves them over HTTP until SIGINT or SIGTERM, as Prometheus text or\n"
        "OpenMetrics. With DIRECTORY, of the ranks started with\n"
        "GLOO_METRICS=DIRECTORY. Port 0 stands for a free one; the URL is "
        "printed.\n"
        "Any process that can reach the address can read the metrics.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static int metrics_fail(const char *directory, int code, int status) {
  fprintf(stderr, "gloo metrics: cannot read %s: %s\n",
          directory != NULL ? directory : "the ranks", strerror(code));
  return status;
}

static int metrics_print(gli_metrics_reader *reader) {
  gli_metrics_text text;
  if (!gli_metrics_read(reader, &text))
    return metrics_fail(reader->directory, errno, GLI_EXIT_FAILED);
  size_t bytes = text.bytes[GLI_METRICS_CLASSIC];
  bool good = fwrite(text.text[GLI_METRICS_CLASSIC], 1, bytes, stdout) == bytes;
  good = fflush(stdout) == 0 && good;
  gli_metrics_text_free(&text);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}

int gli_tool_metrics(int argc, char **argv) {
  int n = 0;
  gli_parse parsed = gli_options_parse(&command, argc, argv, &n);
  if (parsed == GLI_PARSE_HELP) return GLI_EXIT_OK;
  if (parsed == GLI_PARSE_BAD) return GLI_EXIT_USAGE;
  if (n > 1)
    return gli_usage_error(&command, "takes one directory, but got '%s'",
                           argv[1]);
  gli_metrics_reader reader = {.directory = n == 1 ? argv[0] : NULL,
                               .patience_s = patience_s};
  gli_watch watch;
  bool found = n == 0 || gli_watch_find_in(&watch, argv[0]);
  int code = errno;
  if (n == 1) gli_watch_free(&watch);
  if (!found) return metrics_fail(argv[0], code, GLI_EXIT_USAGE);
  int status = address != NULL ? gli_metrics_serve(address, &reader)
                               : metrics_print(&reader);
  gli_metrics_reader_end(&reader);
  return status;
}
