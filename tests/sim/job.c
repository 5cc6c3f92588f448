/* Simulated jobs. */
#include "job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "core/error.h"
#include "core/reduce.h"

#define TIMEOUT_NS INT64_C(5000000000)
enum { GUARD = 16, IDLE_ROUNDS_MAX = 300 };

typedef struct run {
  gloo_operation *operation[2]; /* of a message to itself: send, receive */
  uint8_t *in, *out;            /* inside blocks with guards around */
  uint8_t *in_block, *out_block;
  bool started, done;
  gloo_status status;
} run;

typedef struct rank {
  gloo_device *device;   /* NULL: closed */
  gloo_context *context; /* NULL: destroyed */
  gloo_context *root;    /* of which it is made, where it is a group */
  bool forming;          /* it is not yet */
  bool leaves;           /* as soon as it has nothing to do any more */
  uint32_t number;
  int next; /* call to start */
  int in_flight_max;
  unsigned laziness; /* how long it dawdles before it starts another call */
  bool dead, frozen;
  bool failed; /* a call of it has; it starts no more */
  gloo_error error;
  run runs[SCRIPT_CALLS_MAX];
} rank;

typedef struct job {
  script script;
  sim_world *world;
  uint64_t random, started_ns;
  rank ranks[SCRIPT_RANKS_MAX];
  job_fault fault;
  bool in_group;   /* the ranks work in a group of all, */
  uint32_t turned; /* where rank i is this much more in the root */
  uint32_t group_ids[SCRIPT_RANKS_MAX];
  uint32_t culprit, other; /* `other`: the second one of a cut */
  bool struck;             /* the fault has happened */
  int strike_at;           /* round */
  int disagree_at;         /* call */
  char *text;
  bool broken;
} job;

static uint64_t draw(job *j, uint64_t n) {
  return script_random(&j->random) % n;
}

static void complain(job *j, const char *format, ...) GLI_PRINTF(2, 3);
static void complain(job *j, const char *format, ...) {
  if (j->broken) return;
  j->broken = true;
  int n = snprintf(j->text, JOB_TEXT_BYTES, "seed %llu, fault %d, %u ranks: ",
                   (unsigned long long)j->script.seed, (int)j->fault,
                   j->script.ranks);
  va_list args;
  va_start(args, format);
  vsnprintf(j->text + n, JOB_TEXT_BYTES - (size_t)n, format, args);
  va_end(args);
}

/* Errors speak of ranks of the root. */
static uint32_t root_rank(const job *j, uint32_t number) {
  return (number + j->turned) % j->script.ranks;
}

static uint32_t rank_of_root(const job *j, uint32_t number) {
  return (number + j->script.ranks - j->turned) % j->script.ranks;
}

/* ---- buffers ------------------------------------------------------------- */

/* At an address of any alignment, between bytes that must not change. */
static uint8_t *guarded(job *j, size_t bytes, uint8_t **block) {
  size_t shift = draw(j, 8);
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

/* The call that the culprit makes in another way than the others do. */
static bool differs(const job *j, const rank *r, int call) {
  int first = j->script.calls[call].again_of;
  if (j->fault != JOB_DISAGREE || r->number != j->culprit) return false;
  if (j->script.calls[call].count == 0) return false;
  return (first < 0 ? call : first) == j->disagree_at;
}

/* Another call of the same shape, or nearly: where a rank waits for a message
 * that nobody will ever send, only the deadline can tell. */
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

/* Make one operation of a call, started. */
static gloo_status begin(job *j, rank *r, int call, bool receives,
                         gloo_operation **operation) {
  const script_call *c = &j->script.calls[call];
  gli_arguments a = arguments_of(j, r, call);
  gloo_options options = GLOO_OPTIONS_INIT;
  int peer = (int)(receives ? c->from : c->to);
  int all[SCRIPT_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  options.tag = c->tag;
  options.algorithm = c->algorithm;
  options.error = &r->error;
  if (c->collective == GLI_SENDRECV) {
    a.side = receives ? GLI_RECEIVES : GLI_SENDS;
    a.peers = &peer;
    a.n_peers = 1;
    if (receives && c->any) {
      a.peers = draw(j, 2) ? all : NULL;
      a.n_peers = a.peers ? j->script.ranks : 0;
    }
    if (receives) {
      a.input = NULL;
    } else {
      a.output = NULL;
    }
  }
  if (draw(j, 2)) return gli_call_start(r->context, &a, &options, operation);
  gloo_status status = gli_call_init(r->context, &a, &options, operation);
  return status == GLOO_OK ? gloo_operation_start(*operation) : status;
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
      if (n->operation[i]) status = gloo_operation_start(n->operation[i]);
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

/* Start the next call if its turn has come. True when something was started. */
static bool start_next(job *j, rank *r) {
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
  /* From here on `runs` of the first call stands for this one. */
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
    complain(j, "rank %u wrote outside its buffers: %s", r->number, text);
  }
  uint8_t *input = malloc(in_bytes + 1);
  if (input == NULL) abort();
  script_input(s, call, r->number, input);
  if (memcmp(input, n->in, in_bytes) != 0) {
    complain(j, "rank %u wrote to its input: %s", r->number, text);
  }
  free(input);
  if (c->any || out_bytes == 0 || differs(j, r, call)) return;
  const uint8_t *expected = script_expected(s, call, r->number, &bytes);
  if (memcmp(n->out, expected, bytes) != 0) {
    size_t at = 0;
    while (n->out[at] == expected[at]) at++;
    complain(j, "rank %u has wrong data at byte %zu of %zu: %s", r->number, at,
             bytes, text);
  }
}

/* The latest call that `n`, the run of call `first`, stands for. */
static int current_call(const rank *r, const script *s, int first) {
  int call = first;
  for (int i = first + 1; i < r->next; i++) {
    if (s->calls[i].again_of == first) call = i;
  }
  return call;
}

static bool test_run(job *j, rank *r, int first) {
  run *n = &r->runs[first];
  gloo_status status = GLOO_OK;
  if (!n->started || n->done) return false;
  for (int i = 0; i < 2; i++) {
    if (n->operation[i] == NULL) continue;
    gloo_status one = gloo_operation_test(n->operation[i]);
    if (one == GLOO_IN_PROGRESS) return false;
    if (one != GLOO_OK) status = one;
  }
  n->done = true;
  n->status = status;
  if (status == GLOO_OK) {
    check_data(j, r, current_call(r, &j->script, first), n);
  } else {
    note_failure(r, status);
  }
  return true;
}

/* Messages received from anybody: the k-th from each source must be the k-th
 * that it sent. */
static void check_any(job *j, rank *r) {
  const script *s = &j->script;
  int taken[SCRIPT_RANKS_MAX] = {0};
  for (int i = 0; i < s->n_calls; i++) {
    const script_call *c = &s->calls[i];
    if (!c->any || c->to != r->number) continue;
    run *n = &r->runs[i];
    int source = gloo_operation_source(n->operation[1]);
    if (source < 0 || source >= (int)s->ranks) {
      complain(j, "rank %u received from rank %d", r->number, source);
      return;
    }
    int sent = script_nth_any(s, (uint32_t)source, r->number, taken[source]++);
    size_t bytes = script_out_bytes(s, c, r->number);
    uint8_t *expected = malloc(bytes + 1);
    if (expected == NULL) abort();
    if (sent >= 0) script_input(s, sent, (uint32_t)source, expected);
    if (sent < 0 || memcmp(expected, n->out, bytes) != 0) {
      complain(j, "rank %u got the wrong message from rank %d for call %d",
               r->number, source, i);
    }
    free(expected);
  }
}

/* ---- life of a job ------------------------------------------------------- */

static void give_up(const char *what, uint32_t number,
                    const gloo_error *error) {
  fprintf(stderr, "rank %u cannot %s: %s\n", number, what, error->message);
  abort();
}

static void open_rank(job *j, rank *r, gli_address *address) {
  gloo_error error;
  gli_transport_config config = {.host = sim_host(j->world, r->number),
                                 .streams = 1};
  uint32_t root = root_rank(j, r->number);
  r->in_flight_max = 1 + (int)draw(j, draw(j, 3) ? 5 : SCRIPT_CALLS_MAX);
  r->leaves = draw(j, 3) == 0;
  r->laziness = draw(j, 3) ? 2 : 2 + (unsigned)draw(j, 25);
  if (gli_device_open(&sim_transport, &config, false, &r->device, &error) !=
          GLOO_OK ||
      gli_context_open(r->device, root, j->script.ranks, 1000 + root,
                       TIMEOUT_NS, &r->context, &error) != GLOO_OK) {
    give_up("open", r->number, &error);
  }
  gli_device_address(r->device, address);
}

/* No two ranks need call a group by the same number. */
static void begin_group(job *j, rank *r) {
  gloo_error error;
  gloo_context *other;
  r->root = r->context;
  for (uint64_t i = draw(j, 3); i > 0; i--) {
    if (gli_group_begin(r->root, &other, &error) != GLOO_OK) {
      give_up("begin a group", r->number, &error);
    }
    gli_context_close(other);
  }
  if (gli_group_begin(r->root, &r->context, &error) != GLOO_OK) {
    give_up("begin a group", r->number, &error);
  }
  r->forming = true;
}

/* Others may have formed theirs long ago. */
static void form_group(job *j, rank *r) {
  gli_member members[SCRIPT_RANKS_MAX];
  gloo_error error;
  for (uint32_t i = 0; i < j->script.ranks; i++) {
    uint32_t id = j->group_ids[i];
    members[i] = (gli_member){.rank = root_rank(j, i), .group = id};
  }
  r->forming = false;
  if (gli_group_form(r->context, r->root, members, j->script.ranks, r->number,
                     0, &error) != GLOO_OK) {
    complain(j, "rank %u cannot form the group: %s", r->number, error.message);
  }
}

static void open_ranks(job *j) {
  gloo_error error;
  gli_address addresses[SCRIPT_RANKS_MAX];
  uint32_t n = j->script.ranks;
  for (uint32_t i = 0; i < n; i++) {
    j->ranks[i].number = i;
    open_rank(j, &j->ranks[i], &addresses[i]);
  }
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < n; k++) {
      uint32_t root = root_rank(j, k);
      gli_context_set_peer(j->ranks[i].context, root, &addresses[k],
                           1000 + root);
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    rank *r = &j->ranks[i];
    if (gli_context_join_tree(r->context, &error) != GLOO_OK) {
      give_up("join the tree", i, &error);
    }
    if (!j->in_group) continue;
    begin_group(j, r);
    j->group_ids[i] = gli_group_id(r->context);
  }
}

static void destroy_operations(rank *r) {
  for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
    for (int k = 0; k < 2; k++) {
      gloo_operation_destroy(r->runs[i].operation[k]);
      r->runs[i].operation[k] = NULL;
    }
  }
}

/* Destroy the context, and perhaps close the device: with or without somebody
 * there to refuse late connections. */
static void leave(job *j, rank *r) {
  bool root_too = r->root && draw(j, 2), root_first = draw(j, 2);
  if (root_too && root_first) gli_context_close(r->root);
  gli_context_close(r->context);
  if (root_too && !root_first) gli_context_close(r->root);
  if (root_too) r->root = NULL;
  r->context = NULL;
  if (r->root || draw(j, 2)) return;
  gli_device_close(r->device);
  r->device = NULL;
}

static void close_rank(job *j, rank *r) {
  if (draw(j, 2)) destroy_operations(r);
  if (r->context) gli_context_close(r->context);
  if (r->root) gli_context_close(r->root);
  destroy_operations(r);
  if (r->device) gli_device_close(r->device);
  for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
    free(r->runs[i].in_block);
    free(r->runs[i].out_block);
  }
}

static bool is_acting(const rank *r) {
  return !r->dead && !r->frozen && r->device != NULL;
}

static bool is_finished(const job *j, const rank *r) {
  if (!is_acting(r) || r->context == NULL) return true;
  for (int i = 0; i < r->next; i++) {
    if (r->runs[i].started && !r->runs[i].done) return false;
  }
  int next = r->next;
  while (next < j->script.n_calls &&
         !script_involves(&j->script.calls[next], r->number)) {
    next++;
  }
  return r->failed || next == j->script.n_calls;
}

/* ---- faults -------------------------------------------------------------- */

static void cancel_something(job *j, rank *r) {
  for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
    run *n = &r->runs[i];
    /* Messages may be withdrawn without anybody noticing. */
    if (!n->started || n->done) continue;
    if (j->script.calls[i].collective == GLI_SENDRECV) continue;
    for (int k = 0; k < 2; k++) gloo_operation_cancel(n->operation[k]);
    j->struck = true;
    return;
  }
}

static void leave_early(job *j, rank *r) {
  for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
    if (r->runs[i].started && !r->runs[i].done) return; /* between calls only */
  }
  leave(j, r);
  j->struck = true;
}

static void strike(job *j) {
  rank *r = &j->ranks[j->culprit];
  if (j->struck || r->context == NULL) return;
  switch (j->fault) {
    case JOB_KILL:
      sim_kill(j->world, j->culprit);
      r->dead = j->struck = true;
      break;
    case JOB_FREEZE:
      sim_freeze(j->world, j->culprit);
      r->frozen = j->struck = true;
      break;
    case JOB_CUT:
      j->struck =
          sim_cut(j->world, root_rank(j, j->culprit), root_rank(j, j->other));
      break;
    case JOB_LEAVE:
      leave_early(j, r);
      break;
    case JOB_CANCEL:
      cancel_something(j, r);
      break;
    case JOB_NO_FAULT:
    case JOB_DISAGREE:
    case JOB_FAULTS:
      break;
  }
}

/* ---- schedule ------------------------------------------------------------ */

/* A turn of one rank: a few things in any order. Returns what happened. */
static int turn(job *j, rank *r) {
  int events = 0;
  if (r->context == NULL) return gli_device_progress(r->device);
  if (r->forming) {
    if (draw(j, 2 * r->laziness) == 0) form_group(j, r);
    return gli_device_progress(r->device);
  }
  if (draw(j, r->laziness) == 0) events += start_next(j, r);
  if (draw(j, 4)) events += gli_device_progress(r->device);
  if (draw(j, r->laziness) == 0) events += start_next(j, r);
  for (int i = 0; i < j->script.n_calls; i++) events += test_run(j, r, i);
  if (r->leaves && is_finished(j, r)) leave(j, r);
  return events;
}

static int round_of_turns(job *j) {
  int events = 0;
  uint32_t n = j->script.ranks;
  for (uint32_t i = 0; i < n; i++) {
    rank *r = &j->ranks[draw(j, n)];
    if (is_acting(r)) events += turn(j, r);
  }
  return events;
}

static bool all_finished(const job *j) {
  for (uint32_t i = 0; i < j->script.ranks; i++) {
    if (!is_finished(j, &j->ranks[i])) return false;
  }
  return true;
}

static void describe_stuck(job *j) {
  char text[160] = "nothing that it knows of";
  for (uint32_t i = 0; i < j->script.ranks; i++) {
    rank *r = &j->ranks[i];
    if (is_finished(j, r)) continue;
    for (int k = 0; k < j->script.n_calls; k++) {
      if (!r->runs[k].started || r->runs[k].done) continue;
      script_describe(&j->script, current_call(r, &j->script, k), text);
      break;
    }
    complain(j, "hangs at %llu ns: rank %u waits for %s",
             (unsigned long long)sim_now_ns(j->world), i, text);
  }
}

/* A rank that hangs makes others wait. So does one that leaves, when somebody
 * else could still send the message that a rank takes from anybody. */
static bool may_take_a_timeout(const job *j) {
  if (j->fault == JOB_FREEZE) return true;
  for (int i = 0; i < j->script.n_calls; i++) {
    if (j->fault == JOB_LEAVE && j->script.calls[i].any) return true;
  }
  return false;
}

/* When nothing happens any more, time passes: an engine may count on that once
 * something has gone wrong, but never for long, unless a rank hangs. */
static void let_time_pass(job *j) {
  uint64_t patience_ns = (uint64_t)TIMEOUT_NS / 5;
  if (may_take_a_timeout(j)) patience_ns = 20 * (uint64_t)TIMEOUT_NS;
  if (j->fault == JOB_NO_FAULT ||
      sim_now_ns(j->world) > j->started_ns + patience_ns) {
    describe_stuck(j);
  }
  sim_advance(j->world, patience_ns / 50);
}

static void schedule(job *j) {
  int idle = 0;
  j->started_ns = sim_now_ns(j->world);
  for (int round = 0; !all_finished(j) && !j->broken; round++) {
    if (round >= j->strike_at) strike(j);
    int events = round_of_turns(j);
    if (draw(j, 4) == 0) continue; /* more turns at the same moment */
    idle = sim_step(j->world) || events > 0 ? 0 : idle + 1;
    if (idle >= IDLE_ROUNDS_MAX) let_time_pass(j);
    if (idle >= IDLE_ROUNDS_MAX) idle = 0;
  }
}

/* ---- verdict ------------------------------------------------------------- */

static bool names_culprit(const job *j, const gloo_error *error) {
  if (error->rank == (int)root_rank(j, j->culprit)) return true;
  return j->fault == JOB_CUT && error->rank == (int)root_rank(j, j->other);
}

/* A rank that has failed and gone cannot tell why: that it is gone is all that
 * those who only then turn to it can know. */
static bool names_casualty(const job *j, const gloo_error *error) {
  if (error->status != GLOO_ERR_PEER || error->rank < 0) return false;
  const rank *r = &j->ranks[rank_of_root(j, (uint32_t)error->rank)];
  return r->failed && r->context == NULL;
}

static bool is_right(const job *j, const gloo_error *error) {
  if (j->struck && names_casualty(j, error)) return true;
  if (error->status == GLOO_ERR_TIMEOUT) return may_take_a_timeout(j);
  switch (j->fault) {
    case JOB_KILL:
    case JOB_CUT:
    case JOB_LEAVE:
      return j->struck && error->status == GLOO_ERR_PEER &&
             names_culprit(j, error);
    case JOB_CANCEL:
      return j->struck && error->status == GLOO_ERR_CANCELLED &&
             names_culprit(j, error);
    case JOB_DISAGREE: /* a rank that calls with nothing to do may be off */
      return error->status == GLOO_ERR_MISMATCH ||
             (error->status == GLOO_ERR_PEER && names_culprit(j, error));
    case JOB_FREEZE: /* only timeouts, which name whoever was waited for */
    case JOB_NO_FAULT:
    case JOB_FAULTS:
      break;
  }
  return false;
}

static void judge(job *j, rank *r) {
  if (r->dead || r->frozen) return;
  if (!r->failed) {
    if (j->fault == JOB_NO_FAULT) check_any(j, r);
    return;
  }
  const gloo_error *e = &r->error;
  if (is_right(j, e)) return;
  complain(j, "culprit %u, but rank %u says %s, rank %d: %s",
           root_rank(j, j->culprit), root_rank(j, r->number),
           gloo_status_string(e->status), e->rank, e->message);
}

bool job_run(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES]) {
  job j = {.fault = fault, .text = text};
  sim_options options = sim_options_from_seed(seed);
  script_make(&j.script, seed);
  if (fault != JOB_NO_FAULT && j.script.ranks == 1) return true;
  j.random = seed ^ UINT64_C(0xabcdef);
  j.world = sim_create(&options);
  j.culprit = (uint32_t)draw(&j, j.script.ranks);
  j.other =
      (j.culprit + 1 + (uint32_t)draw(&j, j.script.ranks)) % j.script.ranks;
  j.strike_at = (int)draw(&j, draw(&j, 2) ? 20 : 200);
  j.disagree_at = (int)draw(&j, (uint64_t)j.script.n_calls);
  if (fault == JOB_CANCEL || fault == JOB_LEAVE) j.strike_at /= 4;
  j.in_group = seed % 2 == 0;
  if (j.in_group) j.turned = (uint32_t)draw(&j, j.script.ranks);
  open_ranks(&j);
  schedule(&j);
  for (uint32_t i = 0; i < j.script.ranks && !j.broken; i++) {
    judge(&j, &j.ranks[i]);
  }
  for (uint32_t i = 0; i < j.script.ranks; i++) close_rank(&j, &j.ranks[i]);
  sim_destroy(j.world);
  script_free(&j.script);
  return !j.broken;
}
