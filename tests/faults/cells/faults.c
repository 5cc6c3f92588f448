/* The list of faults. suffer.c has faults within a process, network.c those of
 * the network. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cell.h"
#include "network.h"
#include "proxy.h"
#include "ranks/sanitized.h"
#include "suffer.h"

#define SECONDS(n) INT64_C(n##000000000)
#define MILLISECONDS(n) INT64_C(n##000000)

enum {
  ONE_HOST = 1u << CELL_TCP | 1u << CELL_SHM,
  NETWORK = 1u << CELL_TCP | 1u << CELL_HOSTS,
  ANYWHERE = ONE_HOST | 1u << CELL_HOSTS,
#if defined(SANITIZED_FOR_MEMORY)
  WITH_LITTLE_MEMORY = 0 /* the sanitizer itself needs much memory */
#else
  WITH_LITTLE_MEMORY = ANYWHERE
#endif
};

/* ---- by the driver ------------------------------------------------------- */

static void signal_victim(cell_run *run, int number) {
  (void)kill(run->pids[run->c->victim], number);
}

static void strike_kill(cell_run *run) {
  signal_victim(run, SIGKILL);
}

static void strike_stop(cell_run *run) {
  signal_victim(run, SIGSTOP);
}

static void heal_stop(cell_run *run) {
  signal_victim(run, SIGCONT);
}

static void strike_store(cell_run *run) {
  cell_store_end(run);
}

/* ---- by the rank itself -------------------------------------------------- */

static void act_exit(gloo_context *context) {
  (void)context;
  _exit(0);
}

/* The process stays, so only the library can report the departure. */
static void act_leave(gloo_context *context) {
  gloo_context_destroy(context);
  for (;;) pause();
}

static void act_abort(gloo_context *context) {
  (void)gloo_context_abort(context, "the matrix says so", NULL);
}

static void act_slow(gloo_context *context) {
  (void)context;
  static unsigned random = 1;
  cell_nap_ns(cell_random(&random, 40) * MILLISECONDS(1));
}

#define PARTED(NAME, STRIKE, LIVES, NAMED)                                  \
  {                                                                         \
    .name = NAME, .outcome = CELL_ENDS, .heartbeat = "2", .timeout_ns = -1, \
    .promised_ns = MILLISECONDS(2500), .strike = STRIKE,                    \
    .heal = cell_heal_network, .over = 1u << CELL_HOSTS,                    \
    .victim_lives = LIVES, .named = NAMED, .settled = true                  \
  }

/* A process may continue with its remaining resources; if it fails, all ranks
 * must get an error. */
#define LACKING(NAME, SUFFER, OVER)                                            \
  {                                                                            \
    .name = NAME, .outcome = CELL_EITHER, .heartbeat = "2",                    \
    .timeout_ns = SECONDS(3), .promised_ns = SECONDS(4), .suffer = SUFFER,     \
    .over = OVER, .victim_lives = true, .at_start = true, .makes_groups = true \
  }

/* ---- the list ------------------------------------------------------------ */

#define DEPARTURE(NAME, KIND)                                               \
  {                                                                         \
    .name = NAME, .outcome = CELL_ENDS, .heartbeat = "5",                   \
    .timeout_ns = SECONDS(2), .promised_ns = SECONDS(3), .departure = KIND, \
    .over = ANYWHERE, .victim_lives = true                                  \
  }

const cell_fault cell_faults[] = {
    {.name = "none",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = -1,
     .over = ANYWHERE,
     .victim_lives = true},
    {.name = "kill",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .strike = strike_kill,
     .over = ANYWHERE},
    {.name = "kill_early",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = SECONDS(2),
     .promised_ns = SECONDS(3),
     .strike = strike_kill,
     .over = ANYWHERE,
     .early = true},
    {.name = "stop_early",
     .outcome = CELL_ENDS,
     .heartbeat = "2",
     .timeout_ns = SECONDS(2),
     .promised_ns = SECONDS(3),
     .strike = strike_stop,
     .over = ANYWHERE,
     .early = true},
    {.name = "store_dies",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = SECONDS(10),
     .strike = strike_store,
     .over = ANYWHERE,
     .victim_lives = true,
     .served = true},
    {.name = "store_dies_early",
     .outcome = CELL_EITHER,
     .heartbeat = "2",
     .timeout_ns = SECONDS(2),
     .promised_ns = SECONDS(3),
     .strike = strike_store,
     .over = ANYWHERE,
     .victim_lives = true,
     .named = CELL_ANY, /* the others miss a rank that could not join */
     .early = true,
     .served = true},
    {.name = "stop",
     .outcome = CELL_ENDS,
     .heartbeat = "2",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(2500),
     .strike = strike_stop,
     .over = ANYWHERE,
     .settled = true},
    {.name = "stop_deadline",
     .outcome = CELL_ENDS,
     .heartbeat = "0",
     .timeout_ns = SECONDS(2),
     .promised_ns = SECONDS(3),
     .strike = strike_stop,
     .over = ANYWHERE},
    {.name = "stop_continue",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = -1,
     .strike = strike_stop,
     .heal = heal_stop,
     .over = ANYWHERE,
     .victim_lives = true},
    {.name = "exit",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .act = act_exit,
     .over = ANYWHERE},
    {.name = "leave",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .act = act_leave,
     .over = ANYWHERE},
    {.name = "abort",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .act = act_abort,
     .over = ANYWHERE,
     .victim_lives = true},
    {.name = "slow",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = -1,
     .act = act_slow,
     .over = ANYWHERE,
     .victim_lives = true},
    DEPARTURE("other_count", CELL_COUNT),
    DEPARTURE("other_type", CELL_TYPE),
    DEPARTURE("other_op", CELL_OP),
    DEPARTURE("other_root", CELL_ROOT),
    DEPARTURE("other_order", CELL_ORDER),
    DEPARTURE("extra_call", CELL_EXTRA),
    DEPARTURE("missing_call", CELL_MISSING),
    DEPARTURE("alone", CELL_ALONE),
    {.name = "alone_at_end",
     .outcome = CELL_EITHER,
     .heartbeat = "5",
     .timeout_ns = SECONDS(2),
     .promised_ns = SECONDS(3),
     .departure = CELL_ALONE,
     .over = ANYWHERE,
     .victim_lives = true,
     .others_leave = true},
    {.name = "reset",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .suffer = cell_suffer_reset,
     .over = NETWORK,
     .victim_lives = true,
     .named = CELL_ANY,
     .settled = true},
    {.name = "reset_one",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .suffer = cell_suffer_reset_one,
     .over = NETWORK,
     .victim_lives = true,
     .named = CELL_ANY,
     .settled = true},
    {.name = "damage",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = SECONDS(10),
     .promised_ns = MILLISECONDS(500),
     .suffer = cell_suffer_damage,
     .over = 1u << CELL_TCP,
     .victim_lives = true,
     .setting = "GLOO_CHECKSUM",
     .value = "1"},
    PARTED("blackhole", cell_strike_blackhole, true, CELL_OTHER_SIDE),
    PARTED("loss_from", cell_strike_loss_from_victim, true, CELL_ANY),
    PARTED("loss_to", cell_strike_loss_to_victim, true, CELL_ANY),
    PARTED("half_open", cell_strike_half_open, false, CELL_OTHER_SIDE),
    {.name = "blackhole_healed",
     .outcome = CELL_GOES_ON,
     .heartbeat = "5",
     .timeout_ns = -1,
     .strike = cell_strike_blackhole,
     .heal = cell_heal_network,
     .over = 1u << CELL_HOSTS,
     .victim_lives = true},
    {.name = "mute",
     .outcome = CELL_ENDS,
     .heartbeat = "2",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(2500),
     .suffer = cell_proxy_mute,
     .over = ANYWHERE,
     .victim_lives = true,
     .settled = true},
    {.name = "deaf_mute",
     .outcome = CELL_ENDS,
     .heartbeat = "2",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(2500),
     .suffer = cell_proxy_half_open,
     .over = ANYWHERE,
     .victim_lives = true,
     .named = CELL_VICTIM_DEAF,
     .settled = true},
    {.name = "cut_one",
     .outcome = CELL_ENDS,
     .heartbeat = "5",
     .timeout_ns = -1,
     .promised_ns = MILLISECONDS(500),
     .suffer = cell_proxy_cut,
     .over = ONE_HOST,
     .victim_lives = true,
     .named = CELL_ANY,
     .settled = true},
    {.name = "busy",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = -1,
     .suffer = cell_proxy_busy,
     .over = ANYWHERE,
     .victim_lives = true},
    LACKING("no_descriptors", cell_suffer_no_descriptors, ANYWHERE),
    {.name = "no_descriptors_soon",
     .outcome = CELL_EITHER,
     .heartbeat = "2",
     .timeout_ns = SECONDS(1),
     .promised_ns = SECONDS(2),
     .suffer = cell_suffer_no_descriptors,
     .over = ANYWHERE,
     .victim_lives = true,
     .at_start = true,
     .makes_groups = true},
    LACKING("no_memory", cell_suffer_no_memory, WITH_LITTLE_MEMORY),
    LACKING("no_shared_memory", cell_suffer_no_shared_memory, ANYWHERE),
    {.name = "signals",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = -1,
     .suffer = cell_suffer_signals,
     .over = ANYWHERE,
     .victim_lives = true,
     .at_start = true},
    {.name = "clock",
     .outcome = CELL_GOES_ON,
     .heartbeat = "2",
     .timeout_ns = -1,
     .suffer = cell_suffer_clock,
     .over = ANYWHERE,
     .victim_lives = true,
     .at_start = true},
};
const int cell_fault_count = (int)(sizeof cell_faults / sizeof cell_faults[0]);
