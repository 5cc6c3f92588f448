/* Messages between two ranks, as programs that measure a network send them, to
 * be compared with those of perftest: see bench/rdma.py.
 *
 * usage: gloo run -n 2 -- messages round_trip BYTES TIMES malloc|gloo_alloc
 *        gloo run -n 2 -- messages stream BYTES TIMES malloc|gloo_alloc
 *        gloo run -n 2 -- messages get|gets BYTES TIMES malloc|gloo_alloc
 *
 * round_trip: there and back, one after the other; prints the median of the
 * microseconds of one. stream: one way, WINDOW of them at a time, until the
 * receiver says that it has all; prints 10^6 bytes per second. get: reads of the
 * other rank's window, one after the other; gets: GETS at a time, TIMES times.
 * Both print the median of the microseconds per read. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gloo_c/gloo_c.h"

enum { WINDOW = 4, GETS = 12, BUFFERS = 1 + GETS, WARM_UP = 50 };

typedef struct message_job {
  gloo_context *context;
  int rank;
  size_t bytes;
  unsigned long times;
  void *buffer[BUFFERS];
} message_job;

/* ---- there and back ------------------------------------------------------ */

static gloo_status message_send(const message_job *job, gloo_error *error) {
  return gloo_send(job->context, job->buffer[0], job->bytes, GLOO_UINT8,
                   1 - job->rank, NULL, error);
}

static gloo_status message_recv(const message_job *job, gloo_error *error) {
  return gloo_recv(job->context, job->buffer[1], job->bytes, GLOO_UINT8,
                   1 - job->rank, NULL, error);
}

static gloo_status message_and_back(const message_job *job, gloo_error *error) {
  gloo_status status =
      job->rank == 0 ? message_send(job, error) : message_recv(job, error);
  if (status != GLOO_OK) return status;
  return job->rank == 0 ? message_recv(job, error) : message_send(job, error);
}

static int by_time(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Returns the median in microseconds. */
static double message_median(const message_job *job, uint64_t *took_ns) {
  qsort(took_ns, job->times, sizeof *took_ns, by_time);
  unsigned long middle = job->times / 2;
  return (double)took_ns[middle] / 1e3;
}

static gloo_status round_trips(const message_job *job, double *figure,
                               gloo_error *error) {
  uint64_t *took_ns = calloc(job->times, sizeof *took_ns);
  gloo_status status = took_ns != NULL ? GLOO_OK : GLOO_ERR_NO_MEMORY;
  for (int i = 0; i < WARM_UP && status == GLOO_OK; i++)
    status = message_and_back(job, error);
  for (unsigned long i = 0; i < job->times && status == GLOO_OK; i++) {
    uint64_t began_ns = uv_hrtime();
    status = message_and_back(job, error);
    took_ns[i] = uv_hrtime() - began_ns;
  }
  if (status == GLOO_OK) *figure = message_median(job, took_ns);
  free(took_ns);
  return status;
}

/* ---- one way ------------------------------------------------------------- */

/* The sender reads one buffer again and again, as perftest does; the receiver
 * has a buffer for each pending message. */
static gloo_status stream_start(const message_job *job, unsigned long i,
                                gloo_request **request, gloo_error *error) {
  if (job->rank == 0)
    return gloo_send_start(job->context, job->buffer[0], job->bytes, GLOO_UINT8,
                           1, NULL, request, error);
  return gloo_recv_start(job->context, job->buffer[i % WINDOW], job->bytes,
                         GLOO_UINT8, 0, NULL, request, error);
}

static gloo_status stream_end(gloo_request **request, gloo_error *error) {
  gloo_status status = gloo_request_wait(*request, GLOO_TIMEOUT_DEFAULT, error);
  gloo_request_destroy(*request);
  *request = NULL;
  return status;
}

static gloo_status stream_messages(const message_job *job, unsigned long times,
                                   gloo_error *error) {
  gloo_request *under_way[WINDOW] = {NULL};
  gloo_status status = GLOO_OK;
  for (unsigned long i = 0; i < times && status == GLOO_OK; i++) {
    gloo_request **request = &under_way[i % WINDOW];
    if (*request != NULL) status = stream_end(request, error);
    if (status == GLOO_OK) status = stream_start(job, i, request, error);
  }
  for (int i = 0; i < WINDOW; i++) {
    if (under_way[i] == NULL) continue;
    gloo_status ended = stream_end(&under_way[i], error);
    if (status == GLOO_OK) status = ended;
  }
  if (status != GLOO_OK) return status;
  return gloo_barrier(job->context, NULL, error);
}

static gloo_status stream(const message_job *job, double *figure,
                          gloo_error *error) {
  gloo_status status = stream_messages(job, WINDOW, error);
  if (status != GLOO_OK) return status;
  uint64_t began_ns = uv_hrtime();
  status = stream_messages(job, job->times, error);
  uint64_t took_ns = uv_hrtime() - began_ns;
  *figure = (double)job->bytes * (double)job->times * 1e3 / (double)took_ns;
  return status;
}

/* ---- reads ---------------------------------------------------------------- */

/* The buffers behind the first get what is read. */
static gloo_status gets_read(const message_job *job, gloo_window *window,
                             unsigned at_once, gloo_error *error) {
  for (unsigned i = 0; i < at_once; i++) {
    gloo_status status =
        gloo_window_get(window, 1, 0, job->buffer[1 + i], job->bytes, error);
    if (status != GLOO_OK) return status;
  }
  return gloo_window_flush(window, 1, error);
}

static gloo_status gets_measure(const message_job *job, gloo_window *window,
                                unsigned at_once, double *figure,
                                gloo_error *error) {
  uint64_t *took_ns = calloc(job->times, sizeof *took_ns);
  gloo_status status = took_ns != NULL ? GLOO_OK : GLOO_ERR_NO_MEMORY;
  for (int i = 0; i < WARM_UP && status == GLOO_OK; i++)
    status = gets_read(job, window, at_once, error);
  for (unsigned long i = 0; i < job->times && status == GLOO_OK; i++) {
    uint64_t began_ns = uv_hrtime();
    status = gets_read(job, window, at_once, error);
    took_ns[i] = uv_hrtime() - began_ns;
  }
  if (status == GLOO_OK) *figure = message_median(job, took_ns) / at_once;
  free(took_ns);
  return status;
}

static gloo_status gets_run(const message_job *job, unsigned at_once,
                            double *figure, gloo_error *error) {
  gloo_window *window;
  gloo_status status = gloo_window_create(job->context, job->buffer[0],
                                          job->bytes, NULL, &window, error);
  if (status != GLOO_OK) return status;
  if (job->rank == 0)
    status = gets_measure(job, window, at_once, figure, error);
  gloo_status ended = gloo_window_destroy(window, error);
  return status != GLOO_OK ? status : ended;
}

/* ---- the command --------------------------------------------------------- */

static gloo_status buffers_make(message_job *job, bool shareable,
                                gloo_error *error) {
  for (int i = 0; i < BUFFERS; i++) {
    gloo_status status = GLOO_OK;
    if (shareable)
      status = gloo_alloc(job->bytes, &job->buffer[i], error);
    else if ((job->buffer[i] = malloc(job->bytes)) == NULL)
      status = GLOO_ERR_NO_MEMORY;
    if (status != GLOO_OK) return status;
    memset(job->buffer[i], i + 1, job->bytes);
  }
  return GLOO_OK;
}

static void buffers_free(message_job *job, bool shareable) {
  for (int i = 0; i < BUFFERS; i++) {
    if (shareable)
      gloo_free(job->buffer[i]);
    else
      free(job->buffer[i]);
  }
}

static const char *const kinds[] = {"round_trip", "stream", "get", "gets"};
enum { ROUND_TRIP, STREAM, GET, KINDS = sizeof kinds / sizeof kinds[0] };

static int kind_of(const char *name) {
  int kind = 0;
  while (kind < KINDS && strcmp(kinds[kind], name) != 0) kind++;
  return kind;
}

static gloo_status message_measure(const message_job *job, int kind,
                                   double *figure, gloo_error *error) {
  if (kind == ROUND_TRIP) return round_trips(job, figure, error);
  if (kind == STREAM) return stream(job, figure, error);
  return gets_run(job, kind == GET ? 1 : GETS, figure, error);
}

static gloo_status message_run(message_job *job, int kind, bool shareable,
                               gloo_error *error) {
  double figure = 0;
  gloo_status status = gloo_init(NULL, &job->context, error);
  if (status != GLOO_OK) return status;
  job->rank = gloo_context_rank(job->context);
  status = buffers_make(job, shareable, error);
  if (status == GLOO_OK) status = gloo_barrier(job->context, NULL, error);
  if (status == GLOO_OK) status = message_measure(job, kind, &figure, error);
  if (status == GLOO_OK && job->rank == 0) printf("%.2f\n", figure);
  gloo_context_destroy(job->context);
  buffers_free(job, shareable);
  return status;
}

int main(int argc, char **argv) {
  message_job job = {.bytes = 0};
  gloo_error error = {.message = ""};
  int kind = argc == 5 ? kind_of(argv[1]) : KINDS;
  bool shareable = argc == 5 && strcmp(argv[4], "gloo_alloc") == 0;
  if (kind < KINDS) {
    job.bytes = strtoull(argv[2], NULL, 10);
    job.times = strtoul(argv[3], NULL, 10);
  }
  if (job.bytes == 0 || job.times == 0) {
    fprintf(stderr,
            "usage: gloo run -n 2 -- messages round_trip|stream|get|gets BYTES "
            "TIMES malloc|gloo_alloc\n");
    return 2;
  }
  gloo_status status = message_run(&job, kind, shareable, &error);
  if (status == GLOO_OK) return 0;
  fprintf(stderr, "messages: rank %d: %s: %s\n", job.rank,
          gloo_status_string(status), error.message);
  return 1;
}
