/* Simulated jobs. */
#include "job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/failure/failure.h"
#include "engine/state/device.h"
#include "job_parts.h"

#define TIMEOUT_NS INT64_C(5000000000)
enum { IDLE_ROUNDS_MAX = 300 };
#define HEARTBEAT_NS UINT64_C(200000000)
/* The pause of a rank before it is killed, in rounds and in time per round. */
enum { HOLDS_ROUNDS = 200 };
#define HOLDS_NS UINT64_C(5000000)

uint64_t job_draw(job *j, uint64_t n) {
  return script_random(&j->random) % n;
}

void job_complain(job *j, const char *format, ...) {
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

uint32_t job_root_rank(const job *j, uint32_t number) {
  return (number + j->turned) % j->script.ranks;
}

uint32_t job_rank_of_root(const job *j, uint32_t number) {
  return (number + j->script.ranks - j->turned) % j->script.ranks;
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
  uint32_t root = job_root_rank(j, r->number);
  r->in_flight_max =
      1 + (int)job_draw(j, job_draw(j, 3) ? 5 : SCRIPT_CALLS_MAX);
  r->leaves = job_draw(j, 3) == 0 || j->holds > 0;
  r->laziness = job_draw(j, 3) ? 2 : 2 + (unsigned)job_draw(j, 25);
  if (gli_device_open(&sim_transport, &config, false, &r->device, &error) !=
          GLOO_OK ||
      gli_context_open(r->device, root, j->script.ranks, 1000 + root, NULL,
                       TIMEOUT_NS, &r->context, &error) != GLOO_OK) {
    give_up("open", r->number, &error);
  }
  gli_device_address(r->device, address);
}

/* Some calls see a helper thread that exists and does not sleep. An operation
 * started while another one is in progress is then deferred to a later poll. */
static void pretend_to_have_a_helper(job *j, rank *r) {
  r->device->helper.exists = job_draw(j, 2);
}

static void close_device(rank *r) {
  r->device->helper.exists = false; /* no thread to be joined */
  gli_device_close(r->device);
  r->device = NULL;
}

/* Ranks may use different numbers for the same group. */
static void begin_group(job *j, rank *r) {
  gloo_error error;
  gloo_context *other;
  r->root = r->context;
  for (uint64_t i = job_draw(j, 3); i > 0; i--) {
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

/* Forms the group of this rank; other ranks may have formed it long ago. */
static void form_group(job *j, rank *r) {
  gli_member members[SCRIPT_RANKS_MAX];
  gloo_error error;
  for (uint32_t i = 0; i < j->script.ranks; i++) {
    uint32_t id = j->group_ids[i];
    members[i] = (gli_member){.rank = job_root_rank(j, i), .group = id};
  }
  r->forming = false;
  if (gli_group_form(r->context, r->root, members, j->script.ranks, r->number,
                     0, &error) != GLOO_OK) {
    job_complain(j, "rank %u cannot form the group: %s", r->number,
                 error.message);
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
      uint32_t root = job_root_rank(j, k);
      gli_context_set_peer(j->ranks[i].context, root, &addresses[k],
                           1000 + root, true);
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    rank *r = &j->ranks[i];
    if (gli_context_join_tree(r->context, &error) != GLOO_OK) {
      give_up("join the tree", i, &error);
    }
    if (j->fault == JOB_KILL)
      gli_heartbeat_start(r->context, HEARTBEAT_NS, true);
    if (!j->in_group) continue;
    begin_group(j, r);
    j->group_ids[i] = gli_group_id(r->context);
  }
}

static void destroy_operations(rank *r) {
  for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
    for (int k = 0; k < 2; k++) {
      gloo_request_destroy(r->runs[i].operation[k]);
      r->runs[i].operation[k] = NULL;
    }
  }
}

void job_leave(job *j, rank *r) {
  bool root_too = r->root && job_draw(j, 2), root_first = job_draw(j, 2);
  if (root_too && root_first) gli_context_close(r->root);
  gli_context_close(r->context);
  if (root_too && !root_first) gli_context_close(r->root);
  if (root_too) r->root = NULL;
  r->context = NULL;
  if (r->root || job_draw(j, 2)) return;
  close_device(r);
}

static void close_rank(job *j, rank *r) {
  if (job_draw(j, 2)) destroy_operations(r);
  if (r->context) gli_context_close(r->context);
  if (r->root) gli_context_close(r->root);
  destroy_operations(r);
  if (r->device) close_device(r);
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

/* ---- schedule ------------------------------------------------------------ */

/* Starts one call, or a few in a row. */
static int start_some(job *j, rank *r) {
  int started = 0;
  if (j->holding && r->number == j->culprit) return 0;
  do {
    pretend_to_have_a_helper(j, r);
    if (!job_start_next(j, r)) break;
    started++;
  } while (job_draw(j, 2));
  return started;
}

/* Runs one turn of a rank: a few actions in random order. Returns the number of
 * events. */
static int turn(job *j, rank *r) {
  int events = 0;
  if (r->context == NULL) return gli_device_progress(r->device);
  if (r->forming) {
    if (job_draw(j, 2 * r->laziness) == 0) form_group(j, r);
    return gli_device_progress(r->device);
  }
  if (job_draw(j, r->laziness) == 0) events += start_some(j, r);
  if (job_draw(j, 4)) events += gli_device_progress(r->device);
  if (job_draw(j, r->laziness) == 0) events += start_some(j, r);
  int tested = job_draw(j, 4) ? j->script.n_calls : 0; /* each test polls */
  for (int i = 0; i < tested; i++) events += job_test_run(j, r, i);
  if (r->leaves && is_finished(j, r)) job_leave(j, r);
  return events;
}

static int round_of_turns(job *j) {
  int events = 0;
  uint32_t n = j->script.ranks;
  for (uint32_t i = 0; i < n; i++) {
    rank *r = &j->ranks[job_draw(j, n)];
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
      script_describe(&j->script, job_current_call(r, &j->script, k), text);
      break;
    }
    job_complain(j, "hangs at %llu ns: rank %u waits for %s",
                 (unsigned long long)sim_now_ns(j->world), i, text);
  }
}

/* Advances the clock when no more events occur. An engine may rely on that
 * after a fault, but only briefly unless a rank hangs. */
static void let_time_pass(job *j) {
  uint64_t patience_ns = (uint64_t)TIMEOUT_NS / 5;
  if (job_may_take_a_timeout(j)) patience_ns = 20 * (uint64_t)TIMEOUT_NS;
  if (j->fault == JOB_NO_FAULT ||
      sim_now_ns(j->world) > j->started_ns + patience_ns) {
    describe_stuck(j);
  }
  sim_advance(j->world, patience_ns / 50);
}

static void job_trace(job *j, uint64_t what) {
  j->trace = (j->trace ^ what) * UINT64_C(0x100000001b3);
}

static void strike_or_hold(job *j) {
  if (j->holds == 0) {
    job_strike(j);
    return;
  }
  j->holds--;
  j->holding = true;
  sim_advance(j->world, HOLDS_NS);
  if (j->holds == 0) j->started_ns = sim_now_ns(j->world);
}

static void schedule(job *j) {
  int idle = 0;
  j->started_ns = sim_now_ns(j->world);
  for (int round = 0; !all_finished(j) && !j->broken; round++) {
    if (round >= j->strike_at) strike_or_hold(j);
    int events = round_of_turns(j);
    job_trace(j, sim_now_ns(j->world));
    job_trace(j, (uint64_t)events);
    if (job_draw(j, 4) == 0) continue; /* more turns at the same time */
    idle = sim_step(j->world) || events > 0 ? 0 : idle + 1;
    if (idle >= IDLE_ROUNDS_MAX) let_time_pass(j);
    if (idle >= IDLE_ROUNDS_MAX) idle = 0;
  }
}

static void trace_errors(job *j) {
  for (uint32_t i = 0; i < j->script.ranks; i++) {
    const char *at = j->ranks[i].failed ? j->ranks[i].error.message : "";
    while (*at != '\0') job_trace(j, (uint64_t)*at++);
  }
}

bool job_run(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES]) {
  uint64_t trace;
  return job_run_traced(seed, fault, text, &trace);
}

bool job_run_traced(uint64_t seed, job_fault fault, char text[JOB_TEXT_BYTES],
                    uint64_t *trace) {
  *trace = 0;
  job j = {.fault = fault, .text = text};
  sim_options options = sim_options_from_seed(seed);
  script_make(&j.script, seed);
  if (fault != JOB_NO_FAULT && j.script.ranks == 1) return true;
  j.random = seed ^ UINT64_C(0xabcdef);
  j.world = sim_create(&options);
  j.culprit = (uint32_t)job_draw(&j, j.script.ranks);
  j.other =
      (j.culprit + 1 + (uint32_t)job_draw(&j, j.script.ranks)) % j.script.ranks;
  j.strike_at = (int)job_draw(&j, job_draw(&j, 2) ? 20 : 200);
  j.disagree_at = (int)job_draw(&j, (uint64_t)j.script.n_calls);
  if (fault == JOB_CANCEL || fault == JOB_LEAVE) j.strike_at /= 4;
  if (fault == JOB_KILL && seed % 4 >= 2) {
    j.holds = HOLDS_ROUNDS;
    j.strike_at = 0;
    if (seed % 8 >= 4) script_have_one_message(&j.script, j.culprit, j.other);
  }
  j.in_group = seed % 2 == 0;
  if (j.in_group) j.turned = (uint32_t)job_draw(&j, j.script.ranks);
  open_ranks(&j);
  schedule(&j);
  for (uint32_t i = 0; i < j.script.ranks && !j.broken; i++) {
    job_judge(&j, &j.ranks[i]);
  }
  trace_errors(&j);
  *trace = j.trace;
  for (uint32_t i = 0; i < j.script.ranks; i++) close_rank(&j, &j.ranks[i]);
  sim_destroy(j.world);
  script_free(&j.script);
  return !j.broken;
}
