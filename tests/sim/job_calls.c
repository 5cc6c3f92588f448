/* Calls of the ranks of a simulated job, and checks of their results. */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "job_parts.h"
#include "kernels/reduce.h"

enum { GUARD = 16 };

/* ---- buffers ------------------------------------------------------------- */

/* Returns a buffer of random alignment between guard bytes. */
static uint8_t *guarded(job *j, size_t bytes, uint8_t **block) {
  size_t shift = (size_t)job_draw(j, 8);
  *block = malloc(bytes + 2 * GUARD + 8);
  if (*block == NULL) abort();
  memset(*block, 0x5a, bytes + 2 * GUARD + 8);
  return *block + GUARD + shift;
}

static bool guards_hold(const uint8_t *data, size_t bytes) {
  for (int i = 0; i < GUARD; i++) {
    if (data[-1 - i] != 0x5a || data[bytes + (size_t)i] != 0x5a) return false;
  }
  return true;
}

/* ---- calls --------------------------------------------------------------- */

static run *run_of(rank *r, const script *s, int call) {
  int first = s->calls[call].again_of;
  return &r->runs[first < 0 ? call : first];
}

static void prepare_buffers(job *j, rank *r, int call) {
  const script *s = &j->script;
  const script_call *c = &s->calls[call];
  run *n = run_of(r, s, call);
  size_t in_bytes = script_in_bytes(s, c, r->number);
  size_t out_bytes = script_out_bytes(s, c, r->number);
  if (n->in_block == NULL) {
    n->in = guarded(j, in_bytes, &n->in_block);
    n->out = guarded(j, out_bytes, &n->out_block);
  }
  memset(n->out, 0xa5, out_bytes);
  script_input(s, call, r->number, n->in);
  if (c->in_place && in_bytes > 0) {
    memcpy(n->out + script_in_place_offset(c, r->number), n->in, in_bytes);
  }
}

/* Returns true if this is the call that the culprit makes differently. */
static bool differs(const job *j, const rank *r, int call) {
  int first = j->script.calls[call].again_of;
  if (j->fault != JOB_DISAGREE || r->number != j->culprit) return false;
  if (j->script.calls[call].count == 0) return false;
  return (first < 0 ? call : first) == j->disagree_at;
}

/* Turns the call into another one of nearly the same shape. Otherwise a rank
 * may wait for a message that is never sent, which only the deadline
 * detects. */
static void distort(const job *j, gli_arguments *a) {
  if (a->count > 8 * j->script.ranks && j->random % 2) {
    a->count--;
    return;
  }
  for (int i = 0; i < GLOO_DTYPE_COUNT; i++) {
    gloo_dtype other = (gloo_dtype)i;
    if (other == a->dtype) continue;
    if (gloo_dtype_size(other) != gloo_dtype_size(a->dtype)) continue;
    if (!gli_reduce_kernel(other, a->op)) continue;
    a->dtype = other;
    return;
  }
}

static gli_arguments arguments_of(const job *j, const rank *r, int call) {
  const script_call *c = &j->script.calls[call];
  const run *n = &r->runs[call];
  gli_arguments a = {
      .collective = c->collective,
      .function = "script",
      .input = c->in_place ? GLOO_IN_PLACE : n->in,
      .output = n->out,
      .count = (size_t)c->count,
      .dtype = c->dtype,
      .op = c->op,
      .root = gli_collective_rooted(c->collective) ? (int)c->root : 0};
  if (differs(j, r, call)) distort(j, &a);
  return a;
}

/* Creates and starts one operation of a call. */
static gloo_status begin(job *j, rank *r, int call, bool receives,
                         gloo_request **operation) {
  const script_call *c = &j->script.calls[call];
  gli_arguments a = arguments_of(j, r, call);
  gloo_options options = GLOO_OPTIONS_INIT;
  int peer = (int)(receives ? c->from : c->to);
  int all[SCRIPT_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  options.tag = c->tag;
  options.algorithm = c->algorithm;
  if (c->collective == GLI_SENDRECV) {
    a.side = receives ? GLI_RECEIVES : GLI_SENDS;
    a.peers = &peer;
    a.n_peers = 1;
    if (receives && c->any) {
      a.peers = job_draw(j, 2) ? all : NULL;
      a.n_peers = a.peers ? j->script.ranks : 0;
    }
    if (receives) {
      a.input = NULL;
    } else {
      a.output = NULL;
    }
  }
  if (job_draw(j, 2))
    return gli_call_start(r->context, &a, &options, operation, &r->error);
  gloo_status status =
      gli_call_init(r->context, &a, &options, operation, &r->error);
  return status == GLOO_OK ? gloo_request_start(*operation, NULL) : status;
}

static void note_failure(rank *r, gloo_status status) {
  gloo_error cause;
  if (!r->failed && r->context &&
      gloo_context_error(r->context, &cause) != GLOO_OK) {
    r->error = cause;
  }
  r->failed = true;
  if (r->error.status == GLOO_OK) r->error.status = status;
}

static gloo_status start_operations(job *j, rank *r, int call, run *n) {
  const script_call *c = &j->script.calls[call];
  gloo_status status = GLOO_OK;
  if (c->again_of >= 0) {
    for (int i = 0; i < 2 && status == GLOO_OK; i++) {
      if (n->operation[i]) status = gloo_request_start(n->operation[i], NULL);
    }
    return status;
  }
  bool message = c->collective == GLI_SENDRECV;
  if (!message || c->from == r->number) {
    status = begin(j, r, call, false, &n->operation[0]);
  }
  if (status == GLOO_OK && message && c->to == r->number) {
    status = begin(j, r, call, true, &n->operation[1]);
  }
  return status;
}

bool job_start_next(job *j, rank *r) {
  const script *s = &j->script;
  while (r->next < s->n_calls &&
         !script_involves(&s->calls[r->next], r->number)) {
    r->next++;
  }
  if (r->failed || r->next == s->n_calls) return false;
  int in_flight = 0;
  for (int i = 0; i < r->next; i++) {
    in_flight += r->runs[i].started && !r->runs[i].done;
  }
  if (in_flight >= r->in_flight_max) return false;
  int call = r->next;
  run *n = run_of(r, s, call);
  if (n->started && !n->done) return false; /* to be restarted, but not yet */
  r->next++;
  prepare_buffers(j, r, call);
  n->started = true;
  n->done = false;
  /* The run of the first call stands for this one from here on. */
  n->status = start_operations(j, r, call, n);
  if (n->status != GLOO_OK) {
    n->done = true;
    note_failure(r, n->status);
  }
  return true;
}

/* ---- checking results ---------------------------------------------------- */

static void check_data(job *j, rank *r, int call, run *n) {
  script *s = &j->script;
  const script_call *c = &s->calls[call];
  char text[160];
  size_t bytes;
  script_describe(s, call, text);
  size_t out_bytes = script_out_bytes(s, c, r->number);
  size_t in_bytes = script_in_bytes(s, c, r->number);
  if (!guards_hold(n->out, out_bytes) || !guards_hold(n->in, in_bytes)) {
    job_complain(j, "rank %u wrote outside its buffers: %s", r->number, text);
  }
  uint8_t *input = malloc(in_bytes + 1);
  if (input == NULL) abort();
  script_input(s, call, r->number, input);
  if (memcmp(input, n->in, in_bytes) != 0) {
    job_complain(j, "rank %u wrote to its input: %s", r->number, text);
  }
  free(input);
  if (c->any || out_bytes == 0 || differs(j, r, call)) return;
  const uint8_t *expected = script_expected(s, call, r->number, &bytes);
  if (memcmp(n->out, expected, bytes) != 0) {
    size_t at = 0;
    while (n->out[at] == expected[at]) at++;
    job_complain(j, "rank %u has wrong data at byte %zu of %zu: %s", r->number,
                 at, bytes, text);
  }
}

int job_current_call(const rank *r, const script *s, int first) {
  int call = first;
  for (int i = first + 1; i < r->next; i++) {
    if (s->calls[i].again_of == first) call = i;
  }
  return call;
}

bool job_test_run(job *j, rank *r, int first) {
  run *n = &r->runs[first];
  gloo_status status = GLOO_OK;
  if (!n->started || n->done) return false;
  for (int i = 0; i < 2; i++) {
    if (n->operation[i] == NULL) continue;
    gloo_status one = gloo_request_test(n->operation[i], NULL);
    if (one == GLOO_IN_PROGRESS) return false;
    if (one != GLOO_OK) status = one;
  }
  n->done = true;
  n->status = status;
  if (status == GLOO_OK) {
    check_data(j, r, job_current_call(r, &j->script, first), n);
  } else {
    note_failure(r, status);
  }
  return true;
}

void job_check_any(job *j, rank *r) {
  const script *s = &j->script;
  int taken[SCRIPT_RANKS_MAX] = {0};
  for (int i = 0; i < s->n_calls; i++) {
    const script_call *c = &s->calls[i];
    if (!c->any || c->to != r->number) continue;
    run *n = &r->runs[i];
    int source = gloo_request_source(n->operation[1]);
    if (source < 0 || source >= (int)s->ranks) {
      job_complain(j, "rank %u received from rank %d", r->number, source);
      return;
    }
    int sent = script_nth_any(s, (uint32_t)source, r->number, taken[source]++);
    size_t bytes = script_out_bytes(s, c, r->number);
    uint8_t *expected = malloc(bytes + 1);
    if (expected == NULL) abort();
    if (sent >= 0) script_input(s, sent, (uint32_t)source, expected);
    if (sent < 0 || memcmp(expected, n->out, bytes) != 0) {
      job_complain(j, "rank %u got the wrong message from rank %d for call %d",
                   r->number, source, i);
    }
    free(expected);
  }
}
