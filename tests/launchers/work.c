/* A rank that works until the job is to end, for tests that break jobs.
 * usage: work FOLDER
 * Each step is an allreduce. The rank writes one line when all ranks have met,
 * one at the end, and one for an error, which ends it with status 1.
 *   FOLDER/busy       from the next step on, ranks compute and make no call
 *   FOLDER/busy-RANK  as long as they have such a file
 *   FOLDER/end        all ranks end with status 0 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <uv.h>

#include "gloo_c/gloo_c.h"

static int rank = -1, size;

/* One write() keeps the line intact among those of other ranks. */
static void say(const char *what) {
  char line[GLOO_ERROR_MESSAGE_BYTES + 200];
  int bytes = snprintf(line, sizeof line, "rank %d of %d, process %ld: %s\n",
                       rank, size, (long)getpid(), what);
  if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes) _exit(9);
}

static bool exists(const char *folder, const char *name, int of) {
  char path[4096];
  if (of < 0)
    snprintf(path, sizeof path, "%s/%s", folder, name);
  else
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, of);
  return access(path, F_OK) == 0;
}

/* Numbers of ranks that have seen the files. */
typedef struct orders {
  int busy, end;
} orders;

/* Sums a vector of which each rank knows the result, but for the orders. */
static gloo_status step(gloo_context *context, const char *folder, orders *sum,
                        gloo_error *error) {
  int32_t values[256];
  for (int i = 0; i < 254; i++) values[i] = rank + i;
  values[254] = exists(folder, "busy", -1);
  values[255] = exists(folder, "end", -1);
  gloo_status status = gloo_allreduce(context, GLOO_IN_PLACE, values, 256,
                                      GLOO_INT32, GLOO_SUM, NULL, error);
  if (status != GLOO_OK) return status;
  for (int i = 0; i < 254; i++)
    if (values[i] != size * (size - 1) / 2 + size * i) {
      snprintf(error->message, sizeof error->message, "value %d is wrong", i);
      return GLOO_ERR_INTERNAL;
    }
  *sum = (orders){values[254], values[255]};
  return GLOO_OK;
}

int main(int argc, char **argv) {
  gloo_context *context;
  gloo_error error;
  if (argc != 2) return 2;
  if (gloo_init(NULL, &context, &error) != GLOO_OK)
    return say(error.message), 1;
  rank = gloo_context_rank(context);
  size = gloo_context_size(context);
  say("begins");
  for (orders sum = {0, 0}; sum.end < size;) {
    if (step(context, argv[1], &sum, &error) != GLOO_OK)
      return say(error.message), 1;
    if (sum.busy == size && exists(argv[1], "busy", rank)) {
      say("computes");
      while (exists(argv[1], "busy", rank)) uv_sleep(20);
    }
    uv_sleep(5);
  }
  say("ends");
  gloo_context_destroy(context);
  return 0;
}
