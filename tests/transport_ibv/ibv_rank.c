#include "ibv_rank.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks/sanitized.h"

/* Short messages, some of several frames, and long ones. */
static const size_t counts[] = {1, 5000, 262144};
enum { COUNTS = sizeof counts / sizeof counts[0], LARGEST = 262144 };

/* Short timeout, after which ranks stop waiting for a failed one. */
static const int64_t short_ns =
    SANITIZED ? INT64_C(8000000000) : INT64_C(2000000000);

typedef struct rank_work {
  gloo_context *context;
  int rank, size;
  int32_t *in, *out;
  ibv_report *report;
} rank_work;

static int32_t given(int rank, size_t i) {
  return rank * 1000 + (int32_t)(i % 997);
}

/* Sends to the next rank and receives from the previous one. */
static gloo_status pass_on(const rank_work *w, size_t count) {
  gloo_request *sending;
  int left = (w->rank + w->size - 1) % w->size;
  gloo_status status =
      gloo_send_start(w->context, w->in, count, GLOO_INT32,
                      (w->rank + 1) % w->size, NULL, &sending, NULL);
  if (status != GLOO_OK) return status;
  status = gloo_recv(w->context, w->out, count, GLOO_INT32, left, NULL, NULL);
  gloo_status sent = gloo_request_wait(sending, GLOO_TIMEOUT_DEFAULT, NULL);
  gloo_request_destroy(sending);
  if (status == GLOO_OK) status = sent;
  for (size_t i = 0; status == GLOO_OK && i < count; i++)
    if (w->out[i] != given(left, i)) w->report->wrong = true;
  return status;
}

static gloo_status reduce(const rank_work *w, size_t count) {
  gloo_status status = gloo_allreduce(w->context, w->in, w->out, count,
                                      GLOO_INT32, GLOO_SUM, NULL, NULL);
  for (size_t i = 0; status == GLOO_OK && i < count; i++) {
    int32_t sum = 0;
    for (int r = 0; r < w->size; r++) sum += given(r, i);
    if (w->out[i] != sum) w->report->wrong = true;
  }
  return status;
}

/* Delays one rank, so that the others sleep. */
static void be_late(const rank_work *w, int turn) {
  const struct timespec moment = {.tv_nsec = 5000000};
  if (w->rank == turn % w->size) nanosleep(&moment, NULL);
}

static gloo_status use_memory(const rank_work *w) {
  for (size_t i = 0; i < LARGEST; i++) w->in[i] = given(w->rank, i);
  for (int c = 0; c < COUNTS; c++) {
    snprintf(w->report->where, sizeof w->report->where, "messages of %zu",
             counts[c]);
    be_late(w, c);
    gloo_status status = pass_on(w, counts[c]);
    if (status != GLOO_OK) return status;
    snprintf(w->report->where, sizeof w->report->where, "allreduce of %zu",
             counts[c]);
    be_late(w, c + 1);
    status = reduce(w, counts[c]);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

static gloo_status use_malloc(rank_work *w) {
  w->in = malloc(LARGEST * sizeof *w->in);
  w->out = malloc(LARGEST * sizeof *w->out);
  gloo_status status = use_memory(w);
  free(w->in);
  free(w->out);
  return status;
}

/* Puts into the next rank's part, and gets it back. */
static gloo_status use_window(const rank_work *w, size_t count) {
  gloo_window *window;
  size_t bytes = count * sizeof *w->in;
  int right = (w->rank + 1) % w->size;
  gloo_status status =
      gloo_window_create(w->context, NULL, bytes, NULL, &window, NULL);
  if (status != GLOO_OK) return status;
  memset(w->out, 0, bytes);
  for (int round = 0; round < 2 && status == GLOO_OK; round++) {
    status = gloo_window_put(window, right, 0, w->in, bytes, NULL);
    if (status == GLOO_OK) status = gloo_window_flush(window, right, NULL);
    if (status == GLOO_OK)
      status = gloo_window_get(window, right, 0, w->out, bytes, NULL);
    if (status == GLOO_OK) status = gloo_window_fence(window, NULL);
  }
  for (size_t i = 0; status == GLOO_OK && i < count; i++)
    if (w->out[i] != given(w->rank, i)) w->report->wrong = true;
  gloo_status end = gloo_window_destroy(window, NULL);
  return status != GLOO_OK ? status : end;
}

static gloo_status use_windows(const rank_work *w) {
  for (int c = 0; c < COUNTS; c++) {
    snprintf(w->report->where, sizeof w->report->where, "a window of %zu",
             counts[c]);
    gloo_status status = use_window(w, counts[c]);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

static gloo_status use_gloo_alloc(rank_work *w) {
  void *in = NULL, *out = NULL;
  gloo_status status = gloo_alloc(LARGEST * sizeof *w->in, &in, NULL);
  if (status == GLOO_OK)
    status = gloo_alloc(LARGEST * sizeof *w->out, &out, NULL);
  w->in = in;
  w->out = out;
  if (status == GLOO_OK) status = use_memory(w);
  if (status == GLOO_OK) status = use_windows(w);
  gloo_free(in);
  gloo_free(out);
  return status;
}

static void look_at_routes(const rank_work *w) {
  ibv_report *report = w->report;
  for (int r = 0; r < w->size; r++) {
    gloo_answer answer;
    if (r == w->rank ||
        gloo_context_route(w->context, r, &answer, NULL) != GLOO_OK)
      continue;
    if (strncmp(answer.text, "RDMA", 4) == 0) { /* also over several ports */
      report->by_rdma++;
      continue;
    }
    report->by_tcp++;
    if (answer.why[0] == '\0') report->silent = true;
    memcpy(report->why, answer.why, sizeof report->why);
  }
}

static gloo_status use_device(gloo_device *device, int rank, int size,
                              gloo_store *store, int64_t timeout_ns,
                              ibv_report *report, gloo_error *error) {
  rank_work w = {.rank = rank, .size = size, .report = report};
  gloo_context_options options = GLOO_CONTEXT_OPTIONS_INIT;
  options.timeout_ns = timeout_ns > 0 ? timeout_ns : short_ns;
  strcpy(report->where, "gloo_context_create");
  gloo_status status = gloo_context_create(rank, size, store, device, &options,
                                           &w.context, error);
  if (status != GLOO_OK) return status;
  status = use_malloc(&w);
  if (status == GLOO_OK) status = use_gloo_alloc(&w);
  look_at_routes(&w);
  if (status != GLOO_OK) {
    gloo_status first = gloo_context_error(w.context, error);
    if (first != GLOO_OK) status = first;
  }
  gloo_context_destroy(w.context);
  return status;
}

void ibv_rank_run(int rank, int size, gloo_store *store, int64_t timeout_ns,
                  ibv_report *report) {
  gloo_error error = {.message = ""};
  gloo_device *device;
  gloo_device_options options = GLOO_DEVICE_OPTIONS_INIT;
  options.transport = "ibv";
  strcpy(report->where, "gloo_device_create");
  report->status = gloo_device_create(&options, &device, &error);
  if (report->status == GLOO_OK) {
    report->status =
        use_device(device, rank, size, store, timeout_ns, report, &error);
    gloo_device_destroy(device);
  }
  snprintf(report->message, sizeof report->message, "%s", error.message);
  report->ended = true;
}
